// A transport that carries streams of messages between processes, whatever carries them (Fabric): all of it but the
// streams themselves.
//
// Ranks share no memory. What a peer's flags say comes from the control plane, which also knows who ended, who left and
// who gave up; it calls on a thread of its own. Without a control plane there is no failure to be heard of.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/control.h"
#include "base/hosts.h"
#include "transport/breakage.h"
#include "transport/transport.h"

namespace tutti::transport {

// A group of ranks of the job, of which this is the one at `rank`.
struct StreamGroup {
  int rank = 0;
  std::vector<int> ranks;  // of the job, by those of the group
  std::uint64_t number = 0;

  int size() const { return static_cast<int>(ranks.size()); }
};

struct StreamOptions {
  int channels = 1;
  int per_channel = 1;  // channels of an edge for one program: channel + n * channels, for n < per_channel
  int parts = 1;        // of a call: behind the channels of the first as many for each of the others
  Hosts hosts = {};     // which ranks share one, though they share no memory
  bool oversubscribed = false;
  // Where this rank's flags are elsewhere: what they say of its call on a channel.
  std::function<Statement(int)> said = {};
};

class StreamTransport : public Transport {
 public:
  StreamTransport(const StreamTransport&) = delete;
  StreamTransport& operator=(const StreamTransport&) = delete;

  int rank() const override { return group_.rank; }
  int size() const override { return group_.size(); }
  const Offers& offers() const override { return offers_; }
  bool oversubscribed() const override { return options_.oversubscribed; }

  Flags* flags(int channel, int rank) override { return &flags_[index_of(channel, rank)]; }
  std::byte* scratch(int channel, int rank) override;
  int parts() const override { return options_.parts; }
  int channel_of_part(int channel, int part) const override {
    return channel + part * options_.per_channel * options_.channels;
  }

  std::shared_ptr<void> allocate(std::size_t bytes, const Deadline& deadline) override;
  bool has_allocations() const override { return false; }
  MemoryRef locate(const void*, std::size_t) const override { return 0; }
  std::byte* window(int, MemoryRef) const override { return nullptr; }

  void notify_all() override {}  // no peer sees a store to these flags
  void notify_self() override { ring(); }

  bool given_up() const override { return given_up_.load(std::memory_order_relaxed); }
  std::optional<Failure> failure() override;
  bool departed(int peer) const override { return control_ && control_->departed(peer); }
  void abort(int culprit, ErrorCode cause) override;
  void announce(int channel) override;

  // For those who sleep elsewhere instead of calling prepare_sleep() and sleep(): asks for a ring there as soon as
  // something has happened that none has followed yet.
  virtual void arm() = 0;

 protected:
  // `control` may be nullptr. Throws Error(system) when the system refuses.
  StreamTransport(StreamGroup group, std::unique_ptr<Control> control, StreamOptions options, std::size_t slot_bytes);

  // Whoever carries streams calls these last in its constructor and first in its destructor: between them the control
  // plane calls what is below.
  void listen();
  void stop_listening();
  // The last of all: leaves the group.
  void leave() { control_.reset(); }

  // Wakes every thread that sleeps.
  virtual void ring() = 0;
  // How long nothing has come from a rank of the job.
  virtual std::chrono::nanoseconds quiet_for(int job_rank) = 0;
  // Of the edge of that index; nullptr where it has not been used yet.
  virtual const Breakage* breakage_of(std::size_t edge) const = 0;

  std::size_t index_of(int channel, int peer) const {
    return static_cast<std::size_t>(channel) * group_.ranks.size() + static_cast<std::size_t>(peer);
  }
  // Of all channels.
  std::size_t edge_count() const { return index_of(channel_of_part(0, options_.parts), 0); }
  int job_rank(int peer) const { return group_.ranks[static_cast<std::size_t>(peer)]; }
  std::uint64_t group_number() const { return group_.number; }
  const std::vector<int>& job_ranks() const { return group_.ranks; }
  // 0 while the peer has not left.
  std::uint64_t left_at(int peer) const { return control_ ? control_->left_at(peer) : 0; }

 private:
  Statement said(int channel) { return options_.said ? options_.said(channel) : stated(*flags(channel, rank())); }
  // On the control plane's thread: something has changed.
  void hear();

  const StreamGroup group_;
  const StreamOptions options_;
  Offers offers_;
  std::shared_ptr<void> scratch_;      // per channel; pages that are never touched cost nothing
  std::unique_ptr<Flags[]> flags_;     // by index_of; only the statements of the peers' are ever written
  std::atomic<bool> given_up_{false};  // the control plane has heard of a failure
  std::unique_ptr<Control> control_;
};

}  // namespace tutti::transport
