// How a wrong value came about, in a few lines: from where it lies back to the step that is to blame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schedule/readers/verify_journal.h"
#include "schedule/readers/verify_plan.h"
#include "schedule/readers/verify_run.h"

namespace tutti::schedule::verification {

// A block of a caller's buffer, in one segment.
struct Spot {
  int rank;
  Buffer buffer;
  std::uint64_t segment;
  int block;
};

// "block 2 of rank 3's output"; with its segment where there are several.
std::string words_of(const Spot& spot, const VerifyPlan& plan);

// "block 1 of rank 2's input": the contribution that this leaf stands for.
std::string words_of_leaf(Value leaf, const VerifyPlan& plan, const Run& run);
int rank_of_leaf(Value leaf, const VerifyPlan& plan, const Run& run);

// What `rank` still lacks when nothing moves any more: "rank 3 never receives block 2 of rank 1's input".
std::string lack_of(int rank, const VerifyPlan& plan, const Run& run);

class Story {
 public:
  using Lines = std::vector<std::string>;

  Story(const VerifyPlan& plan, const Run& run, const Journal& journal) : plan_(plan), run_(run), journal_(journal) {}

  // Nothing, or what nobody wrote, is there.
  Lines of_poison(const Spot& spot) const;
  // `leaf` is there, and does not belong there.
  Lines of_stranger(const Spot& spot, Value leaf) const;
  Lines of_twice(const Spot& spot, Value leaf) const;
  // `leaf` should be there and is not.
  Lines of_lacking(const Spot& spot, Value leaf) const;
  // Who wrote it.
  Lines of_writer(const Spot& spot) const;

 private:
  // Which of the sources of a step to follow: a number, or kHere for the step itself.
  static constexpr std::size_t kHere = ~std::size_t{0};
  using Turn = std::function<std::size_t(const Provenance&, const std::vector<Provenance>& sources)>;
  using Key = std::pair<std::uint64_t, std::size_t>;

  static Key key_of(const Provenance& origin) {
    return {std::uint64_t{origin.by.component} << 32 | origin.by.time, origin.index};
  }

  Provenance origin_of(const Spot& spot) const;
  const PlannedStep& step_at(Epoch epoch) const;
  std::vector<Provenance> sources_of(const Provenance& origin) const;
  // Goes back from `origin`, a line for each step that has it from elsewhere; ends where `turn` says so or memory is as
  // it was before the call.
  Lines follow(Provenance origin, const Turn& turn, std::string_view end) const;
  std::map<Key, std::size_t> way_to_rank(const Provenance& from, int rank) const;
  std::string words_of_source(const PlannedStep& step, std::size_t source, std::size_t index) const;
  std::string furthest(Value leaf) const;

  const VerifyPlan& plan_;
  const Run& run_;
  const Journal& journal_;
};

}  // namespace tutti::schedule::verification
