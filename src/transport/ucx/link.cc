#include "transport/ucx/link.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tutti::transport {

void UcxLink::start(FileDescriptor socket, std::span<const std::byte> first) {
  socket_ = std::move(socket);
  read_.assign(first.begin(), first.end());
}

void UcxLink::end(int number) {
  if (!ended_) number_ = number;
  ended_ = true;
}

void UcxLink::say(LinkFrame frame, std::span<const std::byte> body) {
  frame.bytes = static_cast<std::uint32_t>(body.size());
  const auto* const bytes = reinterpret_cast<const std::byte*>(&frame);
  kept_.insert(kept_.end(), bytes, bytes + sizeof frame);
  kept_.insert(kept_.end(), body.begin(), body.end());
  flush();
}

bool UcxLink::flush() {
  std::size_t sent = 0;
  while (!write_ended_ && sent < kept_.size()) {
    const ssize_t now = ::send(socket(), kept_.data() + sent, kept_.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (now > 0) sent += static_cast<std::size_t>(now);
    if (now < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ENOMEM)) break;
    // What the other end said before is still there to be read.
    if (now < 0 && errno != EINTR) write_ended_ = true;
  }
  if (write_ended_) sent = kept_.size();
  kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(sent));
  return kept_.empty();
}

bool UcxLink::read() {
  std::array<std::byte, 4096> part;
  while (!ended_) {
    const ssize_t got = ::recv(socket(), part.data(), part.size(), MSG_DONTWAIT);
    if (got > 0) {
      read_.insert(read_.end(), part.begin(), part.begin() + got);
      return true;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOMEM)) return false;
    end(got == 0 ? 0 : errno);
  }
  return false;
}

std::optional<UcxLink::Message> UcxLink::next() {
  for (;;) {
    Message message;
    if (read_.size() >= sizeof message.frame) {
      std::memcpy(&message.frame, read_.data(), sizeof message.frame);
      if (message.frame.kind > LinkFrame::Kind::arrived || message.frame.bytes > kMostBytes) {
        read_.clear();
        end(EPROTO);
        return std::nullopt;
      }
      const std::size_t whole = sizeof message.frame + message.frame.bytes;
      if (read_.size() >= whole) {
        const auto end_of_it = read_.begin() + static_cast<std::ptrdiff_t>(whole);
        message.body.assign(read_.begin() + sizeof message.frame, end_of_it);
        read_.erase(read_.begin(), end_of_it);
        return message;
      }
    }
    if (!read()) return std::nullopt;
  }
}

}  // namespace tutti::transport
