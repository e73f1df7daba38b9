#include "mutate.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "words.h"

namespace tutti::schedule {
namespace {

class Editor {
 public:
  Editor(Program& program, std::uint64_t seed) : program_(program), state_(seed) {}

  std::string apply(Mutation mutation) {
    switch (mutation) {
      case Mutation::drop: return drop();
      case Mutation::duplicate: return duplicate();
      case Mutation::misdirect: return misdirect();
      case Mutation::reorder: return reorder();
      case Mutation::range: return range();
      case Mutation::missing_wait: return missing_wait();
      case Mutation::added_wait: return added_wait();
      case Mutation::segments_back: return segments_back();
      case Mutation::last: return last();
      case Mutation::depth: return depth();
      case Mutation::early: return early();
      case Mutation::hearing: return hearing();
      case Mutation::overwrite: return overwrite();
    }
    return {};
  }

 private:
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(scramble(state_ += 0x9E3779B97F4A7C15u) % n); }
  bool coin() { return below(2) == 0; }
  int other_rank() { return 1 + static_cast<int>(below(static_cast<std::size_t>(std::max(1, program_.ranks - 1)))); }

  // A random step that `fits`, with its place; nullptr where there is none.
  template <class Fits>
  Step* pick(Fits&& fits) {
    std::vector<std::pair<std::size_t, std::size_t>> candidates;
    for (std::size_t lane = 0; lane < program_.lanes.size(); ++lane) {
      for (std::size_t step = 0; step < program_.lanes[lane].steps.size(); ++step) {
        if (fits(program_.lanes[lane].steps[step])) candidates.push_back({lane, step});
      }
    }
    if (candidates.empty()) return nullptr;
    std::tie(lane_, step_) = candidates[below(candidates.size())];
    place_ = " (rank " + std::to_string(program_.rank) + ", lane " + program_.lanes[lane_].name + ", step " +
             std::to_string(step_) + ")";
    return &program_.lanes[lane_].steps[step_];
  }
  Step* pick_any() {
    return pick([](const Step&) { return true; });
  }
  Step* pick_waiting() {
    return pick([](const Step& step) { return !step.waits.empty(); });
  }
  Step* pick_moving() {
    return pick([](const Step& step) { return !step.sources.empty(); });
  }
  std::vector<Step>& steps() { return program_.lanes[lane_].steps; }
  std::vector<Step>::iterator here() { return steps().begin() + static_cast<std::ptrdiff_t>(step_); }
  std::vector<Operand>& side(Step& step) { return coin() ? step.sources : step.destinations; }
  template <class T>
  typename std::vector<T>::iterator any_of(std::vector<T>& items) {
    return items.begin() + static_cast<std::ptrdiff_t>(below(items.size()));
  }

  std::string drop() {
    Step* step = pick_any();
    if (step == nullptr) return {};
    const std::size_t what = below(8);
    std::vector<Operand>& operands = side(*step);
    if (what < 4 && operands.size() > 1) {
      operands.erase(any_of(operands));
      return "dropped an operand" + place_;
    }
    if (what == 7 && program_.lanes.size() > 1) {
      program_.lanes.erase(program_.lanes.begin() + static_cast<std::ptrdiff_t>(lane_));
      return "dropped the lane" + place_;
    }
    steps().erase(here());
    return "dropped the step" + place_;
  }

  std::string duplicate() {
    Step* step = pick_any();
    if (step == nullptr) return {};
    if (coin() || step->sources.empty()) {
      const Step copy = *step;
      steps().insert(coin() ? here() : steps().end(), copy);
      return "duplicated the step" + place_;
    }
    std::vector<Operand>& operands = side(*step);
    operands.push_back(*any_of(operands));
    return "duplicated an operand" + place_;
  }

  std::string misdirect() {
    const bool wait = coin();
    if (Step* step = wait ? pick_waiting() : nullptr) {
      Wait& named = *any_of(step->waits);
      switch (below(3)) {
        case 0: named.rank = Index::plus(static_cast<int>(below(static_cast<std::size_t>(program_.ranks)))); break;
        case 1: named.lane = static_cast<int>(below(program_.lanes.size())); break;
        default: named.step = std::max(0, named.step + (coin() ? 1 : -1)); break;
      }
      return "misdirected a wait" + place_;
    }
    const auto to_peer = [](const Operand& operand) { return operand.kind != Operand::Kind::own; };
    Step* step = pick([&](const Step& s) {
      return std::any_of(s.sources.begin(), s.sources.end(), to_peer) ||
             std::any_of(s.destinations.begin(), s.destinations.end(), to_peer);
    });
    if (step == nullptr) return {};
    std::vector<Operand*> peers;
    for (auto* operands : {&step->sources, &step->destinations}) {
      for (Operand& operand : *operands) {
        if (to_peer(operand)) peers.push_back(&operand);
      }
    }
    Operand& operand = **any_of(peers);
    const int old = operand.rank.resolve(program_.rank, program_.ranks);
    operand.rank = Index::absolute((old + other_rank()) % program_.ranks);
    return "misdirected an operand" + place_;
  }

  std::string reorder() {
    Step* step = pick_any();
    if (step == nullptr) return {};
    if (step->sources.size() > 1 && coin()) {
      std::swap(*any_of(step->sources), *any_of(step->sources));
      return "swapped two sources" + place_;
    }
    if (steps().size() < 2) return {};
    std::swap(*here(), *any_of(steps()));
    return "swapped the step with another" + place_;
  }

  std::string range() {
    const auto in_memory = [](const Operand& operand) { return operand.kind != Operand::Kind::slot; };
    Step* step = pick_moving();
    if (step == nullptr) return {};
    std::vector<Operand>& operands = side(*step);
    Operand& operand = *any_of(operands);
    if (!in_memory(operand)) {
      operand.rank.value += 1;
      return "another peer" + place_;
    }
    switch (below(9)) {
      case 8: operand.blocks.run += coin() || operand.blocks.run == 1 ? 1 : -1; return "another run" + place_;
      case 0: operand.blocks.count += coin() ? 1 : -1; return "another number of blocks" + place_;
      case 1: operand.blocks.stride += coin() ? 1 : -1; return "another stride" + place_;
      case 2: operand.plane = static_cast<std::uint8_t>(operand.plane ^ 1); return "another plane" + place_;
      case 3: {
        // All operands alike: sizes still match, the place is wrong.
        for (auto* all : {&step->sources, &step->destinations}) {
          for (Operand& each : *all) each.blocks.first.value += 1;
        }
        return "all operands one block further" + place_;
      }
      case 4:
      case 5: operand.blocks.first.value += coin() ? 1 : -1; return "another block" + place_;
      default: {
        const auto buffer = static_cast<int>(operand.buffer);
        operand.buffer = static_cast<Buffer>((buffer + 1 + static_cast<int>(below(2))) % 3);
        return "another buffer" + place_;
      }
    }
  }

  std::string missing_wait() {
    Step* step = pick_waiting();
    if (step == nullptr) return {};
    step->waits.erase(any_of(step->waits));
    return "dropped a wait" + place_;
  }

  std::string added_wait() {
    Step* step = pick_any();
    if (step == nullptr) return {};
    const std::size_t lane = below(program_.lanes.size());
    if (program_.lanes[lane].steps.empty()) return {};
    program_.lanes[lane].published = true;
    const auto target = static_cast<int>(below(program_.lanes[lane].steps.size()));
    const auto rank = Index::plus(static_cast<int>(below(static_cast<std::size_t>(program_.ranks))));
    step->waits.push_back({rank, static_cast<int>(lane), target, static_cast<int>(below(2))});
    return "added a wait for step " + std::to_string(target) + " of lane " + std::to_string(lane) + place_;
  }

  std::string segments_back() {
    Step* step = pick_waiting();
    if (step == nullptr) return {};
    Wait& wait = *any_of(step->waits);
    wait.segments_back = wait.segments_back == 0 || coin() ? wait.segments_back + 1 : wait.segments_back - 1;
    return "a wait for another segment" + place_;
  }

  std::string last() {
    Step* step = pick([](const Step& each) { return each.op == StepOp::reduce; });
    if (step == nullptr) return {};
    step->last = !step->last;
    return std::string(step->last ? "marked last" : "no longer marked last") + place_;
  }

  std::string depth() {
    if (program_.scratch_planes == 0) return {};
    const bool less = program_.scratch_depth > 1 && coin();
    program_.scratch_depth += less ? -1 : 1;
    return "scratch is " + std::to_string(program_.scratch_depth) + " deep";
  }

  std::string early() {
    const auto own_output = [](const Operand& operand) {
      return operand.kind == Operand::Kind::own && operand.buffer == Buffer::output;
    };
    Step* step = pick([&](const Step& s) {
      return !s.sources.empty() && std::none_of(s.destinations.begin(), s.destinations.end(), own_output);
    });
    if (step == nullptr) return {};
    const auto sized = [](const std::vector<Operand>& operands) {
      return std::find_if(operands.begin(), operands.end(),
                          [](const Operand& operand) { return operand.kind != Operand::Kind::slot; });
    };
    const auto found = sized(step->destinations);
    const BlockSet blocks = found != step->destinations.end() ? found->blocks : sized(step->sources)->blocks;
    const Operand output = Operand::own(Buffer::output, blocks);
    if (coin()) {
      step->destinations.push_back(output);
      return "also writes to the output" + place_;
    }
    steps().insert(here(), Step{StepOp::copy, false, {output}, {Operand::own(Buffer::input, blocks)}, {}});
    return "a copy to the output before" + place_;
  }

  std::string hearing() {
    program_.hears_first = !program_.hears_first;
    return program_.hears_first ? "hears first" : "no longer hears first";
  }

  std::string overwrite() {
    Step* step = pick([](const Step& s) {
      return std::any_of(s.destinations.begin(), s.destinations.end(), is_slot) &&
             std::none_of(s.sources.begin(), s.sources.end(), is_slot);
    });
    if (step == nullptr) return {};
    const Operand sent = step->sources[0];
    const auto buffer = static_cast<Buffer>((static_cast<int>(sent.buffer) + 1 + static_cast<int>(below(2))) % 3);
    const Step again{StepOp::copy, false, {sent}, {Operand::own(buffer, sent.blocks)}, {}};
    steps().insert(coin() ? here() + 1 : steps().end(), again);
    return "writes again what was sent" + place_;
  }

  Program& program_;
  std::uint64_t state_;
  std::size_t lane_ = 0, step_ = 0;
  std::string place_;
};

}  // namespace

std::optional<std::string> mutate(std::vector<Lowered>& programs, Mutation mutation, std::uint64_t seed) {
  const bool alike = scramble(seed + 1) % 2 == 0 || mutation == Mutation::depth || mutation == Mutation::hearing;
  const std::size_t victim = static_cast<std::size_t>(scramble(seed + 2) % programs.size());
  const std::vector<Lowered> before = programs;
  std::string edit;
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    if (!alike && rank != victim) continue;
    const std::string said = Editor(programs[rank].program, seed).apply(mutation);
    if (edit.empty() && !said.empty()) edit = said + (alike ? ", on all ranks alike" : "");
  }
  if (mutation == Mutation::added_wait) {
    // Peers' lanes can be waited for as well only where they publish.
    for (Lowered& lowered : programs) {
      for (Lane& lane : lowered.program.lanes) lane.published = lane.published || lowered.program.lanes.size() == 1;
    }
  }
  if (edit.empty() || programs == before) return std::nullopt;
  return edit;
}

}  // namespace tutti::schedule
