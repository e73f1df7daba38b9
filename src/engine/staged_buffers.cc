#include "engine/staged_buffers.h"

#include <cstddef>
#include <vector>

#include "engine/execute/device_share.h"
#include "schedule/verbs.h"

namespace tutti::engine {
namespace {

using device::StagedPiece;
using schedule::Buffer;
using schedule::Holding;

constexpr std::size_t kLine = 64;

std::uint64_t total_bytes(const std::vector<StagedPiece>& pieces) {
  std::uint64_t bytes = 0;
  for (const StagedPiece& piece : pieces) bytes += piece.bytes;
  return bytes;
}

// One side of the call on its way into host memory.
struct StagedSide {
  const std::byte* data;
  std::uint64_t bytes;
  int device;
  std::vector<StagedPiece>* pieces;
  std::vector<std::uint64_t>* counts;         // of a v-verb's buffer with a chunk for every rank, else nullptr
  std::vector<std::uint64_t>* displacements;  // likewise
  std::size_t offset = 0;                     // in host memory

  bool is_staged() const { return device != device::kOnHost; }
};

class Stager {
 public:
  Stager(const device::Driver& driver, Call& call, UnevenChunks& chunks, const GroupView& group)
      : driver_(driver), call_(call), chunks_(chunks), group_(group) {}

  device::StagingPool::Handle stage(device::StagingPool& pool, const StageManner& manner);

 private:
  device::FoundMemory find(const char* side, const std::byte* data, std::uint64_t bytes,
                           device::SeenMemory& seen) const;
  // Whether all buffers that the call has lie on the same one.
  bool on_one_device(int input_device, int output_device) const {
    return call_.input_bytes == 0 || call_.output_bytes == 0 ? input_device != output_device
                                                             : input_device == output_device;
  }
  bool has_chunks(Buffer buffer) const {
    if (!call_.uneven || (buffer == Buffer::output && call_.whole)) return false;
    return schedule::holding_of(call_.verb, buffer, group_.size, group_.rank, call_.root) == Holding::all;
  }
  std::uint64_t lay_out(StagedSide& side, std::uint64_t at) const;
  void lay_out_within(StagedSide& part, const StagedSide& whole) const;

  const device::Driver& driver_;
  Call& call_;
  UnevenChunks& chunks_;
  const GroupView& group_;
};

device::FoundMemory Stager::find(const char* side, const std::byte* data, std::uint64_t bytes,
                                 device::SeenMemory& seen) const {
  if (data == nullptr || bytes == 0) return {};
  const device::FoundMemory found = device::find_memory(driver_, data);
  if (found.device != device::kOnHost) {
    seen.note(driver_, data, found.device);
  } else if (const int before = seen.was_on(data); before != device::kOnHost) {
    throw Error(ErrorCode::invalid_argument, std::string(side) + " was in memory of device " + std::to_string(before) +
                                                 " in an earlier call, and has been freed since");
  }
  return found;
}

// From `at` on; returns where it ends. Chunks, which may lie anywhere, lie one behind the other there.
std::uint64_t Stager::lay_out(StagedSide& side, std::uint64_t at) const {
  at = (at + kLine - 1) / kLine * kLine;
  side.offset = at;
  if (!side.is_staged()) return at;
  if (side.counts == nullptr) {
    side.pieces->push_back({side.data, at, side.bytes});
    return at + side.bytes;
  }
  std::uint64_t packed = 0;  // units
  for (std::size_t i = 0; i < side.counts->size(); ++i) {
    const std::uint64_t count = (*side.counts)[i], unit = call_.unit_bytes;
    if (count != 0)
      side.pieces->push_back({side.data + (*side.displacements)[i] * unit, at + packed * unit, count * unit});
    (*side.displacements)[i] = packed;
    packed += count;
  }
  return at + packed * call_.unit_bytes;
}

// In place: the part is this rank's chunk of the whole, or all of it.
void Stager::lay_out_within(StagedSide& part, const StagedSide& whole) const {
  const std::size_t own = static_cast<std::size_t>(group_.rank);
  const std::uint64_t within = whole.counts != nullptr ? (*whole.displacements)[own] * call_.unit_bytes
                                                       : static_cast<std::uint64_t>(part.data - whole.data);
  part.offset = whole.offset + within;
  part.pieces->push_back({part.data, part.offset, part.bytes});
}

device::StagingPool::Handle Stager::stage(device::StagingPool& pool, const StageManner& manner) {
  const device::FoundMemory in = find("input", call_.input, call_.input_bytes, pool.seen());
  const device::FoundMemory out = call_.in_place ? in : find("output", call_.output, call_.output_bytes, pool.seen());
  const int input_device = in.device, output_device = out.device;
  if (input_device == device::kOnHost && output_device == device::kOnHost) return nullptr;
  device::StagingPool::Plan& plan = pool.draft();
  plan.input_device = input_device;
  plan.output_device = output_device;
  plan.input_context = in.context;
  plan.output_context = out.context;
  plan.stream = manner.stream;
  plan.holds = manner.holds;
  plan.deferred =
      manner.may_launch && on_one_device(input_device, output_device) && DeviceShare::takes(call_, group_.size);
  plan.background = manner.background;
  plan.parts = manner.parts;
  plan.loose = manner.loose;
  StagedSide input{call_.input, call_.input_bytes, input_device, &plan.input, nullptr, nullptr};
  StagedSide output{call_.output, call_.output_bytes, output_device, &plan.output, nullptr, nullptr};
  if (has_chunks(Buffer::input)) {
    input.counts = &chunks_.input_counts;
    input.displacements = &chunks_.input_displacements;
  }
  if (has_chunks(Buffer::output)) {
    output.counts = &chunks_.output_counts;
    output.displacements = &chunks_.output_displacements;
  }
  std::uint64_t end = 0;
  if (call_.in_place) {
    const bool input_holds_output = call_.input_bytes >= call_.output_bytes;
    StagedSide& whole = input_holds_output ? input : output;
    end = lay_out(whole, 0);
    lay_out_within(input_holds_output ? output : input, whole);
  } else {
    end = lay_out(input, 0);
    end = lay_out(output, end);
  }
  plan.bytes = end;
  if (input.counts != nullptr && input.is_staged()) call_.input_bytes = total_bytes(plan.input);
  if (output.counts != nullptr && output.is_staged()) call_.output_bytes = total_bytes(plan.output);
  device::StagingPool::Handle staging = pool.open(driver_, plan);
  call_.staging = staging.get();
  if (plan.deferred) return staging;
  if (input.is_staged()) call_.input = staging->memory() + input.offset;
  if (output.is_staged()) call_.output = staging->memory() + output.offset;
  return staging;
}

}  // namespace

device::StagingPool::Handle stage_buffers(device::StagingPool& pool, const device::Driver& driver, Call& call,
                                          UnevenChunks& chunks, const GroupView& group, const StageManner& manner) {
  try {
    return Stager(driver, call, chunks, group).stage(pool, manner);
  } catch (const Error& error) {
    throw Error(error.code(), std::string(name_of(call.statement().verb())) + ": " + error.what());
  }
}

}  // namespace tutti::engine
