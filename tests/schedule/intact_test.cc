// Outputs stay intact until a rank knows its peers to be in the same call, and some programs let it know of all ranks.
//
// Every message carries the fingerprint of its call, so receiving one from a rank proves that rank to be in this call.
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "handmade.h"
#include "program_sets.h"
#include "schedule/algorithms/build.h"
#include "schedule/readers/verify.h"

namespace tutti::schedule {
namespace {

using Programs = std::vector<Lowered>;

constexpr int kMostRanks = 33;

bool writes_output(const Step& step) {
  for (const Operand& operand : step.destinations) {
    if (operand.kind == Operand::Kind::own && operand.buffer == Buffer::output) return true;
  }
  return false;
}

std::set<int> senders_in(const Step& step, const Program& program) {
  std::set<int> senders;
  for (const Operand& source : step.sources) {
    if (is_slot(source)) senders.insert(source.rank.resolve(program.rank, program.ranks));
  }
  return senders;
}

// The first step by which every rank that ever sends to this one has been heard; -1 where none does.
int hears_all_at(const Program& program) {
  int last = -1;
  std::set<int> heard;
  if (program.lanes.empty()) return -1;
  const std::vector<Step>& steps = program.lanes.at(0).steps;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (const int sender : senders_in(steps[i], program)) {
      if (heard.insert(sender).second) last = static_cast<int>(i);
    }
  }
  return last;
}

// Calls visit(algorithm, programs) for everything that moves by messages in one lane, over memory and over streams.
// Programs that hear first wait by themselves; the last test is about them. Between lanes only the verifier sees.
template <class Visit>
void for_each_of_messages(int most, Visit&& visit) {
  for (const Algorithm& algorithm : algorithms()) {
    const Program sample = algorithm.generate({3, 0, 0});
    if (has_windows(algorithm) || sample.lanes.size() > 1) continue;
    for (const Offers& offers : {shared_memory(2), byte_streams(2)}) {
      if (algorithm.single_copy && !offers.inside.single_copy) continue;
      for (int ranks = 1; ranks <= most_ranks(algorithm, most); ++ranks) {
        if (!fits(algorithm, ranks) || algorithm.generate({ranks, 0, 0}).hears_first) continue;
        SCOPED_TRACE(std::string(algorithm.name) + ", " + std::to_string(ranks) + " ranks" +
                     (offers.inside.operands_in_slots ? "" : ", byte streams"));
        visit(algorithm, programs_of(algorithm, ranks, offers, ranks - 1));
      }
    }
  }
}

// Whether the rank's output has these blocks at all.
bool holds_all(const Program& program, const BlockSet& blocks) {
  for (int i = 0; i < blocks.count; ++i) {
    if (!holds_block(program, Buffer::output, program.rank, blocks.at(i, program.rank, program.blocks))) return false;
  }
  return true;
}

bool has_early_output(const VerifyReport& report) {
  for (const Problem& problem : report.problems) {
    if (problem.kind == Problem::Kind::early_output) return true;
  }
  return false;
}

// Read off the text of the programs, without the verifier: each has one lane, which runs in order.
TEST(Intact, NoAlgorithmWritesItsOutputBeforeItHasHeardFromEverySender) {
  for_each_of_messages(kMostRanks, [](const Algorithm&, const Programs& programs) {
    for (const Lowered& lowered : programs) {
      if (lowered.program.lanes.empty()) continue;  // alone, and nothing to do
      ASSERT_EQ(lowered.program.lanes.size(), 1u);
      const std::vector<Step>& steps = lowered.program.lanes[0].steps;
      for (int i = 0; i < hears_all_at(lowered.program); ++i) {
        EXPECT_FALSE(writes_output(steps[static_cast<std::size_t>(i)]))
            << "rank " << lowered.program.rank << ", step " << i;
      }
    }
    EXPECT_FALSE(has_early_output(verify(programs, {64, 4, 1, 0, false})));
  });
}

// Every step that comes too early, on every rank, one at a time.
TEST(Intact, TheVerifierSeesEveryStepThatWritesTooEarly) {
  int mutants = 0;
  for_each_of_messages(9, [&](const Algorithm& algorithm, const Programs& programs) {
    for (std::size_t rank = 0; rank < programs.size(); ++rank) {
      const int hears_all = hears_all_at(programs[rank].program);
      for (int i = 0; i < hears_all; ++i) {
        Programs mutant = programs;
        Step& step = mutant[rank].program.lanes[0].steps[static_cast<std::size_t>(i)];
        const Operand output = Operand::own(Buffer::output, sized_operand(step)->blocks);
        if (!holds_all(programs[rank].program, output.blocks)) continue;
        step.destinations.push_back(output);
        ++mutants;
        for (const bool in_place : {false, true}) {
          if (in_place && !runs_in_place(algorithm)) continue;
          EXPECT_TRUE(has_early_output(verify(mutant, {64, 4, 1, 0, in_place}))) << "rank " << rank << ", step " << i;
        }
      }
    }
  });
  EXPECT_GT(mutants, 500);
}

// A rank is heard once, however many messages it sends.
TEST(Intact, OneMessageOfARankIsEnough) {
  const Offers offers = shared_memory(1);
  Programs programs;
  for (const int rank : {0, 1}) {
    Program program = begin_program(Verb::broadcast, "two messages", {2, rank, 0}, 2, 1);
    Lane lane{"halves", false, {}};
    for (const int half : {0, 1}) {
      const BlockSet block{Index::absolute(half), 1, 1};
      const Operand input = Operand::own(Buffer::input, block), output = Operand::own(Buffer::output, block);
      const Operand peer = Operand::slot(Index::plus(1));
      lane.steps.push_back(rank == 0 ? copy_step({output, peer}, input) : copy_step({output}, peer));
    }
    program.lanes.push_back(std::move(lane));
    programs.push_back(lower(std::move(program), offers));
  }
  EXPECT_TRUE(verify(programs, {64, 4, 1, 0, false}).ok());
}

// With windows onto buffers the engine has compared all calls when the ranks entered.
TEST(Intact, NothingIsAskedWhereEveryoneEntersFirst) {
  Programs programs = ordered_by_messages();
  std::vector<Step>& steps = programs[0].program.lanes[0].steps;
  steps.insert(steps.begin(), copy_step({Operand::own(Buffer::output, {})}, Operand::own(Buffer::input, {})));
  EXPECT_TRUE(verify(programs, {64, 4, 1, 0, false}).ok());
}

// The chain of messages by which ranks come to know that others are in the call, as sets of ranks.
class Hearsay {
 public:
  explicit Hearsay(const Programs& programs) : programs_(programs), ranks_(programs.size()) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) ranks_[rank].known = std::uint64_t{1} << rank;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        while (advance(rank)) moved = true;
      }
    }
  }

  bool finished(std::size_t rank) const {
    return programs_[rank].program.lanes.empty() || ranks_[rank].step == steps(rank).size();
  }
  std::uint64_t known(std::size_t rank) const { return ranks_[rank].known; }
  std::uint64_t known_at_first_write(std::size_t rank) const { return ranks_[rank].known_at_first_write; }

 private:
  struct State {
    std::size_t step = 0;
    std::uint64_t known = 0;
    std::uint64_t known_at_first_write = 0;
  };

  const std::vector<Step>& steps(std::size_t rank) const { return programs_[rank].program.lanes.at(0).steps; }

  bool advance(std::size_t rank) {
    State& state = ranks_[rank];
    if (finished(rank)) return false;
    const Program& program = programs_[rank].program;
    const Step& step = steps(rank)[state.step];
    const std::set<int> senders = senders_in(step, program);
    for (const int sender : senders) {
      if (messages_[{sender, program.rank}].empty()) return false;
    }
    for (const int sender : senders) {
      std::deque<std::uint64_t>& messages = messages_[{sender, program.rank}];
      state.known |= messages.front();
      messages.pop_front();
    }
    if (writes_output(step) && state.known_at_first_write == 0) state.known_at_first_write = state.known;
    for (const Operand& destination : step.destinations) {
      if (!is_slot(destination)) continue;
      messages_[{program.rank, destination.rank.resolve(program.rank, program.ranks)}].push_back(state.known);
    }
    ++state.step;
    return true;
  }

  const Programs& programs_;
  std::vector<State> ranks_;
  std::map<std::pair<int, int>, std::deque<std::uint64_t>> messages_;
};

// What TUTTI_CHECK=full builds on: one element by recursive doubling ends on a rank only after an unbroken chain of
// checked messages has come to it from every rank. If any rank is in another call, some link fails and nobody ends.
TEST(Intact, RecursiveDoublingEndsOnlyAfterEveryRankHasBegun) {
  const Algorithm& doubling = *find_algorithm(Verb::all_reduce, "recursive_doubling");
  for (const Offers& offers : {shared_memory(1), byte_streams(1)}) {
    for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
      const Programs programs = programs_of(doubling, ranks, offers);
      // The same from the values: each output holds every rank's contribution, and only messages carry those.
      EXPECT_TRUE(verify(programs, {1, 4, 1, 0, false}).ok());
      const std::uint64_t everyone = ~std::uint64_t{0} >> (64 - ranks);
      const Hearsay hearsay(programs);
      for (std::size_t rank = 0; rank < programs.size(); ++rank) {
        EXPECT_TRUE(hearsay.finished(rank)) << "rank " << rank << " of " << ranks;
        EXPECT_EQ(hearsay.known(rank), everyone) << "rank " << rank << " of " << ranks;
      }
    }
  }
}

// What writes only sums of everything to its output hears of every rank before. A root that only gives does not.
TEST(Intact, SumsOfMessagesHearOfEveryRankBeforeTheyWrite) {
  for_each_of_messages(kMostRanks, [](const Algorithm& algorithm, const Programs& programs) {
    const std::uint64_t everyone = ~std::uint64_t{0} >> (64 - programs.size());
    const Hearsay hearsay(programs);
    bool all = true;
    for (std::size_t rank = 0; rank < programs.size(); ++rank) {
      EXPECT_TRUE(hearsay.finished(rank));
      all = all && hearsay.known_at_first_write(rank) == everyone;
    }
    const bool sums = algorithm.verb == Verb::all_reduce || algorithm.verb == Verb::reduce_scatter;
    if (sums) {
      EXPECT_TRUE(all);
    }
    if (programs.size() > 1 && (algorithm.verb == Verb::broadcast || algorithm.verb == Verb::scatter)) {
      EXPECT_FALSE(all);
    }
  });
}

// Without the rule they would write what came first while others are still unheard.
TEST(Intact, ProgramsThatHearFirstNeedTo) {
  int seen = 0;
  for (const Algorithm& algorithm : algorithms()) {
    // Programs inside one host, one behind the other, have heard from everybody by themselves.
    if (algorithm.hierarchical) continue;
    for (const Offers& offers : {shared_memory(2), byte_streams(2)}) {
      if (algorithm.single_copy && !offers.inside.single_copy) continue;
      for (int ranks = 3; ranks <= 9; ++ranks) {
        if (!fits(algorithm, ranks) || !algorithm.generate({ranks, 0, 0}).hears_first) continue;
        Programs programs = programs_of(algorithm, ranks, offers, ranks - 1);
        EXPECT_TRUE(verify(programs, {64, 4, 1, 0, false}).ok());
        for (Lowered& lowered : programs) lowered.program.hears_first = false;
        EXPECT_TRUE(has_early_output(verify(programs, {64, 4, 1, 0, false})))
            << name_of(algorithm.verb) << " by " << algorithm.name << ", " << ranks << " ranks";
        ++seen;
      }
    }
  }
  EXPECT_GT(seen, 50);
}

}  // namespace
}  // namespace tutti::schedule
