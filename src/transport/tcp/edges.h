// The two ends of an edge over TCP: messages follow each other in one stream, each behind a frame that tells whose.
//
//   | bytes, fingerprint | payload | bytes, fingerprint | payload | ...
//
// A sender writes straight from the caller's memory, but for small messages, which it gathers first. What the kernel
// does not take is kept in a buffer of the sender's own, so that a message is always taken when nothing is kept: that
// is the edge's one credit. A receiver looks at the frame before a byte of payload goes anywhere, and then lets the
// payload land where the caller wants it; only the beginning of a message, which comes together with its frame, passes
// through a buffer of the receiver's own.
//
// A connection that ends is noted and judged elsewhere: an edge whose connection has ended takes and brings nothing, and
// neither does one whose connection is yet to be made.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/tcp/pace.h"
#include "transport/transport.h"

namespace tutti::transport {

// In the byte order of the machine: all that we run on are little-endian.
struct StreamHeader {
  std::uint64_t bytes = 0;
  std::uint64_t fingerprint = 0;
};
static_assert(sizeof(StreamHeader) == 16);

// When a connection to a peer was first found to have ended, and how.
class Breakage {
 public:
  // `number`: the system's word for how, or 0 where the other end closed it.
  void note(int number) {
    int unknown = -1;
    number_.compare_exchange_strong(unknown, number, std::memory_order_relaxed);
    Rep none = 0;
    at_.compare_exchange_strong(none, std::chrono::steady_clock::now().time_since_epoch().count(),
                                std::memory_order_release);
  }
  bool noted() const { return at_.load(std::memory_order_relaxed) != 0; }
  bool older_than(std::chrono::nanoseconds age) const {
    const Rep at = at_.load(std::memory_order_acquire);
    if (at == 0) return false;
    return std::chrono::steady_clock::now().time_since_epoch() - std::chrono::steady_clock::duration(at) >= age;
  }

  // Once it was noted. Of a peer that lives on, as far as known, it cannot be said that it has ended.
  Loss loss() const;

 private:
  using Rep = std::chrono::steady_clock::rep;
  std::atomic<Rep> at_{0};
  std::atomic<int> number_{-1};
};

// The connection under both ends of an edge.
struct Wire {
  explicit Wire(int connected = -1) : socket(connected) {}

  std::atomic<int> socket;       // -1 until it is made; set once, by any thread, after `first`
  std::vector<std::byte> first;  // what has come on it already
  Breakage breakage;
};

class TcpSender final : public Sender {
 public:
  TcpSender(Wire& wire, std::size_t slot_bytes) : wire_(wire), slot_bytes_(slot_bytes) {}

  std::byte* try_begin(std::size_t bytes) override;
  void end(std::uint64_t fingerprint) override;

  bool try_send(std::span<const Piece> pieces, std::size_t bytes, std::uint64_t fingerprint) override;
  bool try_send_labelled(Label label, Piece payload, std::uint64_t fingerprint) override;
  bool try_flush() override;
  bool has_credit() override { return is_linked() && try_flush(); }

 private:
  bool is_linked() { return socket_ >= 0 || (socket_ = wire_.socket.load(std::memory_order_acquire)) >= 0; }
  // How much the kernel took, in order, of `parts`; 0 also where the connection has ended. Throws
  // Error(invalid_argument) where they are no memory of this process.
  std::size_t write(iovec* parts, std::size_t count);
  // Keeps what lies behind the first `skip` bytes of a message.
  void keep(const StreamHeader& frame, std::span<const Piece> pieces, std::size_t skip);

  Wire& wire_;
  int socket_ = -1;
  std::size_t slot_bytes_;
  bool ended_ = false;
  std::unique_ptr<std::byte[]> kept_;  // made when first needed: the largest message and its frame
  std::size_t kept_begin_ = 0;
  std::size_t kept_end_ = 0;
};

class TcpReceiver final : public Receiver {
 public:
  // `settling`: as Pace wants it.
  TcpReceiver(Wire& wire, const std::atomic<std::uint32_t>* settling)
      : wire_(wire), pace_(settling), ahead_(new std::byte[kAheadBytes]) {}

  const std::byte* try_begin(std::size_t bytes, std::uint64_t* fingerprint) override;
  void end() override;

  Arrival try_receive(std::span<const Piece> pieces, std::size_t bytes, std::uint64_t fingerprint) override;
  Arrival try_label(Label& label, std::uint64_t fingerprint) override;
  Arrival try_receive_labelled(Piece payload) override;
  Arrival hear(std::uint64_t fingerprint) override;
  bool ready() override;

  static constexpr std::size_t kAheadBytes = 64 << 10;

 private:
  std::size_t ahead() const { return ahead_end_ - ahead_begin_; }
  // Reads until a frame, and as many bytes behind it, lie at the beginning of what was read ahead.
  bool find_frame(std::size_t behind = 0);
  StreamHeader frame_ahead() const;
  std::size_t read_ahead();
  // Lets the message whose frame was accepted land, as far as it goes.
  Arrival land_message(std::span<const Piece> pieces, std::size_t bytes);
  // Moves what was read ahead to its place in the message.
  void land_ahead(std::span<const Piece> pieces, std::size_t bytes);
  // Reads the rest of the message to its place, and ahead; false when the connection has nothing more for now.
  bool land(std::span<const Piece> pieces, std::size_t bytes);
  std::size_t read(iovec* parts, std::size_t count);
  // Before the first read.
  bool link();

  Wire& wire_;
  int socket_ = -1;
  Pace pace_;
  bool ended_ = false;
  bool within_ = false;                 // the frame of the message at hand has been accepted
  std::size_t landed_ = 0;              // bytes of its payload
  std::unique_ptr<std::byte[]> ahead_;  // read from the socket, but neither accepted nor landed
  std::size_t ahead_begin_ = 0;
  std::size_t ahead_end_ = 0;
};

}  // namespace tutti::transport
