// What comes on a connection, and whose it is.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "transport/tcp/connection.h"
#include "transport/tcp/parts.h"

namespace tutti::transport {
namespace {

constexpr std::size_t kMostMessage = 16 << 20;  // whatever anybody says
constexpr std::size_t kKeptCapacity = 1 << 20;  // of memory for what is set aside, when nothing is

StreamHeader header_at(const std::byte* bytes) {
  StreamHeader frame;
  std::memcpy(&frame, bytes, sizeof frame);
  return frame;
}

}  // namespace

std::size_t Connection::read(iovec* parts, std::size_t count) {
  const int from = socket_.load(std::memory_order_relaxed);
  if (read_ended_ || from < 0) return 0;
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  for (;;) {
    const ssize_t got = count == 1 ? ::recv(from, parts->iov_base, parts->iov_len, MSG_DONTWAIT)
                                   : ::recvmsg(from, &message, MSG_DONTWAIT);
    if (got > 0) {
      sent_unread_ = 0;
      return static_cast<std::size_t>(got);
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EFAULT) refuse_memory("receives into");
    if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOMEM)) {
      read_ended_ = true;
      breakage_.note(got == 0 ? 0 : errno);
      woke_others_ = open_ > 1;
    }
    return 0;
  }
}

std::size_t Connection::read_ahead() {
  if (ahead_begin_ > 0) {
    std::memmove(ahead_.get(), ahead_.get() + ahead_begin_, ahead());
    ahead_end_ -= ahead_begin_;
    ahead_begin_ = 0;
  }
  if (ahead_end_ == kAheadBytes) return 0;  // to read nothing is to be told that it has ended
  iovec part{ahead_.get() + ahead_end_, kAheadBytes - ahead_end_};
  const std::size_t got = read(&part, 1);
  ahead_end_ += got;
  return got;
}

void Connection::set_aside(Stream& stream, const void* bytes, std::size_t count) {
  const auto* const from = static_cast<const std::byte*>(bytes);
  if (stream.aside.capacity() == 0) stream.aside.reserve(kSlotBytes);
  stream.aside.insert(stream.aside.end(), from, from + count);
  if (stream.waiting() <= kHoldBytes || stream.holds) return;
  stream.holds = true;
  say(StreamHeader::Kind::hold, stream.group);
}

void Connection::use_aside(Stream& stream, std::size_t count) {
  stream.aside_begin += count;
  if (stream.waiting() == 0) {
    stream.aside.clear();
    if (stream.aside.capacity() > kKeptCapacity) stream.aside = {};
    stream.aside_begin = 0;
  } else if (stream.aside_begin >= kKeptCapacity) {
    stream.aside.erase(stream.aside.begin(),
                       stream.aside.begin() + static_cast<std::ptrdiff_t>(std::exchange(stream.aside_begin, 0)));
  }
  if (!stream.holds || stream.waiting() > kGoOnBytes) return;
  stream.holds = false;
  say(StreamHeader::Kind::go_on, stream.group);
}

void Connection::take_control(const StreamHeader& frame) {
  woke_others_ = true;
  if (frame.kind == StreamHeader::Kind::opened) {
    told_ = frame.fingerprint;
    opened_ = true;
    return;
  }
  const auto found = streams_.find(frame.group);
  if (frame.kind != StreamHeader::Kind::bye) {
    if (found != streams_.end()) found->second->held = frame.kind == StreamHeader::Kind::hold;
  } else if (found != streams_.end() && found->second->state == Stream::State::left) {
    streams_.erase(found);
  } else {
    stream_of(frame.group).bye = true;
  }
}

bool Connection::is_sound(const StreamHeader& frame) {
  const bool message = frame.kind == StreamHeader::Kind::message;
  if (frame.kind <= StreamHeader::Kind::go_on && (message ? frame.bytes <= kMostMessage : frame.bytes == 0))
    return true;
  break_off();
  ahead_begin_ = ahead_end_ = 0;
  return false;
}

void Connection::distribute(const Stream* reader) {
  for (;;) {
    if (current_left_ > 0) {
      const std::size_t part = std::min(current_left_, ahead());
      if (part == 0) return;
      if (current_ != nullptr) {
        set_aside(*current_, ahead_.get() + ahead_begin_, part);
        woke_others_ = woke_others_ || current_ != reader;
      }
      ahead_begin_ += part;
      current_left_ -= part;
    } else {
      if (ahead() < sizeof(StreamHeader)) return;
      const StreamHeader frame = header_at(ahead_.get() + ahead_begin_);
      if (reader != nullptr && frame.kind == StreamHeader::Kind::message && frame.group == reader->group &&
          reader->waiting() == 0 && frame.bytes <= kMostMessage)
        return;
      if (!is_sound(frame)) return;
      ahead_begin_ += sizeof frame;
      if (frame.kind != StreamHeader::Kind::message) {
        take_control(frame);
        continue;
      }
      Stream& stream = stream_of(frame.group);
      current_ = stream.state >= Stream::State::closed ? nullptr : &stream;
      current_left_ = frame.bytes;
      if (current_ != nullptr) {
        set_aside(stream, &frame, sizeof frame);
        woke_others_ = woke_others_ || current_ != reader;
      }
    }
  }
}

const std::byte* Connection::front(Stream& stream, Pace& pace, std::size_t behind) {
  const std::size_t wanted = sizeof(StreamHeader) + behind;
  for (;;) {
    distribute(&stream);
    if (stream.waiting() >= wanted) return stream.aside.data() + stream.aside_begin;
    if (stream.waiting() == 0 && current_left_ == 0) {
      if (ahead() >= wanted) {
        const std::byte* const first = ahead_.get() + ahead_begin_;
        // What was read no longer wakes those who sleep: it must lie where they look.
        if (open_ > 1 && ahead() > sizeof(StreamHeader) + header_at(first).bytes) {
          distribute(nullptr);
          continue;
        }
        return first;
      }
      if (ahead() == 0 && pace.holds()) return nullptr;
    }
    if (read_ahead() == 0) return nullptr;
    pace.count_read();
  }
}

// Of the message at the front, where front() has found one, so many bytes of payload.
bool Connection::has_come(const Stream& stream, std::size_t behind) const {
  return (stream.waiting() > 0 ? stream.waiting() : ahead()) >= sizeof(StreamHeader) + behind;
}

void Connection::accept(Stream& stream, std::size_t skip) {
  if (stream.waiting() > 0) {
    use_aside(stream, sizeof(StreamHeader) + skip);
  } else {
    current_ = &stream;
    current_left_ = header_at(ahead_.get() + ahead_begin_).bytes - skip;
    ahead_begin_ += sizeof(StreamHeader) + skip;
  }
  stream.within = true;
  stream.landed = 0;
}

Arrival Connection::hear(Stream& stream, Pace& pace, std::uint64_t fingerprint) {
  const Lock lock(mutex_);
  if (stream.within) return Arrival::whole;
  const std::byte* const first = front(stream, pace);
  wake_others();
  if (first == nullptr) return Arrival::none;
  return header_at(first).fingerprint == fingerprint ? Arrival::whole : Arrival::other;
}

bool Connection::ready(Stream& stream, Pace& pace) {
  const Lock lock(mutex_);
  bool found = false;
  if (!stream.within) {
    found = front(stream, pace) != nullptr;
  } else {
    found = stream.waiting() > 0 || (current_ == &stream && (ahead() > 0 || read_ahead() > 0));
  }
  wake_others();
  return found;
}

Arrival Connection::receive(Stream& stream, Pace& pace, std::span<const Piece> pieces, std::size_t bytes,
                            std::uint64_t fingerprint) {
  const Lock lock(mutex_);
  if (!stream.within) {
    const std::byte* const first = front(stream, pace);
    if (first == nullptr) {
      wake_others();
      return Arrival::none;
    }
    const StreamHeader frame = header_at(first);
    if (frame.bytes != bytes || frame.fingerprint != fingerprint) {
      wake_others();
      return Arrival::other;
    }
    accept(stream, 0);
  }
  return land(stream, pace, pieces, bytes);
}

Arrival Connection::label(Stream& stream, Pace& pace, Label& label, std::uint64_t fingerprint) {
  const Lock lock(mutex_);
  const std::byte* first = front(stream, pace);
  Arrival arrival = Arrival::none;
  if (first != nullptr) {
    const StreamHeader frame = header_at(first);
    if (frame.bytes < kLabelBytes || frame.fingerprint != fingerprint) {
      arrival = Arrival::other;
    } else if (has_come(stream, kLabelBytes) || (first = front(stream, pace, kLabelBytes)) != nullptr) {
      std::memcpy(label.data(), first + sizeof frame, kLabelBytes);
      arrival = Arrival::whole;
    }
  }
  wake_others();
  return arrival;
}

Arrival Connection::receive_labelled(Stream& stream, Pace& pace, Piece payload) {
  const Lock lock(mutex_);
  if (!stream.within) {  // its label was seen
    const bool aside = stream.waiting() > 0;
    const std::byte* const first = aside ? stream.aside.data() + stream.aside_begin : ahead_.get() + ahead_begin_;
    if (header_at(first).bytes != kLabelBytes + payload.bytes) return Arrival::other;
    accept(stream, kLabelBytes);
  }
  return land(stream, pace, {&payload, 1}, payload.bytes);
}

void Connection::land_bytes(Stream& stream, std::span<const Piece> pieces, const std::byte* from, std::size_t count) {
  std::size_t skip = stream.landed;
  stream.landed += count;
  for (const Piece& piece : pieces) {
    if (count == 0) break;
    if (skip >= piece.bytes) {
      skip -= piece.bytes;
      continue;
    }
    const std::size_t part = std::min(piece.bytes - skip, count);
    std::memcpy(piece.data + skip, from, part);
    skip = 0;
    from += part;
    count -= part;
  }
}

Arrival Connection::land(Stream& stream, Pace& pace, std::span<const Piece> pieces, std::size_t bytes) {
  const std::size_t before = stream.landed;
  if (stream.waiting() > 0) {
    const std::size_t part = std::min(stream.waiting(), bytes - stream.landed);
    land_bytes(stream, pieces, stream.aside.data() + stream.aside_begin, part);
    use_aside(stream, part);
  }
  if (stream.landed < bytes && current_ == &stream) {
    const std::size_t part = std::min(ahead(), current_left_);
    land_bytes(stream, pieces, ahead_.get() + ahead_begin_, part);
    ahead_begin_ += part;
    current_left_ -= part;
    while (stream.landed < bytes && land_from_socket(stream, pace, pieces, bytes)) continue;
  }
  wake_others();
  if (stream.landed < bytes) return stream.landed > before ? Arrival::moved : Arrival::none;
  stream.within = false;
  pace.count_message();
  return Arrival::whole;
}

bool Connection::land_from_socket(Stream& stream, Pace& pace, std::span<const Piece> pieces, std::size_t bytes) {
  std::array<iovec, kMostParts> parts;
  std::size_t count = parts_of(pieces, stream.landed, std::span(parts).first(kMostParts - 1));
  const std::size_t wanted = bytes_of(std::span(parts).first(count));
  // The beginning of the message behind this one may come with the same call.
  if (wanted == bytes - stream.landed) parts[count++] = {ahead_.get(), kAheadBytes};
  const std::size_t got = read(parts.data(), count);
  if (got > 0) pace.count_read();
  const std::size_t landed = std::min(got, wanted);
  stream.landed += landed;
  current_left_ -= landed;
  ahead_begin_ = 0;
  ahead_end_ = got - landed;
  if (ahead_end_ > 0 && open_ > 1) distribute(nullptr);
  return got >= wanted;
}

}  // namespace tutti::transport
