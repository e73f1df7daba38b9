#include "schedule/readers/goal.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "schedule/fold.h"
#include "schedule/layout.h"
#include "tutti/error.h"

namespace tutti::schedule {
namespace {

using Labels = std::vector<std::uint64_t>;

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
      for (std::uint64_t segment = 0; segment < layout_.segments; ++segment) {
        for (const Step& step : lane.steps) before = add(step, segment, before);
      }
    }
    return "rank " + std::to_string(program_.rank) + " {\n" + operations_ + dependencies_ + "}\n";
  }

 private:
  // Returns what the next step of the lane comes behind.
  Labels add(const Step& step, std::uint64_t segment, const Labels& before) {
    require_messages(step);
    const std::uint64_t bytes = elements_of(step, program_, layout_, segment) * options_.element_bytes;
    Labels last = before;
    Labels received;
    for (const Operand& source : step.sources) {
      if (is_slot(source)) received.push_back(add(message("recv", "from", source, bytes, received_), before));
    }
    if (!received.empty()) last = received;
    if (step.op == StepOp::reduce) {
      const auto reduced = static_cast<double>(bytes * (step.sources.size() - 1));
      last = {add("calc " + std::to_string(std::llround(reduced / options_.reduced_bytes_per_ns)), last)};
    }
    Labels sent;
    for (const Operand& destination : step.destinations) {
      if (is_slot(destination)) sent.push_back(add(message("send", "to", destination, bytes, sent_), last));
    }
    return sent.empty() ? last : sent;
  }

  std::uint64_t add(const std::string& operation, const Labels& behind) {
    const std::string label = "l" + std::to_string(++labels_);
    operations_ += label + ": " + operation + "\n";
    for (const std::uint64_t before : behind) dependencies_ += label + " requires l" + std::to_string(before) + "\n";
    return labels_;
  }

  std::string message(const char* verb, const char* direction, const Operand& slot, std::uint64_t bytes,
                      std::map<int, int>& tags) const {
    const int peer = slot.rank.resolve(program_.rank, program_.ranks);
    return std::string(verb) + " " + std::to_string(bytes) + "b " + direction + " " + std::to_string(peer) + " tag " +
           std::to_string(tags[peer]++);
  }

  void require_messages(const Step& step) const {
    const auto is_window = [](const Operand& operand) { return operand.kind == Operand::Kind::window; };
    const auto any = [&](const std::vector<Operand>& operands) {
      return std::any_of(operands.begin(), operands.end(), is_window);
    };
    if (step.waits.empty() && !any(step.sources) && !any(step.destinations)) return;
    throw Error(ErrorCode::unsupported, std::string(name_of(program_.verb)) + " by '" + program_.algorithm +
                                            "' reaches into others' memory, which GOAL has no words for; choose an " +
                                            "algorithm of messages (`tutti list`)");
  }

  const Program& program_;
  const GoalOptions& options_;
  const Layout layout_;
  std::uint64_t labels_ = 0;
  std::string operations_, dependencies_;
  std::map<int, int> sent_, received_;  // messages so far, by peer
};

}  // namespace

std::string to_goal(std::span<const Lowered> programs, const GoalOptions& options) {
  require_program_set(programs);
  std::string text = "num_ranks " + std::to_string(programs.size()) + "\n";
  for (const Lowered& lowered : programs) text += "\n" + GoalRank(lowered, options).text();
  return text;
}

}  // namespace tutti::schedule
