// One maximal run of a plan over symbolic memory, with vector clocks.
//
// Lanes advance while a step can fire. Which step fires first makes no difference: every wait names one step, every
// message has one sender and one receiver, so what happens before what, and with it every finding here, is the same in
// all runs.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "schedule/readers/verify_clock.h"
#include "schedule/readers/verify_expression.h"
#include "schedule/readers/verify_journal.h"
#include "schedule/readers/verify_plan.h"
#include "schedule/readers/verify_problems.h"

namespace tutti::schedule::verification {

class Run {
 public:
  // With a journal, what each step made is written there.
  Run(const VerifyPlan& plan, Problems& problems, Journal* journal = nullptr);

  // Everything that can happen happens. False where a lane got stuck.
  bool to_the_end();

  Value value(int rank, Buffer buffer, std::uint64_t segment, int block) const;
  Value leaf(int rank, std::uint64_t segment, int block) const;
  // The step that wrote it last, and which of its results it is.
  Epoch writer(int rank, Buffer buffer, std::uint64_t segment, int block) const;
  std::size_t index_of_result(int rank, Buffer buffer, std::uint64_t segment, int block) const;
  Expressions& expressions() { return expressions_; }
  const Expressions& expressions() const { return expressions_; }
  // "rank 0, lane 'ring', step 1, segment 0".
  std::string place(Epoch epoch) const;
  std::map<std::pair<int, int>, std::uint64_t> edge_bytes() const;

 private:
  // A finished step, as those who are told of it see it: its clock, and what it sent.
  struct Finished {
    Clock clock;
    std::vector<Value> values;
    std::vector<std::uint64_t> sizes;
    const PlannedOperand* exposed = nullptr;  // where what it sent lies, on single-copy edges until it is received
    std::uint64_t segment = 0;
    Epoch by = {};
  };
  using Told = std::shared_ptr<const Finished>;

  struct LaneState {
    std::uint64_t segment = 0;
    std::size_t step = 0;
    bool wrote_output = false;
    std::vector<Told> published;  // in order of steps, segment after segment
  };

  struct EdgeState {
    std::uint32_t unused_credits = 0;  // never spent so far: they tell of nothing
    std::deque<Told> messages;
    std::deque<Told> returned_credits;
    Epoch heard;  // when its first message was received; time 0: not yet
  };

  // Why a lane cannot go on, and which lane would have to move first (-1: there is none).
  struct Blocker {
    enum class Kind { none, wait, message, credit } kind = Kind::none;
    int rank = -1;
    int lane = -1;
    const PlannedWait* wait = nullptr;
    std::uint32_t credits = 0;  // that are all used up
  };

  // What a lane sees of the others.
  struct Seen;

  const PlannedLane& lane(int number) const { return plan_.lanes[static_cast<std::size_t>(number)]; }
  std::span<std::uint32_t> clock(int lane);
  std::size_t entry_component(int rank) const { return plan_.lanes.size() + static_cast<std::size_t>(rank); }
  std::size_t cell_index(int rank, Buffer buffer, int plane, std::uint64_t segment, int block) const;

  bool done(int lane) const { return states_[static_cast<std::size_t>(lane)].segment == plan_.layout.segments; }
  Blocker blocker(int lane) const;
  Blocker unheard(int lane) const;
  void fire(int lane);
  void acquire_waits(const PlannedStep& step, std::uint64_t segment, std::span<std::uint32_t> now);
  void acquire_credits(const PlannedStep& step, std::span<std::uint32_t> now);
  std::vector<Value> gather(int lane, const PlannedStep& step, const std::vector<std::uint64_t>& sizes);
  void read(int lane, const PlannedOperand& operand, std::span<Value> values);
  void look(int lane, const PlannedOperand& operand, std::uint64_t segment, std::span<Value> values);
  void receive(int lane, const PlannedOperand& operand, const std::vector<std::uint64_t>& sizes,
               std::span<Value> values);
  void write(int lane, const PlannedStep& step, const PlannedOperand& operand, std::span<const Value> values);
  void tell(int lane, const PlannedStep& step, std::vector<Value> values, std::vector<std::uint64_t> sizes);

  void check_entered(int lane, const PlannedOperand& operand);
  void check_heard(int lane, const PlannedOperand& operand);
  void check_returns();
  void check_met(int rank, const Clock& returned);
  void tell_waiting(const std::vector<int>& path, int end, bool circle);
  std::string first_sending_lane(int from, int to) const;
  void tell_why_none(const Blocker& blocker, int waiting);
  void report_sizes(int lane, const PlannedOperand& operand, const std::vector<std::uint64_t>& sizes,
                    const Finished& message);
  void check_left_over();
  void report_deadlock();
  void report_race(int lane, const PlannedOperand& operand, std::size_t index, bool writes, Epoch other, bool wrote);
  std::string place(int lane, std::uint64_t segment, std::size_t step) const;
  std::string place(int lane) const;
  std::vector<Provenance> origins_of(int lane, const PlannedStep& step) const;
  std::size_t index_in(Epoch epoch, std::size_t cell) const;
  std::string words(const Blocker& blocker) const;
  void count_bytes(int from, int to, std::uint64_t elements);
  void count_window(int lane, const PlannedOperand& operand, bool writes);

  const VerifyPlan& plan_;
  Problems& problems_;
  Journal* journal_;
  Expressions expressions_;
  std::vector<LaneState> states_;
  std::vector<EdgeState> edges_;
  std::vector<std::uint32_t> clocks_;  // one row per lane
  std::size_t width_;                  // components of a clock
  std::vector<Cell> cells_;
  std::vector<std::size_t> first_cell_;  // per rank
  std::vector<std::uint32_t>
      last_touch_;                    // (owner, lane): time of the lane's last access to the owner's input or output
  std::vector<std::uint64_t> bytes_;  // (from, to)
  std::set<std::tuple<int, std::size_t, int, std::size_t>> reported_;  // pairs of racing steps
};

}  // namespace tutti::schedule::verification
