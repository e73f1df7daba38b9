// The transport of one group over UCX: its streams of messages on the fabric of its process (fabric.h), one per (peer,
// channel), used both ways. To the engine it is what TCP is, only faster where the machine has something faster.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "transport/fabric.h"
#include "transport/ucx/edges.h"
#include "transport/ucx/fabric.h"

namespace tutti::transport {

struct UcxGroup : StreamGroup {
  std::shared_ptr<UcxFabric> fabric;
};

class UcxTransport final : public StreamTransport {
 public:
  // `control` may be nullptr. Throws Error(system) when the system refuses.
  UcxTransport(UcxGroup group, std::unique_ptr<Control> control, StreamOptions options);
  ~UcxTransport() override;

  Sender& sender(int channel, int peer) override;
  Receiver& receiver(int channel, int peer) override;
  bool drained(int channel, int peer) const override;

  const void* sleeping_place() const override { return &bell_; }
  std::uint32_t prepare_sleep() override { return bell_.rings(); }
  void sleep(std::uint32_t ticket, std::chrono::nanoseconds at_most) override { bell_.sleep(ticket, at_most); }
  void arm() override { fabric_->arm(); }

 private:
  struct Edge {
    std::atomic<UcxStream*> stream{nullptr};  // once it is used; the rest belongs to who uses the channel
    std::unique_ptr<UcxSender> sender;
    std::unique_ptr<UcxReceiver> receiver;
  };

  void ring() override { bell_.ring(); }
  std::chrono::nanoseconds quiet_for(int job_rank) override { return fabric_->quiet_for(job_rank); }
  const Breakage* breakage_of(std::size_t edge) const override;
  // Made on first use, which is when a plan is compiled.
  Edge& edge_to(int channel, int peer);

  const std::shared_ptr<UcxFabric> fabric_;
  WorkerBell& bell_;
  std::unique_ptr<Edge[]> edges_;  // by index_of
};

}  // namespace tutti::transport
