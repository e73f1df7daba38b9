// Two transports as one: memory inside the host, streams to everybody else.
//
// Every edge is one of the two transports' own; this class only knows which. What concerns the whole group (flags,
// failures, departures) comes from the outer transport, which spans it; of the inner one only a death is believed,
// because a host notices its own dead first. Since one kind of program runs everywhere, only what both can do is
// offered: messages, no windows.
//
// Threads sleep where inner peers can wake them without a system call of their own, on the inner transport; the outer
// one is armed first, so that what happens there rings the inner bell.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "transport/transport.h"

namespace tutti::transport {

class MixedTransport final : public Transport {
 public:
  // `inner_ranks`: the group's numbers of the inner transport's ranks, ascending. `arm` asks the outer transport for
  // one inner.notify_self() as soon as something has happened there; nothing of it may run once `outer` is gone.
  MixedTransport(std::unique_ptr<Transport> inner, std::vector<int> inner_ranks, std::unique_ptr<Transport> outer,
                 std::function<void()> arm);

  int rank() const override { return outer_->rank(); }
  int size() const override { return outer_->size(); }
  const Offers& offers() const override { return offers_; }
  bool oversubscribed() const override { return inner_->oversubscribed(); }

  Sender& sender(int channel, int peer) override;
  Receiver& receiver(int channel, int peer) override;
  Flags* flags(int channel, int rank) override { return outer_->flags(channel, rank); }
  std::byte* scratch(int channel, int rank) override { return outer_->scratch(channel, rank); }

  std::shared_ptr<void> allocate(std::size_t bytes, const Deadline& deadline) override {
    return outer_->allocate(bytes, deadline);
  }
  bool has_allocations() const override { return false; }
  MemoryRef locate(const void*, std::size_t) const override { return 0; }
  std::byte* window(int, MemoryRef) const override { return nullptr; }

  void notify_all() override { outer_->notify_all(); }
  void notify_self() override { inner_->notify_self(); }
  std::uint32_t prepare_sleep() override;
  void sleep(std::uint32_t ticket, std::chrono::nanoseconds at_most) override { inner_->sleep(ticket, at_most); }

  bool given_up() const override { return outer_->given_up(); }
  std::optional<Failure> failure() override;
  bool departed(int peer) const override { return outer_->departed(peer); }
  bool drained(int channel, int peer) const override;
  void abort(int culprit, ErrorCode cause) override;
  void announce(int channel) override { outer_->announce(channel); }

 private:
  static constexpr int kOutside = -1;

  int inside(int peer) const { return inside_[static_cast<std::size_t>(peer)]; }

  std::unique_ptr<Transport> inner_;  // outlives `outer_`, which rings it
  std::unique_ptr<Transport> outer_;
  std::function<void()> arm_;
  std::vector<int> inner_ranks_;
  std::vector<int> inside_;  // by rank of the group: its number in the inner transport, or kOutside
  Offers offers_;
};

}  // namespace tutti::transport
