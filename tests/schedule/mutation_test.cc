// Is the verifier blind to a kind of mistake? Correct programs are edited at random; whatever the interpreter can show
// to be faulty with some timing, the verifier must have rejected.
//
// A mutant counts where the interpreter, which shares nothing with the verifier but the programs, shows its fault: what
// is only written otherwise, such as two steps that may come in either order, does not. TUTTI_MUTANTS and TUTTI_SEED
// choose how many mutants and which; TUTTI_COUNTING_MUTANTS how many that count, of all algorithms.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "handmade.h"
#include "interpreter.h"
#include "mutate.h"
#include "program_sets.h"
#include "schedule/readers/describe.h"
#include "schedule/readers/verify.h"
#include "words.h"

namespace tutti::schedule {
namespace {

using Programs = std::vector<Lowered>;

struct Subject {
  std::string name;
  std::string row;  // of the table, or empty
  Programs programs;
  std::uint32_t credits;
  bool in_place = true;  // can be run so
};

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (const Algorithm& algorithm : algorithms()) {
    for (int ranks = 2; ranks <= most_ranks(algorithm, 6); ++ranks) {
      if (!fits(algorithm, ranks)) continue;
      const auto credits = algorithm.credits;
      const std::string row = std::string(name_of(algorithm.verb)) + " by " + std::string(algorithm.name);
      const std::string name = row + ", " + std::to_string(ranks) + " ranks";
      const bool in_place = runs_in_place(algorithm);
      all.push_back({name, row, programs_of(algorithm, ranks, shared_memory(credits), ranks / 2), credits, in_place});
      if (needs_shared_memory(algorithm)) {
        // Waits, and messages that stay with their sender, are where programs are subtle: these count twice.
        all.push_back(all.back());
      } else {
        all.push_back(
            {name + ", byte streams", row, programs_of(algorithm, ranks, byte_streams(1), ranks / 2), 1, in_place});
      }
    }
  }
  all.push_back({"ordered by credits", "", ordered_by_credits(1, 1), 1});
  all.push_back({"ordered by credits, two deep", "", ordered_by_credits(2, 2), 2});
  all.push_back({"ordered by messages", "", ordered_by_messages(), 1});
  return all;
}

// Both readers must cut alike.
VerifyReport verify_set(const Programs& programs, std::uint32_t segments, bool in_place, std::uint32_t credits) {
  return verify(programs, {ragged_count(programs[0].program, segments), 4, segments, credits, in_place});
}

std::string first_fault(const Programs& programs, std::uint32_t segments, bool in_place, std::uint32_t credits,
                        bool canonical, int runs, std::uint64_t seed) {
  const Layout layout = ragged_layout(programs[0].program, segments);
  EXPECT_TRUE(layout.segments == segments || programs[0].program.verb == Verb::barrier);
  Interpreter interpreter({programs, layout, credits, in_place, canonical});
  for (int run = 0; run < runs; ++run) {
    if (std::string fault = interpreter.run(seed + static_cast<std::uint64_t>(run)); !fault.empty()) return fault;
  }
  return {};
}

int runs_for(Mutation mutation) {
  switch (mutation) {
    case Mutation::misdirect:
    case Mutation::missing_wait:
    case Mutation::added_wait:
    case Mutation::segments_back:
    case Mutation::overwrite:
    case Mutation::depth: return 256;
    default: return 64;
  }
}

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

struct Tally {
  int mutants = 0, faulty = 0, rejected = 0, stricter = 0, survivors = 0;

  void print(std::string_view name) const {
    std::printf("%-14.*s %8d %8d %9d %21d %10d\n", static_cast<int>(name.size()), name.data(), mutants, faulty,
                rejected, stricter, survivors);
  }
};

class Trials {
 public:
  void attempt(std::uint64_t seed) {
    const auto mutation = static_cast<Mutation>(scramble(8 * seed + 1) % std::size(kMutationNames));
    const auto segments = static_cast<std::uint32_t>(1 + scramble(8 * seed + 2) % 3);
    // Not every program has a wait or a mark to spoil: look for one that has.
    std::size_t which = 0;
    Programs mutant;
    std::optional<std::string> edit;
    for (std::uint64_t draw = scramble(8 * seed); !edit; draw = scramble(draw)) {
      which = draw % subjects_.size();
      mutant = subjects_[which].programs;
      edit = mutate(mutant, mutation, draw);
    }
    const Subject& subject = subjects_[which];
    const bool in_place = subject.in_place && scramble(8 * seed + 3) % 2 == 0;
    const VerifyReport original = verify_set(subject.programs, segments, in_place, subject.credits);
    ASSERT_TRUE(original.ok()) << subject.name << ": " << original.problems[0].message;

    const VerifyReport report = verify_set(mutant, segments, in_place, subject.credits);
    const std::string fault =
        first_fault(mutant, segments, in_place, subject.credits, original.canonical, runs_for(mutation), seed);
    // A right sum in another order is no problem, but it must not pass for canonical.
    const bool reordered = fault == kAnotherOrder && report.canonical != original.canonical;
    const bool rejected = !report.ok() || reordered;
    Tally& tally = tallies_[static_cast<std::size_t>(mutation)];
    ++tally.mutants;
    tally.faulty += !fault.empty();
    counting_[subject.row] += !fault.empty();
    tally.rejected += !fault.empty() && rejected;
    tally.stricter += fault.empty() && rejected;
    if (fault.empty() || rejected) return;
    ++tally.survivors;
    ADD_FAILURE() << "TUTTI_SEED " << seed << ": " << subject.name << ", " << segments << " segments"
                  << (in_place ? ", in place" : "") << ", " << subject.credits << " credits\n"
                  << *edit << "\nshown: " << fault << "\n--- correct\n"
                  << describe(subject.programs) << "--- mutant\n"
                  << describe(mutant);
  }

  Tally total() const {
    Tally sum;
    for (const Tally& tally : tallies_) {
      sum.mutants += tally.mutants;
      sum.faulty += tally.faulty;
      sum.rejected += tally.rejected;
      sum.stricter += tally.stricter;
      sum.survivors += tally.survivors;
    }
    return sum;
  }

  void print() const {
    std::printf("%-14s %8s %8s %9s %21s %10s\n", "kind", "mutants", "faulty", "rejected", "harmless and rejected",
                "survivors");
    for (std::size_t i = 0; i < tallies_.size(); ++i) tallies_[i].print(kMutationNames[i]);
    total().print("all");
  }

  const std::array<Tally, std::size(kMutationNames)>& tallies() const { return tallies_; }
  int counting_of(const Algorithm& row) const {
    const auto found = counting_.find(std::string(name_of(row.verb)) + " by " + std::string(row.name));
    return found == counting_.end() ? 0 : found->second;
  }

 private:
  std::vector<Subject> subjects_ = subjects();
  std::array<Tally, std::size(kMutationNames)> tallies_;
  std::map<std::string, int> counting_;  // by row
};

TEST(Mutation, NoFaultyProgramIsAccepted) {
  const auto counting = static_cast<int>(from_environment("TUTTI_COUNTING_MUTANTS", 0));
  const auto wanted = counting != 0 ? 10 * counting : static_cast<int>(from_environment("TUTTI_MUTANTS", 6000));
  const std::uint64_t first = from_environment("TUTTI_SEED", 1);
  Trials trials;
  const auto enough = [&](const Tally& tally) {
    return tally.survivors >= 5 || tally.mutants >= wanted || (counting != 0 && tally.faulty >= counting);
  };
  for (std::uint64_t seed = first; !enough(trials.total()); ++seed) {
    trials.attempt(seed);
    if (HasFatalFailure()) return;
  }
  trials.print();
  EXPECT_GE(trials.total().faulty, counting);
  for (const Algorithm& row : algorithms()) {
    EXPECT_GE(trials.counting_of(row), counting / 1000) << name_of(row.verb) << " by " << row.name;
  }
  if (wanted < 1000) return;
  for (std::size_t i = 0; i < trials.tallies().size(); ++i) {
    EXPECT_GT(trials.tallies()[i].faulty, 0)
        << "no mutant of kind " << kMutationNames[i] << " was faulty: the test is blind";
  }
}

}  // namespace
}  // namespace tutti::schedule
