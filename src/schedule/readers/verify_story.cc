#include "schedule/readers/verify_story.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>

#include "schedule/verbs.h"

namespace tutti::schedule::verification {
namespace {

constexpr std::size_t kMostLines = 6;

// The first lines and the last ones of a long story.
Story::Lines shortened(Story::Lines lines) {
  if (lines.size() <= kMostLines) return lines;
  const std::size_t left_out = lines.size() - kMostLines + 1;
  const auto from = lines.begin() + 2;
  lines.erase(from, from + static_cast<std::ptrdiff_t>(left_out));
  lines.insert(lines.begin() + 2, "... and so on, through " + std::to_string(left_out) + " steps more");
  return lines;
}

}  // namespace

std::string words_of(const Spot& spot, const VerifyPlan& plan) {
  std::ostringstream text;
  text << "block " << spot.block << " of rank " << spot.rank << "'s " << name_of(spot.buffer);
  if (plan.layout.segments > 1) text << ", segment " << spot.segment << ",";
  return text.str();
}

int rank_of_leaf(Value leaf, const VerifyPlan& plan, const Run& run) {
  return static_cast<int>(run.expressions().leaf_index(leaf) / (plan.layout.segments * plan.layout.blocks));
}

std::string words_of_leaf(Value leaf, const VerifyPlan& plan, const Run& run) {
  const std::size_t index = run.expressions().leaf_index(leaf);
  const std::size_t segment = index / plan.layout.blocks % plan.layout.segments;
  std::ostringstream text;
  text << "block " << index % plan.layout.blocks << " of rank " << rank_of_leaf(leaf, plan, run) << "'s input";
  if (plan.layout.segments > 1) text << ", segment " << segment << ",";
  return text.str();
}

std::string lack_of(int rank, const VerifyPlan& plan, const Run& run) {
  const std::string who = "rank " + std::to_string(rank);
  if (!moves_data(plan.any->verb)) return who + " never leaves the barrier";
  std::string own;  // what it would have had of itself
  for (std::uint64_t segment = 0; segment < plan.layout.segments; ++segment) {
    for (int block = 0; block < plan.any->blocks; ++block) {
      if (!holds_block(*plan.any, Buffer::output, rank, block)) continue;
      const Promised promise = promised(*plan.any, rank, block);
      const std::string where = words_of(Spot{rank, Buffer::output, segment, block}, plan);
      if (promise.contributors != 0) {
        // In place, what lies there before the call has written it is the rank's own contribution.
        if (run.writer(rank, Buffer::output, segment, block).time != 0 || promise.contributors == 1) continue;
        return where + " never gets the reduction over ranks 0-" + std::to_string(promise.contributors - 1);
      }
      const Value leaf = run.leaf(promise.from_rank, segment, promise.from_block);
      if (run.value(rank, Buffer::output, segment, block) == leaf) continue;
      if (promise.from_rank != rank) return who + " never receives " + words_of_leaf(leaf, plan, run);
      if (own.empty()) own = where + " never gets its own input";
    }
  }
  return own.empty() ? who + " never returns" : own;
}

Provenance Story::origin_of(const Spot& spot) const {
  const Epoch by = run_.writer(spot.rank, spot.buffer, spot.segment, spot.block);
  const Value value = run_.value(spot.rank, spot.buffer, spot.segment, spot.block);
  return {by, by.time == 0 ? 0 : run_.index_of_result(spot.rank, spot.buffer, spot.segment, spot.block), value};
}

const PlannedStep& Story::step_at(Epoch epoch) const {
  const std::vector<PlannedStep>& steps = plan_.lanes[epoch.component].steps;
  return steps[(epoch.time - 1) % steps.size()];
}

// The element of each source that the value was made of.
std::vector<Provenance> Story::sources_of(const Provenance& origin) const {
  const Made& made = journal_.at(origin.by);
  const std::size_t width = step_at(origin.by).blocks.size();
  std::vector<Provenance> sources;
  for (std::size_t i = origin.index; i < made.origins.size(); i += width) sources.push_back(made.origins[i]);
  return sources;
}

std::string Story::words_of_source(const PlannedStep& step, std::size_t source, std::size_t index) const {
  const PlannedOperand& operand = step.sources[source];
  std::ostringstream text;
  if (is_slot(operand)) {
    text << "a message of rank " << operand.rank;
  } else {
    text << "block " << operand.blocks[index] << " of rank " << operand.rank << "'s " << name_of(operand.buffer);
  }
  return text.str();
}

Story::Lines Story::follow(Provenance origin, const Turn& turn, std::string_view end) const {
  Lines lines;
  while (origin.by.time != 0) {
    const PlannedStep& step = step_at(origin.by);
    const std::vector<Provenance> sources = sources_of(origin);
    const std::size_t source = turn(origin, sources);
    if (source >= sources.size()) {
      lines.push_back(run_.place(origin.by) + std::string(end));
      break;
    }
    // From one place to another in its own memory is no news.
    const bool at_home = sources[source].by.time != 0 &&
                         plan_.lanes[sources[source].by.component].rank == plan_.lanes[origin.by.component].rank;
    if (!at_home)
      lines.push_back(run_.place(origin.by) + " has it from " + words_of_source(step, source, origin.index));
    origin = sources[source];
  }
  return shortened(std::move(lines));
}

Story::Lines Story::of_writer(const Spot& spot) const {
  const Provenance origin = origin_of(spot);
  if (origin.by.time == 0) return {"no step writes it"};
  return {words_of(spot, plan_) + " is written by " + run_.place(origin.by)};
}

Story::Lines Story::of_poison(const Spot& spot) const {
  const Provenance origin = origin_of(spot);
  if (origin.by.time != 0) {
    const auto first_poison = [](const Provenance&, const std::vector<Provenance>& sources) {
      const auto found =
          std::find_if(sources.begin(), sources.end(), [](const Provenance& o) { return o.value == kPoison; });
      return static_cast<std::size_t>(found - sources.begin());
    };
    Lines lines = follow(origin, first_poison, " makes it of nothing");
    lines.emplace_back("nobody has written there before");
    return lines;
  }
  const Promised promise = promised(*plan_.any, spot.rank, spot.block);
  Lines lines{"no step writes it"};
  if (promise.contributors == 0)
    lines.push_back(furthest(run_.leaf(promise.from_rank, spot.segment, promise.from_block)));
  return lines;
}

Story::Lines Story::of_stranger(const Spot& spot, Value leaf) const {
  const std::vector<std::uint8_t> counts = run_.expressions().counts_of(leaf);
  const auto holder = [&](const Provenance&, const std::vector<Provenance>& sources) {
    const auto found = std::find_if(sources.begin(), sources.end(),
                                    [&](const Provenance& source) { return counts[source.value] != 0; });
    return static_cast<std::size_t>(found - sources.begin());
  };
  return follow(origin_of(spot), holder, "");
}

Story::Lines Story::of_twice(const Spot& spot, Value leaf) const {
  const std::vector<std::uint8_t> counts = run_.expressions().counts_of(leaf);
  const auto doubled = [&](const Provenance&, const std::vector<Provenance>& sources) {
    std::vector<std::size_t> holders;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if (counts[sources[i].value] > 1) return i;
      if (counts[sources[i].value] == 1) holders.push_back(i);
    }
    return holders.size() == 1 ? holders[0] : kHere;
  };
  return follow(origin_of(spot), doubled, " reduces two values that both hold it");
}

// For each value that the one at `from` was made of: the source to follow from there to a step of `rank`, the shortest
// way; kHere at its end. Empty where there is none.
std::map<Story::Key, std::size_t> Story::way_to_rank(const Provenance& from, int rank) const {
  struct Hop {
    Provenance later;
    std::size_t source;
  };
  std::map<Key, Hop> reached{{key_of(from), {from, kHere}}};
  std::vector<Provenance> round{from};
  while (!round.empty()) {
    std::vector<Provenance> next;
    for (const Provenance& origin : round) {
      if (origin.by.time == 0) continue;
      if (plan_.lanes[origin.by.component].rank == rank) {
        std::map<Key, std::size_t> way{{key_of(origin), kHere}};
        for (Hop hop = reached.at(key_of(origin)); hop.source != kHere; hop = reached.at(key_of(hop.later)))
          way[key_of(hop.later)] = hop.source;
        return way;
      }
      const std::vector<Provenance> sources = sources_of(origin);
      for (std::size_t i = 0; i < sources.size(); ++i) {
        if (reached.try_emplace(key_of(sources[i]), Hop{origin, i}).second) next.push_back(sources[i]);
      }
    }
    round = std::move(next);
  }
  return {};
}

Story::Lines Story::of_lacking(const Spot& spot, Value leaf) const {
  const Provenance origin = origin_of(spot);
  if (origin.by.time == 0) return {"no step writes it", furthest(leaf)};
  const std::string missing = std::to_string(rank_of_leaf(leaf, plan_, run_));
  const std::map<Key, std::size_t> way = way_to_rank(origin, rank_of_leaf(leaf, plan_, run_));
  Lines lines = of_writer(spot);
  if (!way.empty()) {
    const auto along = [&](const Provenance& at, const std::vector<Provenance>&) { return way.at(key_of(at)); };
    lines = follow(origin, along, " passes it on, and adds nothing of rank " + missing);
  }
  lines.push_back(furthest(leaf));
  return lines;
}

// How far a contribution gets.
std::string Story::furthest(Value leaf) const {
  const std::vector<std::uint8_t> counts = run_.expressions().counts_of(leaf);
  Epoch last;
  std::uint64_t order = 0;
  for (std::size_t lane = 0; lane < journal_.by_lane().size(); ++lane) {
    const std::vector<Made>& steps = journal_.by_lane()[lane];
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const bool here =
          std::any_of(steps[i].values.begin(), steps[i].values.end(), [&](Value value) { return counts[value] != 0; });
      if (!here || steps[i].order < order) continue;
      order = steps[i].order;
      last = {static_cast<std::uint32_t>(lane), static_cast<std::uint32_t>(i + 1)};
    }
  }
  const std::string what = words_of_leaf(leaf, plan_, run_);
  if (order == 0) return "no step reads " + what;
  std::string to;
  for (const PlannedOperand& operand : step_at(last).destinations) {
    to += to.empty() ? "" : " and ";
    to += is_slot(operand) ? "a message to rank " + std::to_string(operand.rank)
                           : "rank " + std::to_string(operand.rank) + "'s " + std::string(name_of(operand.buffer));
  }
  return what + " is last seen in " + run_.place(last) + ", which puts it into " + to;
}

}  // namespace tutti::schedule::verification
