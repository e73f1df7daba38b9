// The connection of two processes beside UCX, made by the control plane, with which they get to know each other: where
// the other's worker is, which groups it has left, and what it has sent before it ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/file_descriptor.h"

namespace tutti::transport {

// In the byte order of the machine, as UcxHeader.
struct LinkFrame {
  enum class Kind : std::uint32_t {
    hello,    // the first; `first`: how many news the sender had told, `second`: the key of what is sent to it, and
              // behind it the address of its worker
    bye,      // the sender has left the group `first`; behind it how many messages it sent, by channel
    end,      // the sender ends, and has sent `first` messages in all
    arrived,  // they have all come
  };

  Kind kind = Kind::hello;
  std::uint32_t bytes = 0;  // that follow
  std::uint64_t first = 0, second = 0;
};
static_assert(sizeof(LinkFrame) == 24);

class UcxLink {
 public:
  static constexpr std::size_t kMostBytes = 64 << 10;  // of a frame, whatever anybody says

  struct Message {
    LinkFrame frame;
    std::vector<std::byte> body;
  };

  // `first`: what has come on it already.
  void start(FileDescriptor socket, std::span<const std::byte> first);
  bool started() const { return socket_.valid(); }
  int socket() const { return socket_.get(); }
  // Nothing more comes: the other end has closed it, or does not speak as it should.
  bool ended() const { return ended_; }
  // The system's word for how it ended, or 0.
  int number() const { return number_; }

  void say(LinkFrame frame, std::span<const std::byte> body = {});
  // Sends what is kept; whether nothing is any more.
  bool flush();
  // The next that has come as a whole.
  std::optional<Message> next();

 private:
  bool read();
  void end(int number);

  FileDescriptor socket_;
  bool ended_ = false, write_ended_ = false;
  int number_ = 0;
  std::vector<std::byte> kept_, read_;
};

}  // namespace tutti::transport
