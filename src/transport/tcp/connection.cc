// What a connection sends, and who has a part in it; what it receives is in connection_input.cc.
#include "transport/tcp/connection.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "transport/tcp/parts.h"
#include "tutti/error.h"

namespace tutti::transport {
namespace {

constexpr std::size_t kGatheredBytes = 8 << 10;
// Who only sends looks this often for what the other end has to say.
constexpr std::size_t kLookEvery = 1 << 20;
constexpr std::uint64_t kEnded = ~std::uint64_t{0};

// A socket that is closed with unread bytes resets its connection, and with it what the peer has still to read. Returns
// whether the other end is still there.
bool discard_unread(int socket) {
  constexpr int kMostRounds = 256;
  std::byte unread[64 << 10];
  for (int round = 0; round < kMostRounds; ++round) {
    const ssize_t got = ::recv(socket, unread, sizeof unread, MSG_DONTWAIT);
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
  }
  return true;
}

}  // namespace

Connection::~Connection() {
  if (owned_.valid()) discard_unread(owned_.get());
}

void Connection::link(FileDescriptor socket, std::span<const std::byte> first, std::uint64_t told) {
  const Lock lock(mutex_);
  const int yes = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);  // fails on what is not TCP, as it may
  bell_.watch(socket.get());
  std::ranges::copy(first, ahead_.get());
  ahead_end_ = first.size();
  owned_ = std::move(socket);
  socket_.store(owned_.get(), std::memory_order_release);
  say(StreamHeader::Kind::opened, 0, told);
}

Stream& Connection::stream_of(std::uint64_t group) {
  std::unique_ptr<Stream>& stream = streams_[group];
  if (!stream) {
    stream = std::make_unique<Stream>();
    stream->group = group;
  }
  return *stream;
}

Stream& Connection::open(std::uint64_t group) {
  const Lock lock(mutex_);
  Stream& stream = stream_of(group);
  if (stream.state != Stream::State::open) ++open_;
  stream.state = Stream::State::open;
  return stream;
}

void Connection::close(Stream& stream) {
  const Lock lock(mutex_);
  if (stream.state == Stream::State::open) --open_;
  stream.state = Stream::State::closed;
  drop(stream);
}

void Connection::drop(Stream& stream) {
  stream.aside = {};
  stream.aside_begin = 0;
  stream.within = false;
  if (current_ == &stream) current_ = nullptr;
}

bool Connection::leave(std::uint64_t group, std::uint64_t left_at) {
  const Lock lock(mutex_);
  const auto found = streams_.find(group);
  const bool bye_comes = left_at != kEnded && (left_at == 0 || !opened_ || told_ < left_at);
  if (bye_comes && (found == streams_.end() || !found->second->bye)) {
    Stream& stream = stream_of(group);
    stream.state = Stream::State::left;
    drop(stream);
  } else if (found != streams_.end()) {
    drop(*found->second);
    streams_.erase(found);
  }
  return socket() < 0 || say(StreamHeader::Kind::bye, group);
}

bool Connection::is_drained(const Stream& stream, std::uint64_t left_at) {
  const Lock lock(mutex_);
  // What was sent may lie unread although nothing can be sent back any more.
  const bool ended = socket() < 0 ? breakage_.noted() : read_ended_;
  return ended || stream.bye || (opened_ && left_at != kEnded && told_ >= left_at);
}

bool Connection::has_arrived() {
  // The other end may be waiting for the same; where it is gone nothing will arrive any more.
  if (socket() < 0 || breakage_.noted() || !discard_unread(socket())) return true;
  int unacknowledged = 0;
  return ::ioctl(socket(), SIOCOUTQ, &unacknowledged) != 0 || unacknowledged == 0;
}

std::size_t Connection::write(iovec* parts, std::size_t count) {
  if (write_ended_) return 0;
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
  const int to = socket_.load(std::memory_order_relaxed);
  for (;;) {  // one part: the simpler call is the faster one
    const ssize_t sent =
        count == 1 ? ::send(to, parts->iov_base, parts->iov_len, kFlags) : ::sendmsg(to, &message, kFlags);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno == EINTR) continue;
    if (errno == EFAULT) refuse_memory("sends from");
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS && errno != ENOMEM) {
      write_ended_ = true;
      breakage_.note(errno);
    }
    return 0;
  }
}

bool Connection::flush_kept() {
  if (kept_begin_ < kept_.size()) {
    iovec part{kept_.data() + kept_begin_, kept_.size() - kept_begin_};
    kept_begin_ += write(&part, 1);
    if (kept_begin_ < kept_.size()) return false;
    kept_.clear();
    kept_begin_ = 0;
  }
  return !write_ended_;
}

bool Connection::flush() {
  const Lock lock(mutex_);
  return flush_kept();
}

bool Connection::flush(const Stream& stream) {
  const Lock lock(mutex_);
  const auto is_out = [&] { return queued_ - (kept_.size() - kept_begin_) >= stream.flush_at; };
  return is_out() || flush_kept() || is_out();
}

bool Connection::may_send(Stream& stream) {
  if (write_ended_ || socket_.load(std::memory_order_relaxed) < 0) return false;
  if (stream.held || sent_unread_ >= kLookEvery) {
    sent_unread_ = 0;
    distribute(nullptr);
    if (read_ahead() > 0) distribute(nullptr);
  }
  return !stream.held && flush_kept();
}

bool Connection::has_credit(Stream& stream) {
  const Lock lock(mutex_);
  const bool may = may_send(stream);
  wake_others();
  return may;
}

bool Connection::send(Stream& stream, std::span<const Piece> pieces, std::size_t bytes, std::uint64_t fingerprint) {
  const Lock lock(mutex_);
  const bool may = may_send(stream);
  wake_others();
  if (!may) return false;
  StreamHeader frame{static_cast<std::uint32_t>(bytes), StreamHeader::Kind::message, stream.group, fingerprint};
  const std::size_t whole = sizeof frame + bytes;
  if (bytes <= kGatheredBytes) {  // copied to one place: cheaper than to let the system gather it
    keep(frame, pieces, 0);
    flush_kept();
  } else {
    std::array<iovec, kMostParts> parts;
    std::size_t sent = 0, offered = 0, taken = 0;
    do {  // once, but for a message of very many pieces
      std::size_t count = 0;
      if (sent == 0) parts[count++] = {&frame, sizeof frame};
      count += parts_of(pieces, sent == 0 ? 0 : sent - sizeof frame, std::span(parts).subspan(count));
      offered = bytes_of(std::span(parts).first(count));
      try {
        taken = write(parts.data(), count);
      } catch (const Error&) {
        if (sent > 0) break_off();  // what was begun cannot be ended
        throw;
      }
      sent += taken;
    } while (taken == offered && sent < whole);
    if (!write_ended_ && sent < whole) keep(frame, pieces, sent);
  }
  sent_unread_ += whole;
  queued_ += whole;
  stream.flush_at = queued_;
  return !write_ended_;
}

void Connection::keep(const StreamHeader& frame, std::span<const Piece> pieces, std::size_t skip) {
  const auto append = [&](const std::byte* bytes, std::size_t count) {
    const std::size_t gone = std::min(skip, count);
    skip -= gone;
    kept_.insert(kept_.end(), bytes + gone, bytes + count);
  };
  if (kept_.capacity() == 0) kept_.reserve(kSlotBytes + kAheadBytes);  // once: a call makes no memory later
  append(reinterpret_cast<const std::byte*>(&frame), sizeof frame);
  for (const Piece& piece : pieces) append(piece.data, piece.bytes);
}

bool Connection::say(StreamHeader::Kind kind, std::uint64_t group, std::uint64_t number) {
  keep({0, kind, group, number}, {}, 0);
  queued_ += sizeof(StreamHeader);
  return flush_kept();
}

void Connection::break_off() {
  write_ended_ = read_ended_ = true;
  breakage_.note(EPROTO);
  ::shutdown(owned_.get(), SHUT_RDWR);
}

void Connection::wake_others() {
  if (std::exchange(woke_others_, false)) bell_.ring();
}

}  // namespace tutti::transport
