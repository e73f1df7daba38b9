#include "engine/execute/plans.h"

#include <numeric>

#include "choice/pricer.h"
#include "schedule/algorithms/lower_row.h"
#include "schedule/readers/verify.h"
#include "schedule/readers/verify_rotation.h"
#include "tutti/error.h"

namespace tutti::engine {
Plans::Plans(transport::Transport& transport, int channels, bool verify)
    : transport_(&transport), channels_(channels), ranks_(static_cast<std::size_t>(transport.size())), verify_(verify) {
  plans_.resize(static_cast<std::size_t>(channels) * kNumbers * 2 * ranks_);
}

std::size_t Plans::verified() const {
  const std::lock_guard lock(mutex_);
  return verified_.size();
}

namespace {

// Of more ranks than these one stands for all, where they are alike: each compares itself with rank 0, so that none is
// left out.
constexpr int kVerifiedOneByOne = 64;

schedule::VerifyReport verify_row(const schedule::Algorithm& row, const schedule::Placement& placement,
                                  const Offers& offers, bool in_place) {
  if (placement.ranks > kVerifiedOneByOne) {
    schedule::Placement first = placement;
    first.rank = 0;
    const schedule::Lowered stands_for_all = schedule::lower(row, first, offers);
    schedule::Lowered mine = schedule::lower(row, placement, offers);
    mine.program.rank = 0;
    if (mine == stands_for_all) {
      if (auto report = schedule::verify_calls_by_rotation(stands_for_all, in_place)) return *report;
    }
  }
  return schedule::verify_calls(schedule::lower_all(row, placement.ranks, offers, placement.root), in_place);
}

}  // namespace

// All ranks do the same at this place of their calls, so that each of them tells what is wrong.
void Plans::require_verified(const schedule::Algorithm& row, const schedule::Placement& placement,
                             const Offers& offers) {
  const auto key = std::tuple(number_of(row), placement.ranks, placement.root, offers.inside.operands_in_slots);
  if (verified_.contains(key)) return;
  for (const bool in_place : {false, true}) {
    if (in_place && placement.ranks > 1 && !schedule::runs_in_place(row)) continue;
    const schedule::VerifyReport report = verify_row(row, placement, offers, in_place);
    if (report.ok()) continue;
    throw Error(ErrorCode::system, "TUTTI_VERIFY: " + std::string(name_of(row.verb)) + " by '" + std::string(row.name) +
                                       "' does not verify for " + std::to_string(placement.ranks) + " ranks" +
                                       (in_place ? ", in place: " : ": ") + text_of(report.problems.front()));
  }
  verified_.insert(key);
}

const Plan& Plans::make(const Call& call, const schedule::Algorithm& row, int channel, int part) {
  const std::lock_guard lock(mutex_);
  Offers offers = transport_->offers();
  offers.segment_bytes = choice::segment_bytes_for(offers);
  schedule::Placement placement{transport_->size(), transport_->rank(), call.root, offers.hosts};
  std::vector<int> members(ranks_);
  std::iota(members.begin(), members.end(), 0);
  if (call.verb == Verb::send_recv) {
    const bool sending = call.root == transport_->rank();
    members = sending ? std::vector{call.root, call.peer} : std::vector{call.peer, transport_->rank()};
    offers = offers.pair(offers.hosts.share(transport_->rank(), call.peer));
    placement = {2, sending ? 0 : 1, 0, offers.hosts};
  }
  const std::size_t index = index_of(call, row, channel);
  auto& plan = part == 0 ? plans_[index] : plans_of_parts_[{part, index}];
  const PlanChannel on{transport_->channel_of_part(channel, part), channels_};
  if (choice::is_given(row)) {
    const choice::Given& given = *given_[static_cast<std::size_t>(row.verb)];
    const schedule::Lowered& mine = given.programs[static_cast<std::size_t>(transport_->rank())];
    plan = std::make_unique<Plan>(mine, *transport_, on, members, mine.program.scratch_planes);
    return *plan;
  }
  if (verify_) require_verified(row, placement, offers);
  schedule::Program program = row.generate(placement);
  const int landing_plane = program.scratch_planes;
  plan = std::make_unique<Plan>(schedule::lower(std::move(program), schedule::offers_for(row, offers)), *transport_, on,
                                members, landing_plane);
  return *plan;
}

}  // namespace tutti::engine
