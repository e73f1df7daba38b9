// Two transports as one: memory inside the host, streams to everybody else.
//
// Every edge is one of the two transports' own, and offers what that does; this class only knows which. Flags and
// scratch of ranks of the host are those of the inner transport. Of other ranks the outer one, which spans the group,
// has what they announced. Failures and departures come from the outer one, too; of the inner one only a death is
// believed, because a host notices its own dead first. Symmetric memory there is none: not all ranks could reach it.
//
// Threads sleep where inner peers can wake them without a system call of their own, on the inner transport; the outer
// one is armed first, so that what happens there rings the inner bell. A rank that was alone on its host from the
// beginning has no inner transport and sleeps on the outer one.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "transport/fabric.h"
#include "transport/transport.h"

namespace tutti::transport {

class MixedTransport final : public Transport {
 public:
  struct Parts {
    Hosts hosts;
    std::unique_ptr<Transport> inner;  // may be nullptr where this rank is alone on its host
    // Where it is armed it calls inner.notify_self(); nothing of it may run once it is gone.
    std::unique_ptr<StreamTransport> outer;
    Offers memory;  // what is offered inside the host that offers the least: the same on all ranks
    // Whether ranks of a host may read each other's memory, where all know.
    std::optional<bool> single_copy;
  };

  // Collective, unless it is known whether ranks of a host may read each other's memory: all have to try. Throws Error
  // when not all have said so before the deadline.
  MixedTransport(Parts parts, const Deadline& deadline);

  int rank() const override { return outer_->rank(); }
  int size() const override { return outer_->size(); }
  const Offers& offers() const override { return offers_; }
  bool oversubscribed() const override { return bell().oversubscribed(); }

  Sender& sender(int channel, int peer) override;
  Receiver& receiver(int channel, int peer) override;
  Flags* flags(int channel, int rank) override;
  std::byte* scratch(int channel, int rank) override;

  std::shared_ptr<void> allocate(std::size_t bytes, const Deadline& deadline) override {
    return outer_->allocate(bytes, deadline);
  }
  bool has_allocations() const override { return false; }
  MemoryRef locate(const void*, std::size_t) const override { return 0; }
  std::byte* window(int, MemoryRef) const override { return nullptr; }

  void notify_all() override { bell().notify_all(); }
  void notify_self() override { bell().notify_self(); }
  const void* sleeping_place() const override { return bell().sleeping_place(); }
  std::uint32_t prepare_sleep() override;
  void sleep(std::uint32_t ticket, std::chrono::nanoseconds at_most) override { bell().sleep(ticket, at_most); }

  bool given_up() const override { return outer_->given_up(); }
  std::optional<Failure> failure() override;
  bool departed(int peer) const override { return outer_->departed(peer); }
  bool drained(int channel, int peer) const override;
  void abort(int culprit, ErrorCode cause) override;
  void announce(int channel) override { outer_->announce(channel); }

 private:
  static constexpr int kOutside = -1;

  int inside(int peer) const { return inside_[static_cast<std::size_t>(peer)]; }
  // Where this rank's threads sleep.
  Transport& bell() const { return inner_ ? *inner_ : *outer_; }
  bool all_say(bool mine, const Deadline& deadline);
  template <class Attempt>
  void await(int peer, const Deadline& deadline, Attempt&& attempt);
  void send_word(int peer, bool word, const Deadline& deadline);
  bool receive_word(int peer, const Deadline& deadline);

  std::unique_ptr<Transport> inner_;  // outlives `outer_`, which rings it
  std::unique_ptr<StreamTransport> outer_;
  std::vector<int> neighbours_;  // by rank of the inner transport: its number in the group
  std::vector<int> inside_;      // by rank of the group: its number in the inner transport, or kOutside
  Offers offers_;
};

}  // namespace tutti::transport
