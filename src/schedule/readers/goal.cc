#include "schedule/readers/goal.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "schedule/fold.h"
#include "schedule/layout.h"
#include "tutti/error.h"

namespace tutti::schedule {
namespace {

using Labels = std::vector<std::uint64_t>;
using Tags = std::map<std::pair<int, int>, int>;  // the next one, by peer and channel

// The text of one rank.
class GoalRank {
 public:
  GoalRank(const Lowered& lowered, const GoalOptions& options)
      : program_(lowered.program),
        options_(options),
        layout_(Layout::of(program_.verb, options.count, options.element_bytes,
                           static_cast<std::uint32_t>(program_.blocks), lowered.segment_bytes)) {}

  std::string text() {
    for (const Lane& lane : program_.lanes) {
      Labels before;
      ends_.emplace_back();
      for (std::uint64_t segment = 0; segment < layout_.segments; ++segment) {
        for (const Step& step : lane.steps) ends_.back().push_back(before = add(step, segment, before));
      }
    }
    for (const Awaited& awaited : awaited_) add_dependencies(awaited);
    return "rank " + std::to_string(program_.rank) + " {\n" + operations_ + dependencies_ + "}\n";
  }

 private:
  // An operation that comes behind what another lane of the rank does in a segment.
  struct Awaited {
    std::uint64_t label;
    const Wait* wait;
    std::uint64_t segment;
  };

  void add_dependencies(const Awaited& awaited) {
    const auto lane = static_cast<std::size_t>(awaited.wait->lane);
    const std::size_t step =
        awaited.segment * program_.lanes[lane].steps.size() + static_cast<std::size_t>(awaited.wait->step);
    for (const std::uint64_t before : ends_[lane][step]) add_dependency(awaited.label, before);
  }

  // Returns what the next step of the lane comes behind.
  Labels add(const Step& step, std::uint64_t segment, Labels before) {
    require_messages(step);
    if (!step.waits.empty()) {
      before = {add("calc 0", before)};
      for (const Wait& wait : step.waits) {
        const auto back = static_cast<std::uint64_t>(wait.segments_back);
        if (back <= segment) awaited_.push_back({before.front(), &wait, segment - back});
      }
    }
    const std::uint64_t bytes = elements_of(step, program_, layout_, segment) * options_.element_bytes;
    Labels last = before;
    Labels received;
    for (const Operand& source : step.sources) {
      if (is_slot(source)) received.push_back(add(message("recv", "from", source, bytes, received_), before));
    }
    if (!received.empty()) last = received;
    if (step.op == StepOp::reduce) {
      const auto reduced = static_cast<double>(bytes * (step.sources.size() - 1));
      last = {add("calc " + std::to_string(nanoseconds(reduced)), last)};
    }
    Labels sent;
    for (const Operand& destination : step.destinations) {
      if (is_slot(destination)) sent.push_back(add(message("send", "to", destination, bytes, sent_), last));
    }
    return sent.empty() ? last : sent;
  }

  long long nanoseconds(double reduced) const {
    const double time = reduced / options_.reduced_bytes_per_ns;
    constexpr double kMost = 9e18;  // that the numbers of GOAL hold
    if (time >= 0 && time < kMost) return std::llround(time);
    throw Error(ErrorCode::invalid_argument,
                "a reduction would take more nanoseconds than GOAL has numbers for: ranks must reduce more quickly");
  }

  std::uint64_t add(const std::string& operation, const Labels& behind) {
    const std::string label = "l" + std::to_string(++labels_);
    operations_ += label + ": " + operation + "\n";
    for (const std::uint64_t before : behind) add_dependency(labels_, before);
    return labels_;
  }

  void add_dependency(std::uint64_t label, std::uint64_t before) {
    dependencies_ += "l" + std::to_string(label) + " requires l" + std::to_string(before) + "\n";
  }

  std::string message(const char* verb, const char* direction, const Operand& slot, std::uint64_t bytes,
                      Tags& tags) const {
    const int peer = slot.rank.resolve(program_.rank, program_.ranks);
    return std::string(verb) + " " + std::to_string(bytes) + "b " + direction + " " + std::to_string(peer) + " tag " +
           std::to_string(tags[{peer, slot.channel}]++ * program_.channels + slot.channel);
  }

  void require_messages(const Step& step) const {
    const auto is_window = [](const Operand& operand) { return operand.kind == Operand::Kind::window; };
    const auto any = [&](const std::vector<Operand>& operands) {
      return std::any_of(operands.begin(), operands.end(), is_window);
    };
    const auto is_peers = [&](const Wait& wait) {
      return wait.lane == Wait::kEntryLane || wait.rank.resolve(program_.rank, program_.ranks) != program_.rank;
    };
    if (std::none_of(step.waits.begin(), step.waits.end(), is_peers) && !any(step.sources) && !any(step.destinations))
      return;
    throw Error(ErrorCode::unsupported, std::string(name_of(program_.verb)) + " by '" + program_.algorithm +
                                            "' reaches into others' memory, which GOAL has no words for; choose an " +
                                            "algorithm of messages (`tutti list`)");
  }

  const Program& program_;
  const GoalOptions& options_;
  const Layout layout_;
  std::uint64_t labels_ = 0;
  std::string operations_, dependencies_;
  Tags sent_, received_;
  std::vector<std::vector<Labels>> ends_;  // by lane, segment and step
  std::vector<Awaited> awaited_;
};

}  // namespace

std::string to_goal(std::span<const Lowered> programs, const GoalOptions& options) {
  require_program_set(programs);
  std::string text = "num_ranks " + std::to_string(programs.size()) + "\n";
  for (const Lowered& lowered : programs) text += "\n" + GoalRank(lowered, options).text();
  return text;
}

}  // namespace tutti::schedule
