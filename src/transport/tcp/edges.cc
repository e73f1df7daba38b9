#include "transport/tcp/edges.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "tutti/error.h"

namespace tutti::transport {
namespace {

constexpr std::size_t kMostParts = 64;  // of one system call
constexpr std::size_t kGatheredBytes = 8 << 10;

// Fills `parts` with what lies behind the first `skip` bytes of `pieces`, as far as there is room; returns how many.
std::size_t parts_of(std::span<const Piece> pieces, std::size_t skip, std::span<iovec> parts) {
  std::size_t count = 0;
  for (const Piece& piece : pieces) {
    if (skip >= piece.bytes) {
      skip -= piece.bytes;
      continue;
    }
    if (count == parts.size()) break;
    parts[count++] = {piece.data + skip, piece.bytes - skip};
    skip = 0;
  }
  return count;
}

std::size_t bytes_of(std::span<const iovec> parts) {
  std::size_t bytes = 0;
  for (const iovec& part : parts) bytes += part.iov_len;
  return bytes;
}

[[noreturn]] void refuse_memory(const char* what) {
  throw Error(ErrorCode::invalid_argument, std::string("the buffer that this rank ") + what +
                                               " is no memory of this process (any more); keep buffers until their "
                                               "calls have ended");
}

[[noreturn]] void refuse_slots() {
  throw Error(ErrorCode::unsupported, "tcp: a message has no slot to work in; use try_send and try_receive");
}

}  // namespace

Loss Breakage::loss() const {
  const int number = number_.load(std::memory_order_relaxed);
  return number <= 0 || number == ECONNRESET || number == EPIPE ? Loss::reset : Loss::unreachable;
}

std::byte* TcpSender::try_begin(std::size_t) { refuse_slots(); }
void TcpSender::end(std::uint64_t) { refuse_slots(); }

std::size_t TcpSender::write(iovec* parts, std::size_t count) {
  if (ended_) return 0;
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
  for (;;) {  // one part: the simpler call is the faster one
    const ssize_t sent =
        count == 1 ? ::send(socket_, parts->iov_base, parts->iov_len, kFlags) : ::sendmsg(socket_, &message, kFlags);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno == EINTR) continue;
    if (errno == EFAULT) refuse_memory("sends from");
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS && errno != ENOMEM) {
      ended_ = true;
      wire_.breakage.note(errno);
    }
    return 0;
  }
}

bool TcpSender::try_send(std::span<const Piece> pieces, std::size_t bytes, std::uint64_t fingerprint) {
  if (bytes > slot_bytes_) {
    throw Error(ErrorCode::invalid_argument, "tcp: a message of " + std::to_string(bytes) + " bytes, more than the " +
                                                 std::to_string(slot_bytes_) + " offered");
  }
  if (!has_credit()) return false;
  StreamHeader frame{bytes, fingerprint};
  if (bytes <= kGatheredBytes) {  // copied to one place: cheaper than to let the system gather it
    keep(frame, pieces, 0);
    try_flush();
    return !ended_;
  }
  std::array<iovec, kMostParts> parts;
  std::size_t sent = 0, offered = 0, taken = 0;
  do {  // once, but for a message of very many pieces
    std::size_t count = 0;
    if (sent == 0) parts[count++] = {&frame, sizeof frame};
    count += parts_of(pieces, sent == 0 ? 0 : sent - sizeof frame, std::span(parts).subspan(count));
    offered = bytes_of(std::span(parts).first(count));
    taken = write(parts.data(), count);
    sent += taken;
  } while (taken == offered && sent < sizeof frame + bytes);
  if (ended_) return false;
  if (sent < sizeof frame + bytes) keep(frame, pieces, sent);
  return true;
}

bool TcpSender::try_send_labelled(Label label, Piece payload, std::uint64_t fingerprint) {
  const std::array<Piece, 2> pieces{Piece{label.data(), kLabelBytes}, payload};
  return try_send(pieces, kLabelBytes + payload.bytes, fingerprint);
}

void TcpSender::keep(const StreamHeader& frame, std::span<const Piece> pieces, std::size_t skip) {
  if (!kept_) kept_.reset(new std::byte[sizeof frame + slot_bytes_]);
  kept_begin_ = skip;
  std::memcpy(kept_.get(), &frame, sizeof frame);
  kept_end_ = sizeof frame;
  for (const Piece& piece : pieces) {
    // What has been sent is not copied, but keeps its place, so that offsets mean the same everywhere.
    const std::size_t gone = std::min(piece.bytes, skip - std::min(skip, kept_end_));
    if (piece.bytes > gone) std::memcpy(kept_.get() + kept_end_ + gone, piece.data + gone, piece.bytes - gone);
    kept_end_ += piece.bytes;
  }
}

bool TcpSender::try_flush() {
  if (kept_begin_ < kept_end_) {
    iovec part{kept_.get() + kept_begin_, kept_end_ - kept_begin_};
    kept_begin_ += write(&part, 1);
  }
  return kept_begin_ == kept_end_ && !ended_;
}

const std::byte* TcpReceiver::try_begin(std::size_t, std::uint64_t*) { refuse_slots(); }
void TcpReceiver::end() { refuse_slots(); }

bool TcpReceiver::link() {
  socket_ = wire_.socket.load(std::memory_order_acquire);
  if (socket_ < 0) return false;
  std::memcpy(ahead_.get(), wire_.first.data(), wire_.first.size());
  ahead_end_ = wire_.first.size();
  return true;
}

std::size_t TcpReceiver::read(iovec* parts, std::size_t count) {
  if (ended_) return 0;
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  for (;;) {
    const ssize_t got = count == 1 ? ::recv(socket_, parts->iov_base, parts->iov_len, MSG_DONTWAIT)
                                   : ::recvmsg(socket_, &message, MSG_DONTWAIT);
    if (got > 0) pace_.count_read();
    if (got > 0) return static_cast<std::size_t>(got);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EFAULT) refuse_memory("receives into");
    if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOMEM)) {
      ended_ = true;
      wire_.breakage.note(got == 0 ? 0 : errno);
    }
    return 0;
  }
}

std::size_t TcpReceiver::read_ahead() {
  if (ahead_begin_ > 0) {
    std::memmove(ahead_.get(), ahead_.get() + ahead_begin_, ahead());
    ahead_end_ -= ahead_begin_;
    ahead_begin_ = 0;
  }
  iovec part{ahead_.get() + ahead_end_, kAheadBytes - ahead_end_};
  const std::size_t got = read(&part, 1);
  ahead_end_ += got;
  return got;
}

bool TcpReceiver::find_frame(std::size_t behind) {
  if (socket_ < 0 && !link()) return false;
  const std::size_t wanted = sizeof(StreamHeader) + behind;
  if (ahead() < wanted && !(ahead() == 0 && pace_.holds())) read_ahead();
  return ahead() >= wanted;
}

StreamHeader TcpReceiver::frame_ahead() const {
  StreamHeader frame;
  std::memcpy(&frame, ahead_.get() + ahead_begin_, sizeof frame);
  return frame;
}

Arrival TcpReceiver::hear(std::uint64_t fingerprint) {
  if (within_) return Arrival::whole;
  if (!find_frame()) return Arrival::none;
  return frame_ahead().fingerprint == fingerprint ? Arrival::whole : Arrival::other;
}

bool TcpReceiver::ready() {
  if (!within_) return find_frame();
  return ahead() > 0 || read_ahead() > 0;
}

Arrival TcpReceiver::try_receive(std::span<const Piece> pieces, std::size_t bytes, std::uint64_t fingerprint) {
  if (!within_) {
    if (!find_frame()) return Arrival::none;
    const StreamHeader frame = frame_ahead();
    if (frame.bytes != bytes || frame.fingerprint != fingerprint) return Arrival::other;
    ahead_begin_ += sizeof frame;
    within_ = true;
  }
  return land_message(pieces, bytes);
}

Arrival TcpReceiver::try_label(Label& label, std::uint64_t fingerprint) {
  if (!find_frame()) return Arrival::none;
  const StreamHeader frame = frame_ahead();
  if (frame.bytes < kLabelBytes || frame.fingerprint != fingerprint) return Arrival::other;
  if (!find_frame(kLabelBytes)) return Arrival::none;
  std::memcpy(label.data(), ahead_.get() + ahead_begin_ + sizeof frame, kLabelBytes);
  return Arrival::whole;
}

Arrival TcpReceiver::try_receive_labelled(Piece payload) {
  if (!within_) {
    if (frame_ahead().bytes != kLabelBytes + payload.bytes) return Arrival::other;
    ahead_begin_ += sizeof(StreamHeader) + kLabelBytes;
    within_ = true;
  }
  return land_message({&payload, 1}, payload.bytes);
}

Arrival TcpReceiver::land_message(std::span<const Piece> pieces, std::size_t bytes) {
  const std::size_t before = landed_;
  land_ahead(pieces, bytes);
  while (landed_ < bytes && land(pieces, bytes)) {
  }
  if (landed_ < bytes) return landed_ > before ? Arrival::moved : Arrival::none;
  within_ = false;
  landed_ = 0;
  pace_.count_message();
  return Arrival::whole;
}

void TcpReceiver::land_ahead(std::span<const Piece> pieces, std::size_t bytes) {
  std::size_t skip = landed_;
  for (const Piece& piece : pieces) {
    if (ahead() == 0 || landed_ == bytes) break;
    if (skip >= piece.bytes) {
      skip -= piece.bytes;
      continue;
    }
    const std::size_t part = std::min(piece.bytes - skip, ahead());
    std::memcpy(piece.data + skip, ahead_.get() + ahead_begin_, part);
    skip = 0;
    ahead_begin_ += part;
    landed_ += part;
  }
  if (ahead() == 0) ahead_begin_ = ahead_end_ = 0;
}

bool TcpReceiver::land(std::span<const Piece> pieces, std::size_t bytes) {
  std::array<iovec, kMostParts> parts;
  std::size_t count = parts_of(pieces, landed_, std::span(parts).first(kMostParts - 1));
  const std::size_t wanted = bytes_of(std::span(parts).first(count));
  // The beginning of the message behind this one may come with the same call.
  if (wanted == bytes - landed_) parts[count++] = {ahead_.get(), kAheadBytes};
  const std::size_t got = read(parts.data(), count);
  landed_ += std::min(got, wanted);
  if (got > wanted) ahead_end_ = got - wanted;
  return got >= wanted;
}

}  // namespace tutti::transport
