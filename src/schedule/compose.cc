#include "schedule/compose.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace tutti::schedule {
namespace {

// Segments of scratch between stages: while one is written, the next stage reads the one before.
constexpr int kDepth = 2;

// Planes that the messages of a part, and sums on their way out, land in as part of the whole. Chunks land side by side
// in a plane as far as they fit, blocks of a vector in one each.
int landing_of(const Program& part, const Stage& stage, const Program& whole) {
  int most = part.landing_planes;
  if (facts_of(part.verb).cut == Cut::vector) return most;
  for (const Lane& lane : part.lanes) {
    for (const Step& step : lane.steps) {
      if (step.op != StepOp::reduce) continue;
      const auto messages = std::count_if(step.sources.begin(), step.sources.end(), is_slot);
      const bool sum_leaves = std::all_of(step.destinations.begin(), step.destinations.end(), is_slot);
      const int landing = static_cast<int>(messages) + (sum_leaves ? 1 : 0);
      const int blocks = sized_operand(step)->blocks.count * stage.widest;
      const int in_a_plane = facts_of(whole.verb).cut == Cut::chunks ? std::max(1, whole.blocks / blocks) : 1;
      most = std::max(most, (landing + in_a_plane - 1) / in_a_plane);
    }
  }
  return most;
}

// The steps of a part as steps of the whole.
class Embedding {
 public:
  Embedding(const Stage& stage, const Program& part, const Program& whole, int channel, int first_plane)
      : stage_(stage), part_(part), whole_(whole), channel_(channel), first_plane_(first_plane) {}

  // Nothing where there is nothing left to do.
  std::optional<Step> step_of(const Step& step) const {
    Step mapped{step.op, step.last && stage_.last, operands_of(step.destinations), operands_of(step.sources), {}};
    if (step.op == StepOp::wait) return mapped;
    if (stage_.blocks.nothing_of(sized_operand(step)->blocks, part_)) return std::nullopt;
    if (step.op == StepOp::copy) std::erase(mapped.destinations, mapped.sources.front());
    return mapped.destinations.empty() ? std::nullopt : std::optional(std::move(mapped));
  }

 private:
  std::vector<Operand> operands_of(const std::vector<Operand>& operands) const {
    std::vector<Operand> mapped;
    for (const Operand& operand : operands) mapped.push_back(operand_of(operand));
    return mapped;
  }

  Operand operand_of(const Operand& operand) const {
    if (is_slot(operand)) {
      const int member = operand.rank.resolve(part_.rank, part_.ranks);
      return Operand::slot(Index::plus(stage_.members[static_cast<std::size_t>(member)] - whole_.rank),
                           channel_ + operand.channel);
    }
    BlockSet blocks = stage_.blocks.of(operand.blocks, part_);
    switch (operand.buffer) {
      case Buffer::input: return Operand::own(stage_.input.buffer, std::move(blocks), stage_.input.plane);
      case Buffer::output: return Operand::own(stage_.output.buffer, std::move(blocks), stage_.output.plane);
      case Buffer::scratch: break;
    }
    return Operand::own(Buffer::scratch, std::move(blocks), first_plane_ + operand.plane);
  }

  const Stage& stage_;
  const Program& part_;
  const Program& whole_;
  int channel_, first_plane_;
};

}  // namespace

Composition::Composition(Program whole, int planes) : whole_(std::move(whole)) {
  whole_.scratch_planes = planes;
  whole_.scratch_depth = kDepth;
  whole_.message_blocks = 0;
}

// What is counted must be the same on all ranks, also on those that take no part.
void Composition::add(const Stage& stage) {
  const auto level = static_cast<std::size_t>(stage.level);
  if (channels_so_far_.size() <= level) channels_so_far_.resize(level + 1);
  const int channel = channels_so_far_[level], first_plane = whole_.scratch_planes;
  int channels = 1, planes = 0, landing = 0;
  for (const int size : stage.sizes) {
    const Program part = stage.generate({size, 0, 0});
    planes = std::max(planes, part.scratch_planes);
    landing = std::max(landing, landing_of(part, stage, whole_));
    channels = std::max(channels, part.channels);
    whole_.message_blocks = std::max(whole_.message_blocks, part.message_blocks * stage.widest);
    whole_.hears_first = whole_.hears_first || (part.hears_first && stage.output.buffer == Buffer::output);
    whole_.scratch_depth = std::max(whole_.scratch_depth, part.scratch_depth);
  }
  whole_.scratch_planes += planes;
  whole_.landing_planes += landing;
  whole_.landing_across = std::max(whole_.landing_across, 0) + (stage.level > 0 ? landing : 0);
  channels_so_far_[level] += channels;
  whole_.channels = std::max(whole_.channels, channels_so_far_[level]);
  if (stage.members.empty()) return;
  const auto self = std::find(stage.members.begin(), stage.members.end(), whole_.rank);
  const Placement placement{static_cast<int>(stage.members.size()), static_cast<int>(self - stage.members.begin()),
                            stage.root};
  embed(stage, stage.generate(placement), channel, first_plane);
}

void Composition::embed(const Stage& stage, const Program& part, int channel, int first_plane) {
  const std::size_t begin = whole_.lanes.size();
  const Embedding embedding(stage, part, whole_, channel, first_plane);
  std::vector<std::int32_t> numbers;             // by lane: which one it has become
  std::vector<std::vector<std::int32_t>> lasts;  // by lane and step: the number of the last one that is left by then
  for (const Lane& lane : part.lanes) {
    Lane mapped{part.lanes.size() == 1 ? stage.name : stage.name + " " + lane.name, false, {}};
    std::vector<Wait> waits;  // of steps that are left out, too
    lasts.emplace_back();
    for (const Step& step : lane.steps) {
      waits.insert(waits.end(), step.waits.begin(), step.waits.end());
      if (std::optional<Step> kept = embedding.step_of(step)) {
        kept->waits = std::exchange(waits, {});
        mapped.steps.push_back(std::move(*kept));
      }
      lasts.back().push_back(static_cast<std::int32_t>(mapped.steps.size()) - 1);
    }
    numbers.push_back(static_cast<std::int32_t>(whole_.lanes.size()));
    if (!mapped.steps.empty()) whole_.lanes.push_back(std::move(mapped));
  }
  for (std::size_t lane = begin; lane < whole_.lanes.size(); ++lane) {
    for (Step& step : whole_.lanes[lane].steps) {
      for (Wait& wait : step.waits) {
        const auto number = static_cast<std::size_t>(wait.lane);
        wait.step = lasts[number][static_cast<std::size_t>(wait.step)];
        wait.lane = numbers[number];
      }
      std::erase_if(step.waits, [](const Wait& wait) { return wait.step < 0; });
    }
  }
  if (begin != whole_.lanes.size()) stages_.push_back({begin, whole_.lanes.size()});
}

Program Composition::finish() {
  std::vector<Lane>& lanes = whole_.lanes;
  const auto wait_for = [&](Step& step, const LaneRange& range, int segments_back) {
    for (std::size_t lane = range.begin; lane < range.end; ++lane) {
      step.waits.push_back({Index::plus(0), static_cast<std::int32_t>(lane),
                            static_cast<std::int32_t>(lanes[lane].steps.size()) - 1, segments_back});
    }
  };
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    for (std::size_t lane = stages_[stage].begin; lane < stages_[stage].end; ++lane) {
      Step& first = lanes[lane].steps.front();
      if (stage > 0) wait_for(first, stages_[stage - 1], 0);
      if (stage + 1 < stages_.size()) wait_for(first, stages_.back(), whole_.scratch_depth);
    }
  }
  return std::move(whole_);
}

}  // namespace tutti::schedule
