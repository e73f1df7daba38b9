// Numbers and text as bytes, and frames in a stream: a length, a kind, a body.
//
// Everything is little-endian. A reader never reads beyond its bytes: after a short or overlong field it is not ok(),
// and what it returned meanwhile is zero or empty. A frame longer than its stream allows breaks the stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/error.h"

namespace tutti::rendezvous {

using Bytes = std::vector<std::byte>;

inline constexpr std::uint32_t kMostChannels = 1024;  // of a pair of ranks, whatever anybody says

class Writer {
 public:
  Writer& u8(std::uint8_t value) { return number(value, 1); }
  Writer& u32(std::uint32_t value) { return number(value, 4); }
  Writer& u64(std::uint64_t value) { return number(value, 8); }
  Writer& i32(int value) { return number(static_cast<std::uint32_t>(value), 4); }
  Writer& raw(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  Writer& text(std::string_view words) {
    u32(static_cast<std::uint32_t>(words.size()));
    return raw(std::as_bytes(std::span(words)));
  }

  const Bytes& bytes() const { return bytes_; }

 private:
  Writer& number(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
    return *this;
  }

  Bytes bytes_;
};

class Reader {
 public:
  static constexpr std::size_t kMostText = 4096;

  explicit Reader(std::span<const std::byte> bytes) : left_(bytes) {}

  std::uint8_t u8() { return static_cast<std::uint8_t>(number(1)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  std::uint64_t u64() { return number(8); }
  int i32() { return static_cast<int>(u32()); }
  std::span<const std::byte> raw(std::size_t bytes) {
    if (bytes > left_.size()) {
      refuse();
      return {};
    }
    const auto taken = left_.first(bytes);
    left_ = left_.subspan(bytes);
    return taken;
  }
  std::string text() {
    const std::size_t length = u32();
    const auto taken = raw(length <= kMostText ? length : left_.size() + 1);
    return std::string(reinterpret_cast<const char*>(taken.data()), taken.size());
  }

  // What was read cannot be: as if it were not there.
  void refuse() {
    ok_ = false;
    left_ = {};
  }
  bool ok() const { return ok_; }
  // All was there and nothing is left over.
  bool complete() const { return ok_ && left_.empty(); }

 private:
  std::uint64_t number(std::size_t bytes) {
    std::uint64_t value = 0;
    const auto taken = raw(bytes);
    for (std::size_t i = taken.size(); i-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(taken[i]);
    return value;
  }

  std::span<const std::byte> left_;
  bool ok_ = true;
};

inline ErrorCode read_code(Reader& reader) {
  const std::uint8_t code = reader.u8();
  if (code > static_cast<std::uint8_t>(ErrorCode::system)) reader.refuse();
  return static_cast<ErrorCode>(code);
}

struct Frame {
  std::uint8_t kind = 0;
  Bytes body;
};

inline Bytes frame_of(std::uint8_t kind, const Writer& body = {}) {
  return Writer().u32(static_cast<std::uint32_t>(body.bytes().size())).u8(kind).raw(body.bytes()).bytes();
}

class FrameReader {
 public:
  explicit FrameReader(std::size_t most) : most_(most) {}

  void add(std::span<const std::byte> bytes) { kept_.insert(kept_.end(), bytes.begin(), bytes.end()); }
  // The other end speaks something else: the connection is of no further use.
  bool broken() const { return broken_; }

  std::optional<Frame> next() {
    constexpr std::size_t kHead = 5;
    if (broken_ || kept_.size() - begin_ < kHead) return std::nullopt;
    Reader head{std::span<const std::byte>(kept_).subspan(begin_, kHead)};
    const std::size_t length = head.u32();
    const std::uint8_t kind = head.u8();
    broken_ = length > most_;
    if (broken_ || kept_.size() - begin_ - kHead < length) return std::nullopt;
    const auto body = std::span(kept_).subspan(begin_ + kHead, length);
    Frame frame{kind, Bytes(body.begin(), body.end())};
    begin_ += kHead + length;
    if (begin_ == kept_.size() || begin_ > 65536) {
      kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(begin_));
      begin_ = 0;
    }
    return frame;
  }

 private:
  std::size_t most_;
  Bytes kept_;
  std::size_t begin_ = 0;  // what lies before it is done with
  bool broken_ = false;
};

}  // namespace tutti::rendezvous
