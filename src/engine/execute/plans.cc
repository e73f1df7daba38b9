#include "engine/execute/plans.h"

#include <numeric>

#include "choice/pricer.h"
#include "schedule/algorithms/lower_row.h"

namespace tutti::engine {
Plans::Plans(transport::Transport& transport, int channels)
    : transport_(&transport), channels_(channels), ranks_(static_cast<std::size_t>(transport.size())) {
  plans_.resize(static_cast<std::size_t>(channels) * rows_.size() * 2 * ranks_);
}

const Plan& Plans::make(const Call& call, const schedule::Algorithm& row, int channel) {
  const std::lock_guard lock(mutex_);
  Offers offers = transport_->offers();
  offers.segment_bytes = choice::kSegmentBytes;
  schedule::Placement placement{transport_->size(), transport_->rank(), call.root, offers.hosts};
  std::vector<int> members(ranks_);
  std::iota(members.begin(), members.end(), 0);
  if (call.verb == Verb::send_recv) {
    const bool sending = call.root == transport_->rank();
    members = sending ? std::vector{call.root, call.peer} : std::vector{call.peer, transport_->rank()};
    offers = offers.pair(offers.hosts.share(transport_->rank(), call.peer));
    placement = {2, sending ? 0 : 1, 0, offers.hosts};
  }
  auto& plan = plans_[index_of(call, row, channel)];
  schedule::Program program = row.generate(placement);
  const int landing_plane = program.scratch_planes;
  plan = std::make_unique<Plan>(schedule::lower(std::move(program), schedule::offers_for(row, offers)), *transport_,
                                PlanChannel{channel, channels_}, members, landing_plane);
  return *plan;
}

}  // namespace tutti::engine
