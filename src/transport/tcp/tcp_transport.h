// The transport over TCP: one connection per (peer, channel), used both ways, so that operations on different channels
// can neither wait for nor disturb each other, and an edge needs no lock. It is made when the edge is first used.
//
// Ranks share no memory. What a peer's flags say comes from the control plane, which also knows who is gone and who
// gave up; it calls on a thread of its own. Without a control plane there is no failure to be heard of.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/file_descriptor.h"
#include "base/links.h"
#include "transport/tcp/edges.h"
#include "transport/tcp/socket_bell.h"
#include "transport/transport.h"

namespace tutti::transport {

struct TcpLinks {
  int rank = 0;
  int size = 1;
  std::shared_ptr<Links> source;  // where connections come from
  // Or, [peer][channel]: those there are; empty, also a row, where they come from the source.
  std::vector<std::vector<FileDescriptor>> data = {};
};

struct TcpOptions {
  int channels = 1;
  bool oversubscribed = false;
  // Where its threads sleep, shared with other transports of this rank; nullptr: in a place of its own.
  std::shared_ptr<SocketBell> bell;
  // Where they sleep elsewhere: called, on the control plane's thread, when something has happened here
  // after arm(), and at every piece of news. They must not use prepare_sleep() and sleep() of this transport then.
  std::function<void()> wake;
  // Where this rank's flags are elsewhere: what they say of its call on a channel.
  std::function<Statement(int)> said;
};

class TcpTransport final : public Transport {
 public:
  // `control` and the source of links may be nullptr. Throws Error(system) when the system refuses,
  // Error(invalid_argument) when a peer's row holds too few connections.
  TcpTransport(TcpLinks links, std::unique_ptr<Control> control, TcpOptions options);
  ~TcpTransport() override;
  TcpTransport(const TcpTransport&) = delete;
  TcpTransport& operator=(const TcpTransport&) = delete;

  int rank() const override { return links_.rank; }
  int size() const override { return links_.size; }
  const Offers& offers() const override { return offers_; }
  bool oversubscribed() const override { return options_.oversubscribed; }

  Sender& sender(int channel, int peer) override;
  Receiver& receiver(int channel, int peer) override;
  Flags* flags(int channel, int rank) override { return &flags_[index_of(channel, rank)]; }
  std::byte* scratch(int channel, int rank) override;

  std::shared_ptr<void> allocate(std::size_t bytes, const Deadline& deadline) override;
  bool has_allocations() const override { return false; }
  MemoryRef locate(const void*, std::size_t) const override { return 0; }
  std::byte* window(int, MemoryRef) const override { return nullptr; }

  void notify_all() override {}  // no peer sees a store to these flags
  void notify_self() override { bell_->ring(); }
  const void* sleeping_place() const override { return bell_.get(); }
  std::uint32_t prepare_sleep() override {
    settling_.fetch_add(1, std::memory_order_relaxed);
    return bell_->rings();
  }
  void sleep(std::uint32_t ticket, std::chrono::nanoseconds at_most) override { bell_->sleep(ticket, at_most); }
  // For other transports of this rank.
  const std::shared_ptr<SocketBell>& shared_bell() const { return bell_; }
  // Asks for one TcpOptions::wake when something has happened that no wake has followed yet.
  void arm();

  bool given_up() const override { return given_up_.load(std::memory_order_relaxed); }
  std::optional<Failure> failure() override;
  bool departed(int peer) const override { return control_ && control_->departed(peer); }
  bool drained(int channel, int peer) const override {
    return departed(peer) && wires_[index_of(channel, peer)].breakage.noted();
  }
  void abort(int culprit, ErrorCode cause) override;
  void announce(int channel) override;

 private:
  std::size_t index_of(int channel, int peer) const {
    return static_cast<std::size_t>(channel) * static_cast<std::size_t>(links_.size) + static_cast<std::size_t>(peer);
  }
  // The connection of an edge that is about to be used.
  Wire& wire_to(int channel, int peer);
  void take_given();
  // On any thread.
  void link(int channel, int peer, FileDescriptor socket, std::vector<std::byte> first);
  // How long ago data came from the peer, as the system knows it.
  std::chrono::nanoseconds quiet_for(int peer) const;
  Statement said(int channel) { return options_.said ? options_.said(channel) : stated(*flags(channel, rank())); }
  // On the control plane's thread: something has changed.
  void hear();
  void rouse();

  TcpLinks links_;
  TcpOptions options_;
  Offers offers_;
  std::shared_ptr<SocketBell> bell_;
  std::shared_ptr<void> scratch_;           // per channel; pages that are never touched cost nothing
  std::unique_ptr<Flags[]> flags_;          // by index_of; only the statements of the peers' are ever written
  std::unique_ptr<Wire[]> wires_;           // by index_of
  std::atomic<bool> given_up_{false};       // the control plane has heard of a failure
  std::atomic<std::uint32_t> settling_{0};  // how often somebody was about to sleep
  std::atomic<bool> armed_{false};          // a wake has been asked for and has not come
  std::mutex sockets_mutex_;
  std::vector<FileDescriptor> sockets_;  // of the wires
  // By index_of; made on first use, which is when a plan is compiled.
  std::vector<std::unique_ptr<TcpSender>> senders_;
  std::vector<std::unique_ptr<TcpReceiver>> receivers_;
  std::unique_ptr<Control> control_;
};

}  // namespace tutti::transport
