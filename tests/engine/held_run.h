// A call in lockstep that is held to the rule of firing after every advance: the executor did nothing that the rule
// forbids, left nothing undone that it asks for, and published just what was done.
#pragma once

#include <functional>
#include <random>

#include "engine/firing_model.h"
#include "engine/lockstep.h"
#include "engine/program_case.h"

namespace tutti::testing {

class HeldRun {
 public:
  // What an operation may have besides its thread, by rank; nullptr: nothing.
  struct Devices {
    std::function<engine::Mover*(int rank)> mover;
    std::function<bool(int rank, int lane)> is_busy;  // with the step at the head of the lane
    std::function<bool(int rank)> go_on;              // something ends on a device; false: there is nothing
  };

  HeldRun(Lockstep& group, const ProgramCase& c, const Offers& offers, Devices devices = {});

  // To the end of the call, in an order that the seed says; then the buffers must be right.
  void run(std::uint64_t seed);
  std::uint64_t steps() const { return steps_; }
  const FiringModel& model() const { return model_; }

 private:
  static std::vector<schedule::Lowered> programs_of(const ProgramCase& c, const Offers& offers);
  std::uint64_t segments() const;
  engine::Advance advance(int rank);
  void require_allowed(int rank, const trace::TraceEvent& event);
  void require_nothing_left(int rank, std::size_t done);
  void require_published(int rank);
  [[noreturn]] void fail(int rank, const std::string& what) const;

  Lockstep& group_;
  ProgramCase case_;
  Devices devices_;
  std::vector<schedule::Lowered> programs_;
  FiringModel model_;
  std::vector<CaseBuffers> buffers_;
  std::uint64_t seed_ = 0, steps_ = 0;
};

}  // namespace tutti::testing
