// The transport contract: what moves a program's bytes between the ranks of one group, seen from one rank.
//
// Nothing here blocks but allocate() and sleep(); nothing here allocates but construction, allocate() and the first use
// of an edge. An edge, and a channel's flags, belong to one thread at a time; different ones may be used by different
// threads at once. allocate(), has_allocations() and locate() belong to the caller's thread.
//
// A *channel* is an independent set of edges, flags and scratch, so that operations on different channels cannot
// starve or disturb each other. The engine gives each operation in flight a channel of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/deadline.h"
#include "base/offers.h"

namespace tutti::transport {

// One rank's flags in one channel, which the rank writes and all others read: a line about its call, written once per
// operation, and a line of progress, written at every step. Were they one line, a peer that runs ahead would take it
// away from a rank that is still reading about the call. Progress values are (epoch << 32 | segment, step), so that
// they only ever grow and need no reset between operations.
struct alignas(128) Flags {
  static constexpr int kLanes = 3;

  std::atomic<std::uint64_t> entered;      // epoch of the operation this rank has entered
  std::atomic<std::uint64_t> fingerprint;  // of that operation
  std::atomic<std::uint64_t> input;        // MemoryRef of its buffers
  std::atomic<std::uint64_t> output;
  alignas(64) std::atomic<std::uint64_t> lanes[kLanes];
  std::atomic<std::uint64_t> retired;  // epoch of the last operation after which this rank touches no peer's scratch
};
static_assert(sizeof(Flags) == 128);

// Where memory lies, in words that mean the same on every rank: 0 = ordinary memory, else allocation << 48 | offset.
using MemoryRef = std::uint64_t;

class Sender {
 public:
  virtual ~Sender() = default;
  // Memory for a message of `bytes`, or nullptr while there is no credit. Repeatable until end().
  virtual std::byte* try_begin(std::size_t bytes) = 0;
  virtual void end(std::uint64_t fingerprint) = 0;
};

class Receiver {
 public:
  virtual ~Receiver() = default;
  // The next message of `bytes`, or nullptr while there is none. Repeatable until end().
  virtual const std::byte* try_begin(std::size_t bytes, std::uint64_t* fingerprint) = 0;
  virtual void end() = 0;
};

// Why the group cannot go on: a rank's process ended, or a rank gave up after an error of its own.
struct Failure {
  int rank = -1;    // the one that ended or gave up
  int blamed = -1;  // given up: whom it blamed, or -1
  bool died = false;
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const Offers& offers() const = 0;
  // More ranks than cores: a waiting rank must leave its core to others.
  virtual bool oversubscribed() const = 0;

  virtual Sender& sender(int channel, int peer) = 0;
  virtual Receiver& receiver(int channel, int peer) = 0;

  // Shared memory only; nullptr elsewhere.
  virtual Flags* flags(int channel, int rank) = 0;
  virtual std::byte* scratch(int channel, int rank) = 0;

  // Symmetric memory. allocate() is collective and throws Error when the memory cannot be had.
  virtual std::shared_ptr<void> allocate(std::size_t bytes, const Deadline& deadline) = 0;
  virtual bool has_allocations() const = 0;
  virtual MemoryRef locate(const void* memory, std::size_t bytes) const = 0;
  virtual std::byte* window(int rank, MemoryRef ref) const = 0;

  // After a store to flags(): wakes every rank that sleeps.
  virtual void notify_all() = 0;
  // Wakes this rank's own sleeping threads.
  virtual void notify_self() = 0;

  // To sleep: ticket = prepare_sleep(); look once more for work; if there is none, sleep(ticket, ...). Whatever a peer
  // publishes after prepare_sleep() ends the sleep. Any number of this rank's threads may sleep.
  virtual std::uint32_t prepare_sleep() = 0;
  virtual void sleep(std::uint32_t ticket, std::chrono::nanoseconds at_most) = 0;

  // A peer that is gone or gave up, looked up with system calls: for the slow path.
  virtual std::optional<Failure> failure() = 0;
  // The peer has left the group in good order: what it has published so far is all there will ever be.
  virtual bool departed(int peer) const = 0;
  // Tells all ranks that this one gives up, and whom it blames (-1 = nobody).
  virtual void abort(int culprit) = 0;
};

}  // namespace tutti::transport
