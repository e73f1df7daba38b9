// Steps that start now and end later, by a device that is none: what was started is done at some later moment, in any
// order, and until then nobody may count on it.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>

#include "engine/executor.h"
#include "engine/held_run.h"

namespace tutti {
namespace {

using engine::Mover;
using schedule::Algorithm;
using testing::HeldRun;
using testing::Lockstep;
using testing::ProgramCase;
using testing::require;
using testing::Way;

class LateDevice final : public Mover {
 public:
  explicit LateDevice(std::uint64_t seed) : random_(seed) {}

  void bind(const ProgramCase& c) { case_.emplace(c); }

  void start(std::uint32_t lane, const Stretch& stretch) override {
    require(starting_ == lane || !is_busy(lane), "a lane goes on while its step is under way");
    starting_ = lane;
    pending_.push_back({lane,
                        stretch.op,
                        {stretch.destinations.begin(), stretch.destinations.end()},
                        {stretch.sources.begin(), stretch.sources.end()},
                        stretch.count,
                        stretch.divisor});
  }

  bool ended(std::uint32_t lane) override {
    starting_ = kNone;
    return !is_busy(lane);
  }

  bool is_busy(std::uint32_t lane) const {
    return std::any_of(pending_.begin(), pending_.end(), [&](const Pending& p) { return p.lane == lane; });
  }

  // Any of what was started, of any lane, is done now; false: there is nothing.
  bool go_on() {
    if (pending_.empty()) return false;
    const auto chosen = pending_.begin() + static_cast<std::ptrdiff_t>(random_() % pending_.size());
    const Pending one = *chosen;
    pending_.erase(chosen);
    ++done_;
    if (one.op == schedule::StepOp::copy) {
      for (void* const to : one.destinations) std::memmove(to, one.sources[0], one.count * size_of(case_->type()));
    } else {
      kernels::find_reduce(case_->type(), case_->op())(one.destinations.data(), one.destinations.size(),
                                                       one.sources.data(), one.sources.size(), one.count, one.divisor);
    }
    return true;
  }

  std::uint64_t done() const { return done_; }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct Pending {
    std::uint32_t lane;
    schedule::StepOp op;
    std::vector<void*> destinations;
    std::vector<const void*> sources;
    std::uint64_t count;
    std::uint32_t divisor;
  };

  std::mt19937_64 random_;
  std::optional<ProgramCase> case_;
  std::deque<Pending> pending_;
  std::uint32_t starting_ = kNone;  // the lane whose step is being started, until its end is asked for
  std::uint64_t done_ = 0;
};

class LateSteps : public ::testing::TestWithParam<int> {};

TEST_P(LateSteps, AreDoneBeforeAnybodyCountsOnThem) {
  const int ranks = GetParam();
  Lockstep group(ranks);
  std::vector<LateDevice> devices;
  for (int rank = 0; rank < ranks; ++rank) devices.emplace_back(static_cast<std::uint64_t>(rank));
  const auto device = [&](int rank) -> LateDevice& { return devices[static_cast<std::size_t>(rank)]; };
  const HeldRun::Devices late{
      .mover = [&](int rank) { return &device(rank); },
      .is_busy = [&](int rank, int lane) { return device(rank).is_busy(static_cast<std::uint32_t>(lane)); },
      .go_on = [&](int rank) { return device(rank).go_on(); }};
  for (const Algorithm& row : schedule::algorithms()) {
    if (!testing::runs_over(row, Way::slots, ranks)) continue;
    for (const std::size_t count : {0u, 1u, 1003u, 3001u}) {
      for (const bool in_place : {false, true}) {
        if (in_place && !row.in_place) continue;
        const ProgramCase c{row, ranks, ranks - 1, count, in_place};
        for (LateDevice& each : devices) each.bind(c);
        HeldRun run(group, c, testing::offers_over(Way::slots, group.transport(0), 2048), late);
        run.run(count + 1);
      }
    }
  }
  for (const LateDevice& each : devices) EXPECT_GT(each.done(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Everywhere, LateSteps, ::testing::Values(1, 2, 3, 5), ::testing::PrintToStringParamName());

TEST(LateSteps, AreNotForStreams) {
  Lockstep group(2);
  LateDevice device(0);
  const ProgramCase c{*schedule::find_algorithm(Verb::all_reduce, "ring"), 2, 0, 10, false};
  const HeldRun::Devices late{.mover = [&](int) { return &device; }, .is_busy = {}, .go_on = {}};
  EXPECT_THROW(HeldRun(group, c, testing::offers_over(Way::streams, group.transport(0), 4096), late), Error);
}

}  // namespace
}  // namespace tutti
