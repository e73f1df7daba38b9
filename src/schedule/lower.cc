#include "schedule/lower.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "schedule/layout.h"
#include "schedule/verbs.h"
#include "tutti/error.h"

namespace tutti::schedule {
namespace {

template <class Visit>
void for_each_operand(const Program& program, Visit&& visit) {
  for (const Lane& lane : program.lanes) {
    for (const Step& step : lane.steps) {
      for (const Operand& operand : step.destinations) visit(step, operand);
      for (const Operand& operand : step.sources) visit(step, operand);
    }
  }
}

// The blocks a step moves; nullptr where no operand names them.
const BlockSet* blocks_of(const Step& step) {
  const Operand* sized = sized_operand(step);
  return sized == nullptr ? nullptr : &sized->blocks;
}

constexpr std::int32_t kMostPlanes = 1 + std::numeric_limits<decltype(Operand::plane)>::max();
constexpr std::uint64_t kUnbounded = ~std::uint64_t{0};

// The most bytes a block may have, in whole lines, where `blocks` of them must fit `bytes` (0 = any size).
std::uint64_t block_bound(std::uint64_t bytes, std::int32_t blocks) {
  if (bytes == 0 || blocks == 0) return kUnbounded;
  return bytes / static_cast<std::uint64_t>(blocks) / kLineBytes * kLineBytes;
}

// As the program states them, because they must be the same on all ranks: a rank may need fewer.
std::int32_t planes_over(const Program& program, const Offers& offers) {
  return program.scratch_planes + (offers.operands_in_slots ? 0 : program.landing_planes);
}

std::int32_t scratch_blocks(const Program& program, const Offers& offers) {
  return planes_over(program, offers) * program.scratch_depth * program.blocks;
}

// Rewrites the steps of one lane for a transport whose messages are byte streams: they land in own memory before they
// are reduced, and leave from own memory. Own memory already among the operands is used; scratch otherwise.
//
// Blocks of a vector land at their own place of a plane each. Chunks are all of one size in scratch, so that what lands
// takes the next free blocks: a step that hears from everybody needs one plane, not one for each.
class StreamLane {
 public:
  StreamLane(const Program& program, int first_plane, int* planes)
      : packs_(facts_of(program.verb).cut == Cut::chunks),
        blocks_(program.blocks),
        first_plane_(first_plane),
        planes_(planes) {}

  std::vector<Step> rewrite(const std::vector<Step>& steps) {
    for (const Step& step : steps) rewrite_step(step);
    return std::move(out_);
  }

 private:
  void rewrite_step(Step step) {
    const bool receives = std::any_of(step.sources.begin(), step.sources.end(), is_slot);
    const bool sends = std::any_of(step.destinations.begin(), step.destinations.end(), is_slot);
    const bool plain = step.op == StepOp::copy && !(receives && sends);
    if (plain || !(receives || sends)) {
      out_.push_back(std::move(step));
      return;
    }
    const BlockSet blocks = *blocks_of(step);
    next_plane_ = first_plane_;
    next_block_ = blocks_;
    if (step.op == StepOp::reduce) land_sources(step, blocks);
    std::vector<Operand> sent = take_slots(step.destinations);
    if (step.destinations.empty()) step.destinations.push_back(scratch(blocks));
    const Operand result = step.destinations.front();
    out_.push_back(std::move(step));
    if (!sent.empty()) out_.push_back({StepOp::copy, false, std::move(sent), {result}, {}});
  }

  void land_sources(Step& step, const BlockSet& blocks) {
    for (Operand& source : step.sources) {
      if (!is_slot(source)) continue;
      const Operand landing = scratch(blocks);
      out_.push_back({StepOp::copy, false, {landing}, {source}, {}});
      source = landing;
    }
  }

  static std::vector<Operand> take_slots(std::vector<Operand>& operands) {
    const auto slots =
        std::stable_partition(operands.begin(), operands.end(), [](const Operand& o) { return !is_slot(o); });
    std::vector<Operand> taken(slots, operands.end());
    operands.erase(slots, operands.end());
    return taken;
  }

  Operand scratch(const BlockSet& blocks) {
    if (!packs_ || next_block_ + blocks.count > blocks_) {
      next_block_ = 0;
      *planes_ = std::max(*planes_, ++next_plane_);
    }
    const BlockSet packed{Index::absolute(next_block_), 1, blocks.count};
    next_block_ += blocks.count;
    return Operand::own(Buffer::scratch, packs_ ? packed : blocks, next_plane_ - 1);
  }

  bool packs_;
  int blocks_;
  int first_plane_;
  int next_plane_ = 0;
  int next_block_ = 0;
  int* planes_;
  std::vector<Step> out_;
};

// Says how many planes of scratch there are then.
int land_messages(Program& program) {
  int planes = program.scratch_planes;
  for (Lane& lane : program.lanes) {
    lane.steps = StreamLane(program, planes, &planes).rewrite(lane.steps);  // lanes never share a landing place
  }
  return planes;
}

// The preferred size is that of a segment of a vector. Of chunks it is that of a message, which may be one of many.
std::uint64_t wanted_segment(const Program& program, const Offers& offers) {
  if (offers.segment_bytes == 0) return kUnbounded;
  if (facts_of(program.verb).cut == Cut::vector || program.message_blocks == 0) return offers.segment_bytes;
  return offers.segment_bytes / static_cast<std::uint64_t>(program.message_blocks) *
         static_cast<std::uint64_t>(program.blocks);
}

bool has_waits(const Program& program) {
  return std::any_of(program.lanes.begin(), program.lanes.end(), [](const Lane& lane) {
    return std::any_of(lane.steps.begin(), lane.steps.end(), [](const Step& step) { return !step.waits.empty(); });
  });
}

}  // namespace

std::string why_not(const Program& program, const Offers& offers) {
  std::string reason;
  for_each_operand(program, [&](const Step& step, const Operand& operand) {
    if (operand.kind == Operand::Kind::window) {
      const bool scratch = operand.buffer == Buffer::scratch;
      if (scratch && !offers.windows_to_scratch) reason = "needs windows onto peers' scratch";
      if (!scratch && !offers.windows_to_user) reason = "needs windows onto peers' buffers (symmetric memory)";
    } else if (is_slot(operand)) {
      if (operand.channel >= offers.channels) reason = "uses more channels than the transport has";
      const BlockSet* blocks = blocks_of(step);
      if (blocks == nullptr) reason = "forwards a message without naming its size";
      if (blocks != nullptr && blocks->count > program.message_blocks) reason = "sends a larger message than it states";
    }
  });
  if (!reason.empty()) return reason;
  if (!offers.operands_in_slots && has_waits(program)) return "needs flags in shared memory";
  if (block_bound(offers.slot_bytes, program.message_blocks) == 0) {
    return "needs messages of " + std::to_string(program.message_blocks) + " blocks, and a slot holds " +
           std::to_string(offers.slot_bytes) + " bytes";
  }
  if (Program landed = program; !offers.operands_in_slots && land_messages(landed) > planes_over(program, offers)) {
    return "lets messages land in more planes of scratch than it states";
  }
  if (planes_over(program, offers) > kMostPlanes) {
    return "needs " + std::to_string(planes_over(program, offers)) + " planes of scratch, and there are at most " +
           std::to_string(kMostPlanes);
  }
  if (block_bound(offers.scratch_bytes, scratch_blocks(program, offers)) == 0) {
    return "needs scratch of " + std::to_string(scratch_blocks(program, offers)) + " blocks, and there are " +
           std::to_string(offers.scratch_bytes) + " bytes";
  }
  return {};
}

Lowered lower(Program program, const Offers& offers) {
  if (const std::string reason = why_not(program, offers); !reason.empty()) {
    throw Error(ErrorCode::unsupported,
                std::string(name_of(program.verb)) + " by '" + program.algorithm + "' " + reason);
  }
  // Only from facts that are the same on all ranks: their segments must agree.
  const std::uint64_t block = std::min(block_bound(offers.slot_bytes, program.message_blocks),
                                       block_bound(offers.scratch_bytes, scratch_blocks(program, offers)));
  const auto blocks = static_cast<std::uint64_t>(program.blocks);
  const std::uint64_t wanted = wanted_segment(program, offers);
  const std::uint64_t bound = block == kUnbounded ? wanted : std::min(wanted, block * blocks);
  const std::int32_t planes = planes_over(program, offers);
  if (!offers.operands_in_slots) land_messages(program);
  program.scratch_planes = planes;
  program.landing_planes = 0;
  return {std::move(program), offers, bound == kUnbounded ? 0 : bound};
}

}  // namespace tutti::schedule
