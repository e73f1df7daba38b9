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

// Whether some edge of the group is a byte stream, whose messages have to land.
bool has_streams(const Offers& offers) { return !offers.every(&EdgeOffers::operands_in_slots); }

// As the program states them, because they must be the same on all ranks: a rank may need fewer.
std::int32_t planes_over(const Program& program, const Offers& offers) {
  if (!has_streams(offers)) return program.scratch_planes;
  const bool only_across = offers.inside.operands_in_slots && program.landing_across >= 0;
  return program.scratch_planes + (only_across ? program.landing_across : program.landing_planes);
}

std::int32_t scratch_blocks(const Program& program, const Offers& offers) {
  return planes_over(program, offers) * program.scratch_depth * program.blocks;
}

const EdgeOffers& edge_of(const Program& program, const Index& peer, const Offers& offers) {
  return offers.of(program.rank, peer.resolve(program.rank, program.ranks));
}

bool is_own(const Operand& operand) { return operand.kind == Operand::Kind::own; }

// Rewrites the steps of one lane for edges that are byte streams: messages land in own memory before they are reduced
// or sent on, and leave from own memory. Own memory already among the operands is used; scratch otherwise. Slots of
// other edges stay operands, in steps of their own or with the reduction.
//
// Blocks of a vector land at their own place of a plane each. Chunks are all of one size in scratch, so that what lands
// takes the next free blocks: a step that hears from everybody needs one plane, not one for each.
class StreamLane {
 public:
  StreamLane(const Program& program, const Offers& offers, int first_plane, int* planes)
      : program_(program),
        offers_(offers),
        packs_(facts_of(program.verb).cut == Cut::chunks),
        first_plane_(first_plane),
        planes_(planes) {}

  // `lasts` becomes, by step, the number of the last one that was made of it.
  std::vector<Step> rewrite(const std::vector<Step>& steps, std::vector<std::int32_t>& lasts) {
    for (const Step& step : steps) {
      if (runs_as_it_is(step)) {
        out_.push_back(step);
      } else {
        rewrite_step(step);
      }
      lasts.push_back(static_cast<std::int32_t>(out_.size()) - 1);
    }
    return std::move(out_);
  }

 private:
  bool is_stream(const Operand& operand) const {
    return is_slot(operand) && !edge_of(program_, operand.rank, offers_).operands_in_slots;
  }
  bool any_stream(const std::vector<Operand>& operands) const {
    return std::any_of(operands.begin(), operands.end(), [&](const Operand& operand) { return is_stream(operand); });
  }

  // Whether the step has nothing to do with streams, or only lands a message or sends from own memory.
  bool runs_as_it_is(const Step& step) const {
    const bool lands = any_stream(step.sources);
    if (!lands && !any_stream(step.destinations)) return true;
    if (step.op != StepOp::copy) return false;
    if (lands) return std::none_of(step.destinations.begin(), step.destinations.end(), is_slot);
    return !is_slot(step.sources.front()) &&
           std::all_of(step.destinations.begin(), step.destinations.end(),
                       [&](const Operand& operand) { return is_own(operand) || is_stream(operand); });
  }

  void rewrite_step(Step step) {
    const BlockSet blocks = *blocks_of(step);
    next_plane_ = first_plane_;
    next_block_ = program_.blocks;
    if (step.op == StepOp::reduce) land_sources(step, blocks);
    const Operand source = step.sources.front();
    const bool lands = step.op == StepOp::copy && is_stream(source);
    std::vector<Operand> sent = take(
        step.destinations, [&](const Operand& operand) { return is_stream(operand) || (lands && is_slot(operand)); });
    if (step.op == StepOp::copy && !is_slot(source)) {
      // The streams first: they are on their way while the rest is copied.
      out_.push_back({StepOp::copy, false, std::move(sent), {source}, std::move(step.waits)});
      step.waits.clear();
      out_.push_back(std::move(step));
      return;
    }
    auto result = std::find_if(step.destinations.begin(), step.destinations.end(), is_own);
    if (!sent.empty() && result == step.destinations.end()) result = step.destinations.insert(result, scratch(blocks));
    const Operand held = sent.empty() ? Operand{} : *result;
    out_.push_back(std::move(step));
    send(std::move(sent), held);
  }

  void land_sources(Step& step, const BlockSet& blocks) {
    for (Operand& source : step.sources) {
      if (!is_stream(source)) continue;
      const Operand landing = scratch(blocks);
      out_.push_back({StepOp::copy, false, {landing}, {source}, {}});
      source = landing;
    }
  }

  void send(std::vector<Operand> sent, const Operand& held) {
    std::vector<Operand> streams = take(sent, [&](const Operand& operand) { return is_stream(operand); });
    for (std::vector<Operand>* operands : {&streams, &sent}) {
      if (!operands->empty()) out_.push_back({StepOp::copy, false, std::move(*operands), {held}, {}});
    }
  }

  // Those that are wanted, which leave `operands`; the order of all stays.
  template <class Wanted>
  static std::vector<Operand> take(std::vector<Operand>& operands, Wanted&& wanted) {
    const auto first =
        std::stable_partition(operands.begin(), operands.end(), [&](const Operand& o) { return !wanted(o); });
    std::vector<Operand> taken(first, operands.end());
    operands.erase(first, operands.end());
    return taken;
  }

  Operand scratch(const BlockSet& blocks) {
    if (!packs_ || next_block_ + blocks.count > program_.blocks) {
      next_block_ = 0;
      *planes_ = std::max(*planes_, ++next_plane_);
    }
    const BlockSet packed{Index::absolute(next_block_), 1, blocks.count};
    next_block_ += blocks.count;
    return Operand::own(Buffer::scratch, packs_ ? packed : blocks, next_plane_ - 1);
  }

  const Program& program_;
  const Offers& offers_;
  bool packs_;
  int first_plane_;
  int next_plane_ = 0;
  int next_block_ = 0;
  int* planes_;
  std::vector<Step> out_;
};

// Says how many planes of scratch there are then.
int land_messages(Program& program, const Offers& offers) {
  int planes = program.scratch_planes;
  std::vector<std::vector<std::int32_t>> lasts(program.lanes.size());
  for (std::size_t i = 0; i < program.lanes.size(); ++i) {
    std::vector<Step>& steps = program.lanes[i].steps;
    steps = StreamLane(program, offers, planes, &planes).rewrite(steps, lasts[i]);  // no two share a landing place
  }
  for (Lane& lane : program.lanes) {
    for (Step& step : lane.steps) {
      for (Wait& wait : step.waits) {
        if (wait.lane == Wait::kEntryLane || wait.rank.resolve(program.rank, program.ranks) != program.rank) continue;
        wait.step = lasts[static_cast<std::size_t>(wait.lane)][static_cast<std::size_t>(wait.step)];
      }
    }
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

bool waits_out_of_sight(const Program& program, const Offers& offers) {
  const auto unseen = [&](const Wait& wait) {
    return wait.rank.resolve(program.rank, program.ranks) != program.rank &&
           !edge_of(program, wait.rank, offers).operands_in_slots;
  };
  return std::any_of(program.lanes.begin(), program.lanes.end(), [&](const Lane& lane) {
    return std::any_of(lane.steps.begin(), lane.steps.end(),
                       [&](const Step& step) { return std::any_of(step.waits.begin(), step.waits.end(), unseen); });
  });
}

// Peers wait for steps by their numbers, which they know without this rank's program.
bool renumbers_published(const Program& program, const Program& landed) {
  for (std::size_t i = 0; i < program.lanes.size(); ++i) {
    if (program.lanes[i].published && program.lanes[i].steps.size() != landed.lanes[i].steps.size()) return true;
  }
  return false;
}

std::string why_not_land(const Program& program, const Offers& offers) {
  Program landed = program;
  if (land_messages(landed, offers) > planes_over(program, offers))
    return "lets messages land in more planes of scratch than it states";
  return renumbers_published(program, landed) ? "publishes a lane in which messages would have to land first" : "";
}

}  // namespace

std::string why_not(const Program& program, const Offers& offers) {
  std::string reason;
  for_each_operand(program, [&](const Step& step, const Operand& operand) {
    if (operand.kind == Operand::Kind::window) {
      const EdgeOffers& edge = edge_of(program, operand.rank, offers);
      const bool scratch = operand.buffer == Buffer::scratch;
      if (scratch && !edge.windows_to_scratch) reason = "needs windows onto peers' scratch";
      if (!scratch && !edge.windows_to_user) reason = "needs windows onto peers' buffers (symmetric memory)";
    } else if (is_slot(operand)) {
      const BlockSet* blocks = blocks_of(step);
      if (blocks == nullptr) reason = "forwards a message without naming its size";
      if (blocks != nullptr && blocks->count > program.message_blocks) reason = "sends a larger message than it states";
    }
  });
  if (!reason.empty()) return reason;
  if (waits_out_of_sight(program, offers)) return "needs flags in shared memory";
  if (program.channels > static_cast<std::int32_t>(offers.channels)) {
    return "sends on " + std::to_string(program.channels) + " channels of an edge, and there are " +
           std::to_string(offers.channels);
  }
  if (block_bound(offers.slot_bytes(), program.message_blocks) == 0) {
    return "needs messages of " + std::to_string(program.message_blocks) + " blocks, and a slot holds " +
           std::to_string(offers.slot_bytes()) + " bytes";
  }
  if (has_streams(offers)) reason = why_not_land(program, offers);
  if (!reason.empty()) return reason;
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
  const std::uint64_t block = std::min(block_bound(offers.slot_bytes(), program.message_blocks),
                                       block_bound(offers.scratch_bytes, scratch_blocks(program, offers)));
  const auto blocks = static_cast<std::uint64_t>(program.blocks);
  const std::uint64_t wanted = wanted_segment(program, offers);
  const std::uint64_t bound = block == kUnbounded ? wanted : std::min(wanted, block * blocks);
  const std::int32_t planes = planes_over(program, offers);
  if (has_streams(offers)) land_messages(program, offers);
  program.scratch_planes = planes;
  program.landing_planes = 0;
  program.landing_across = -1;
  return {std::move(program), offers, bound == kUnbounded ? 0 : bound};
}

}  // namespace tutti::schedule
