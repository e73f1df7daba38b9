// The transport contract: what moves a program's bytes between the ranks of one group, seen from one rank.
//
// Nothing here blocks but allocate() and sleep(); nothing here allocates but construction, allocate() and the first use
// of an edge. An edge, and a channel's flags, belong to one thread at a time; different ones may be used by different
// threads at once. allocate(), has_allocations() and locate() belong to the caller's thread.
//
// A *channel* is an independent set of edges, flags and scratch, so that operations on different channels cannot
// starve or disturb each other. The engine gives each operation in flight a channel of its own.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/control.h"
#include "base/deadline.h"
#include "base/offers.h"
#include "transport/device_card.h"

namespace tutti::transport {

// One rank's flags in one channel, which the rank writes and all others read: a line about its call, written once per
// operation, and a line of progress, written at every step. Were they one line, a peer that runs ahead would take it
// away from a rank that is still reading about the call. Progress values are (epoch << 32 | segment, step), so that
// they only ever grow and need no reset between operations.
//
// Of a peer that this rank shares no memory with they are a copy that holds only the call it announced last. All of
// them are in sight where the edge offers operands in slots.
struct alignas(128) Flags {
  static constexpr int kLanes = 3;

  std::atomic<std::uint64_t> entered;      // epoch of the operation this rank has entered
  std::atomic<std::uint64_t> fingerprint;  // of that operation
  std::atomic<std::uint64_t> input;        // MemoryRef of its buffers
  std::atomic<std::uint64_t> output;
  std::atomic<std::uint64_t> sequence;  // the Statement about the call at hand; 0 while it is being written
  std::atomic<std::uint64_t> kinds;
  std::atomic<std::uint64_t> count;
  std::atomic<std::uint64_t> detail;
  alignas(64) std::atomic<std::uint64_t> lanes[kLanes];
  std::atomic<std::uint64_t> retired;  // epoch of the last operation after which this rank touches no peer's scratch
};
static_assert(sizeof(Flags) == 128);

inline void state(Flags& flags, const Statement& statement) {
  // Released after the zero, so that whoever sees new words cannot take them for the statement before.
  flags.sequence.store(0, std::memory_order_relaxed);
  flags.kinds.store(statement.kinds, std::memory_order_release);
  flags.count.store(statement.count, std::memory_order_release);
  flags.detail.store(statement.detail, std::memory_order_release);
  flags.sequence.store(statement.sequence, std::memory_order_release);
}

// What the rank says of its call; sequence 0 where it has said nothing or is saying something new.
inline Statement stated(const Flags& flags) {
  const std::uint64_t sequence = flags.sequence.load(std::memory_order_acquire);
  Statement statement{sequence, flags.kinds.load(std::memory_order_acquire),
                      flags.count.load(std::memory_order_acquire), flags.detail.load(std::memory_order_acquire)};
  if (flags.sequence.load(std::memory_order_relaxed) != sequence) statement.sequence = 0;
  return statement;
}

// Where memory lies, in words that mean the same on every rank: 0 = ordinary memory, else allocation << 48 | offset.
using MemoryRef = std::uint64_t;

// Memory of this rank, and where it lies in those words.
struct Located {
  const std::byte* begin = nullptr;
  MemoryRef ref = 0;
};

// One stretch of a message's memory.
struct Piece {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

// What a message may carry ahead of its payload, whose size the receiver need not know before.
inline constexpr std::size_t kLabelBytes = 32;
using Label = std::array<std::byte, kLabelBytes>;

// The most parts of a call (Transport::parts).
inline constexpr int kMostCallParts = 4;

// The most pieces of a message that is exposed.
inline constexpr std::size_t kMostExposedPieces = 6;

// Two ways to use an edge. Where it offers operands in slots (Offers::of), a step works in the slot's own memory
// (try_begin, end); on every edge, a message is gathered from the sender's memory and lands in the receiver's
// (try_send, try_receive). A program uses one of the two on an edge, which follows from what it offers: all edges
// inside a host are alike, and so are all across. A message that is exposed is pulled at the other end.
class Sender {
 public:
  virtual ~Sender() = default;
  // Memory for a message of `bytes`, or nullptr while there is no credit. Repeatable until end().
  virtual std::byte* try_begin(std::size_t bytes) = 0;
  virtual void end(std::uint64_t fingerprint) = 0;

  // Takes one message of `bytes`, gathered from `pieces`, whose memory is free again afterwards; false while there is
  // no credit, and then nothing was taken.
  virtual bool try_send(std::span<const Piece> pieces, std::size_t bytes, std::uint64_t fingerprint);
  // Where the edge offers single_copy: the same, but the message may stay where it is, and its memory must too, until
  // try_flush(). `within`: symmetric memory that all pieces lie in, where that is known.
  virtual bool try_expose(std::span<const Piece> pieces, std::size_t bytes, std::uint64_t fingerprint,
                          const Located& within) {
    static_cast<void>(within);
    return try_send(pieces, bytes, fingerprint);
  }
  // Takes a message with a label: its receiver sees the label before a byte of the payload has to go anywhere.
  virtual bool try_send_labelled(Label label, Piece payload, std::uint64_t fingerprint) = 0;
  // Whether everything taken has left this process; takes it further. An operation ends only when its edges have.
  virtual bool try_flush() { return true; }
  // Whether a message would be taken now.
  virtual bool has_credit() = 0;
};

enum class Arrival : std::uint8_t {
  none,   // nothing new
  moved,  // a part has landed
  whole,  // the message has landed, and is done with
  other,  // the next message belongs to another call, or has another size: nothing of it has landed
};

class Receiver {
 public:
  virtual ~Receiver() = default;
  // The next message of `bytes`, or nullptr while there is none. Repeatable until end().
  virtual const std::byte* try_begin(std::size_t bytes, std::uint64_t* fingerprint) = 0;
  virtual void end() = 0;

  // Lets the next message land in `pieces`, `bytes` in all; called again with the same arguments until it is `whole`.
  virtual Arrival try_receive(std::span<const Piece> pieces, std::size_t bytes, std::uint64_t fingerprint);
  // The same for a message that was exposed.
  virtual Arrival try_pull(std::span<const Piece> pieces, std::size_t bytes, std::uint64_t fingerprint) {
    return try_receive(pieces, bytes, fingerprint);
  }
  // The label of the next message, without taking the message: none, whole or other.
  virtual Arrival try_label(Label& label, std::uint64_t fingerprint) = 0;
  // As try_receive(), for the payload of the message whose label was seen last.
  virtual Arrival try_receive_labelled(Piece payload) = 0;
  // Whether the next message is here and belongs to this call, without taking it: none, whole or other.
  virtual Arrival hear(std::uint64_t fingerprint);
  // Whether try_receive() would find something to do.
  virtual bool ready() = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // The same on all ranks.
  virtual const Offers& offers() const = 0;
  // More ranks than cores: a waiting rank must leave its core to others.
  virtual bool oversubscribed() const = 0;

  virtual Sender& sender(int channel, int peer) = 0;
  virtual Receiver& receiver(int channel, int peer) = 0;

  virtual Flags* flags(int channel, int rank) = 0;
  // Of this rank; of its peers where the edge offers windows_to_scratch, else nullptr.
  virtual std::byte* scratch(int channel, int rank) = 0;
  // In how many parts a call may go at once, by a thread each: all but the first, 0, on channels of their own, where
  // there are neither flags nor statements. The same on all ranks.
  virtual int parts() const { return 1; }
  virtual int channel_of_part(int channel, int part) const {
    static_cast<void>(part);
    return channel;
  }
  // Where all ranks of the group share memory, else nullptr.
  virtual DeviceCard* device_card(int channel, int rank) {
    static_cast<void>(channel), static_cast<void>(rank);
    return nullptr;
  }

  // Whether another rank of the group is a thread of this process.
  virtual bool has_peer_in_process() const { return false; }

  // Symmetric memory. allocate() is collective and throws Error when the memory cannot be had. Where ranks share no
  // memory it is ordinary memory, has_allocations() stays false and locate() knows none of it.
  virtual std::shared_ptr<void> allocate(std::size_t bytes, const Deadline& deadline) = 0;
  virtual bool has_allocations() const = 0;
  virtual MemoryRef locate(const void* memory, std::size_t bytes) const = 0;
  virtual std::byte* window(int rank, MemoryRef ref) const = 0;

  // After a store to flags(): wakes every rank that sees them and sleeps.
  virtual void notify_all() = 0;
  // Wakes this rank's own sleeping threads.
  virtual void notify_self() = 0;

  // Where this rank's threads sleep: transports that have it alike wake each other's.
  virtual const void* sleeping_place() const = 0;
  // To sleep: ticket = prepare_sleep(); look once more for work; if there is none, sleep(ticket, ...). Whatever a peer
  // publishes after prepare_sleep() ends the sleep. Any number of this rank's threads may sleep.
  virtual std::uint32_t prepare_sleep() = 0;
  virtual void sleep(std::uint32_t ticket, std::chrono::nanoseconds at_most) = 0;

  // Whether some rank gave up, as far as can be told without a system call: for every call's start.
  virtual bool given_up() const = 0;
  // Whether the peer itself did, where ranks reach each other's buffers: those are its caller's again.
  virtual bool gave_up(int peer) const {
    static_cast<void>(peer);
    return false;
  }
  // A peer that is gone or gave up, looked up with system calls: for the slow path.
  virtual std::optional<Failure> failure() = 0;
  // The peer has left the group in good order: what it has published so far is all there will ever be.
  virtual bool departed(int peer) const = 0;
  // Whether what a departed peer sent on the channel has all come. Where its goodbye takes another way than its
  // messages it may overtake them; true is told only after somebody has tried the edge.
  virtual bool drained(int channel, int peer) const {
    static_cast<void>(channel);
    return departed(peer);
  }
  // Tells all ranks that this one gives up, whom it blames (-1 = nobody) and why.
  virtual void abort(int culprit, ErrorCode cause) = 0;
  // Lets peers that share no memory with this rank know what its flags say of its call.
  virtual void announce(int channel) = 0;
};

}  // namespace tutti::transport
