// A connection with another process of the job, one for each channel, shared by all groups that both are in.
//
//   | bytes, kind, group, fingerprint | payload | bytes, kind, group, fingerprint | payload | ...
//
// Every group has a stream of messages on it, in each direction. Whoever reads lets the messages of its own stream land
// where its caller wants them; what it finds of other streams it sets aside in memory, for whoever reads those. Where
// too much of a stream was set aside its sender is told to hold it, and to go on when it has been read.
//
// What the kernel does not take of a message is kept, in a buffer of the connection, so that whatever was begun is sent
// whole, whatever becomes of its group; while anything is kept nobody may send. That is every stream's one credit.
//
// A process that leaves a group says bye on each connection that it has with another member: nothing comes behind that.
// A connection that is made later begins with how many news its process had told by then, and so tells of all groups
// that were left before (Control::left_at).
//
// Any thread. A connection that ends is noted and judged elsewhere: it takes and brings nothing, and neither does one
// that is yet to be made.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/file_descriptor.h"
#include "base/spin_lock.h"
#include "transport/breakage.h"
#include "transport/tcp/pace.h"
#include "transport/tcp/socket_bell.h"
#include "transport/transport.h"

namespace tutti::transport {

// In the byte order of the machine: all that we run on are little-endian.
struct StreamHeader {
  enum class Kind : std::uint32_t {
    message,
    opened,  // the first: `fingerprint` is how many news the sender had told
    bye,     // the sender leaves the group
    hold,    // the other end is to send nothing more of the group
    go_on,   // it may again
  };

  std::uint32_t bytes = 0;  // of payload
  Kind kind = Kind::message;
  std::uint64_t group = 0;
  std::uint64_t fingerprint = 0;
};
static_assert(sizeof(StreamHeader) == 24);

// One group's part of a connection. Belongs to the connection, whose lock guards it.
struct Stream {
  enum class State : std::uint8_t {
    awaited,  // something has come for a group that this process is not in, yet
    open,
    closed,  // what comes is dropped
    left,    // the same, and the bye is the last of it
  };

  std::uint64_t group = 0;
  State state = State::awaited;
  // Read by others: frames and payload, in order.
  std::vector<std::byte> aside;
  std::size_t aside_begin = 0;
  // The message at hand: its frame was accepted.
  bool within = false;
  std::size_t landed = 0;  // bytes of its payload
  bool bye = false;        // the peer's
  bool holds = false;      // the peer was told to
  bool held = false;       // the peer wants this end to
  std::uint64_t flush_at = 0;

  std::size_t waiting() const { return aside.size() - aside_begin; }
};

class Connection {
  using Lock = std::lock_guard<SpinLock>;

 public:
  static constexpr std::size_t kAheadBytes = 64 << 10;
  static constexpr std::size_t kSlotBytes = 256 << 10;  // the longest message that a sender may send
  // Set aside of one stream: more, and its sender is told to hold it; less, and it may go on.
  static constexpr std::size_t kHoldBytes = 4 << 20, kGoOnBytes = 1 << 20;

  explicit Connection(SocketBell& bell) : bell_(bell), ahead_(new std::byte[kAheadBytes]) {}
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // It is made; `told`: as Links::Made has it. Throws Error(system).
  void link(FileDescriptor socket, std::span<const std::byte> first, std::uint64_t told);
  // -1 until then.
  int socket() const { return socket_.load(std::memory_order_acquire); }
  Breakage& breakage() { return breakage_; }
  const Breakage& breakage() const { return breakage_; }

  Stream& open(std::uint64_t group);
  // Its messages may land nowhere any more.
  void close(Stream& stream);
  // This process leaves the group; `left_at`: when the other one did. Says so; whether nothing of it is kept.
  bool leave(std::uint64_t group, std::uint64_t left_at);
  // All that the other end has sent of the stream has come, given that it left the group then.
  bool is_drained(const Stream& stream, std::uint64_t left_at);
  // Sends what is kept; whether nothing is any more.
  bool flush();
  // For its end, when nobody reads it any more: whether the system at the other end has all that was sent. If that says
  // anything to this end once it is closed, the rest is lost.
  bool has_arrived();
  // Groups that it remembers.
  std::size_t streams() {
    const Lock lock(mutex_);
    return streams_.size();
  }

  // As Sender has them. Throw Error(invalid_argument) where the pieces are no memory of this process.
  bool send(Stream& stream, std::span<const Piece> pieces, std::size_t bytes, std::uint64_t fingerprint);
  bool flush(const Stream& stream);
  bool has_credit(Stream& stream);

  // As Receiver has them.
  Arrival hear(Stream& stream, Pace& pace, std::uint64_t fingerprint);
  bool ready(Stream& stream, Pace& pace);
  Arrival receive(Stream& stream, Pace& pace, std::span<const Piece> pieces, std::size_t bytes,
                  std::uint64_t fingerprint);
  Arrival label(Stream& stream, Pace& pace, Label& label, std::uint64_t fingerprint);
  Arrival receive_labelled(Stream& stream, Pace& pace, Piece payload);

 private:
  // The lock is held by whoever calls what follows.
  std::size_t write(iovec* parts, std::size_t count);
  bool flush_kept();
  bool may_send(Stream& stream);
  void keep(const StreamHeader& frame, std::span<const Piece> pieces, std::size_t skip);
  bool say(StreamHeader::Kind kind, std::uint64_t group, std::uint64_t number = 0);

  std::size_t ahead() const { return ahead_end_ - ahead_begin_; }
  std::size_t read(iovec* parts, std::size_t count);
  std::size_t read_ahead();
  // The next message of the stream, where it and `behind` bytes of its payload have come, or nullptr.
  const std::byte* front(Stream& stream, Pace& pace, std::size_t behind = 0);
  bool has_come(const Stream& stream, std::size_t behind) const;
  // Takes what was read ahead as far as it is not the next message of `reader`, whose turn that is then.
  void distribute(const Stream* reader);
  // Nothing more comes or goes: somebody does not speak as a connection does.
  void break_off();
  // Else it is broken off.
  bool is_sound(const StreamHeader& frame);
  void take_control(const StreamHeader& frame);
  // Those who sleep and whose messages were set aside.
  void wake_others();
  Stream& stream_of(std::uint64_t group);
  // What has come of it, and what is coming.
  void drop(Stream& stream);
  void set_aside(Stream& stream, const void* bytes, std::size_t count);
  void use_aside(Stream& stream, std::size_t count);
  // The message at the front begins to land, behind `skip` bytes of payload.
  void accept(Stream& stream, std::size_t skip);
  Arrival land(Stream& stream, Pace& pace, std::span<const Piece> pieces, std::size_t bytes);
  bool land_from_socket(Stream& stream, Pace& pace, std::span<const Piece> pieces, std::size_t bytes);
  // Moves bytes that have come to their place in the message.
  void land_bytes(Stream& stream, std::span<const Piece> pieces, const std::byte* from, std::size_t count);

  SocketBell& bell_;
  std::atomic<int> socket_{-1};
  FileDescriptor owned_;
  Breakage breakage_;

  SpinLock mutex_;
  bool write_ended_ = false, read_ended_ = false;
  std::map<std::uint64_t, std::unique_ptr<Stream>> streams_;  // by group
  std::size_t open_ = 0;                                      // of them
  std::uint64_t told_ = 0;                                    // by the peer, when it was made
  bool opened_ = false;                                       // which has come

  std::vector<std::byte> kept_;
  std::size_t kept_begin_ = 0;
  std::uint64_t queued_ = 0;            // bytes that were ever sent or kept
  std::size_t sent_unread_ = 0;         // since something was last read
  std::unique_ptr<std::byte[]> ahead_;  // read from the socket, and nobody's yet
  std::size_t ahead_begin_ = 0, ahead_end_ = 0;
  // The message whose payload comes next: nullptr drops it.
  Stream* current_ = nullptr;
  std::size_t current_left_ = 0;
  bool woke_others_ = false;
};

}  // namespace tutti::transport
