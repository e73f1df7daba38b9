// What a call is expected to take: the algorithm that would be chosen for it, at the prices it is chosen by; on device
// memory one launch for all ranks, or that algorithm and the staging of the buffers, at the rates of the device. Where
// the ranks have devices of their own, as their last call or allocation has told, there is no prediction.
#include <algorithm>
#include <numeric>

#include "choice/device_price.h"
#include "device/shared_allocations.h"
#include "engine/engine.h"
#include "engine/execute/call_part.h"
#include "engine/execute/device_share.h"
#include "schedule/verbs.h"

namespace tutti::engine {
namespace {

std::uint64_t sum_of(const std::vector<std::uint64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

// What the call moves. Of a v-variant not every rank knows all chunks: then as if all were as long as its own.
std::uint64_t bytes_of(const Call& call, const UnevenChunks& chunks, int rank, int ranks) {
  if (!call.uneven) return call.moved_bytes;
  const std::uint64_t known = std::max(sum_of(chunks.input_counts), sum_of(chunks.output_counts)) * call.unit_bytes;
  const bool knows_own_only = schedule::facts_of(call.verb).rooted && rank != call.root;
  return known * static_cast<std::uint64_t>(knows_own_only ? ranks : 1);
}

// Whether this rank's buffers are such that the call may run in them.
bool is_symmetric(const Call& call, int rank) {
  const bool input_scaled_aside = call.scale != nullptr && call.verb != Verb::all_reduce;
  const bool reads_input =
      call.input != nullptr && (rank == call.root || !schedule::facts_of(call.verb).reads_input_at_root_only);
  return (!reads_input || (call.input_ref != 0 && !input_scaled_aside)) &&
         (call.output == nullptr || call.output_ref != 0);
}

// What staging would find the buffers of a call on.
struct Devices {
  int input = device::kOnHost, output = device::kOnHost;

  bool any() const { return input != device::kOnHost || output != device::kOnHost; }
};

Devices devices_of(const Call& call) {
  const device::Driver* const driver = device::driver();
  const auto device_of = [&](const std::byte* buffer, std::uint64_t bytes) {
    return driver == nullptr || bytes == 0 ? device::kOnHost : device::device_of(*driver, buffer);
  };
  return {device_of(call.input, call.input_bytes), device_of(call.output, call.output_bytes)};
}

// Of chunks with displacements, what lies between them is not staged.
choice::StagedBytes staged_bytes(const Call& call, const UnevenChunks& chunks, const Devices& on) {
  const auto side = [&](int device, std::uint64_t bytes, const std::vector<std::uint64_t>& counts) {
    if (device == device::kOnHost) return std::uint64_t{0};
    return call.uneven ? std::min(bytes, sum_of(counts) * call.unit_bytes) : bytes;
  };
  return {side(on.input, call.input_bytes, chunks.input_counts),
          side(on.output, call.output_bytes, chunks.output_counts)};
}

// Whether other processes can open the buffer.
bool can_be_shown(const std::byte* buffer, int device) {
  const device::Driver& driver = *device::driver();
  device::CuContext context = nullptr;
  if (driver.missing != nullptr || driver.cuDevicePrimaryCtxRetain(&context, device) != device::kCuSuccess)
    return false;
  DevicePlace place{};
  bool shown = false;
  {
    const device::Current current(driver, context);
    shown = device::SharedAllocations::of_process().show(driver, buffer, place);
  }
  driver.cuDevicePrimaryCtxRelease_v2(device);
  return shown;
}

bool can_launch(const Call& call, const Devices& on, int ranks) {
  if (!DeviceShare::takes(call, ranks) || (call.verb == Verb::all_to_all && call.in_place)) return false;
  const bool has_input = call.input_bytes != 0, has_output = call.output_bytes != 0;
  if (has_input && has_output && on.input != on.output) return false;
  return (!has_input || can_be_shown(call.input, on.input)) && (!has_output || can_be_shown(call.output, on.output));
}

}  // namespace

double Engine::predict(const Request& request) const {
  UnevenChunks chunks;
  const Call call = call_of(request, view_, chunks);
  const Devices on = devices_of(call);
  if (!on.any()) return predict_in_host(call, chunks);
  const topology::DeviceRates& rates = chooser_.device_rates();
  if (!rates.known()) return 0;
  const bool launches = prefers_launch(call) && can_launch(call, on, size());
  // What several devices do together nobody has measured.
  if (launches && transport_->device_card(0, 0)->devices.load(std::memory_order_relaxed) > 1) return 0;
  if (rates.launches() && launches)
    return choice::price_of_launch(rates, choice::bytes_touched(call.verb, size(), call.moved_bytes, call.in_place));
  return predict_in_host(call, chunks) + choice::price_of_staging(rates, staged_bytes(call, chunks, on));
}

double Engine::predict_in_host(Call call, const UnevenChunks& chunks) const {
  const std::uint64_t bytes = bytes_of(call, chunks, rank(), size());
  if (call.is_message()) {
    const bool across = !transport_->offers().hosts.share(rank(), call.peer);
    const schedule::Algorithm& row = *chooser_.choose(call.question(across));
    return call.peer == rank() ? chooser_.price_of_message_to_self(row, bytes)
                               : chooser_.price_of_message(row, bytes, across);
  }
  locate(call);
  const schedule::Algorithm* row = chooser_.choose(question_of(*transport_, call));
  if (row == nullptr) row = chooser_.choose_entered(call.question(), is_symmetric(call, rank()));
  double price = chooser_.price_of(*row, bytes_of_part(bytes, parts_of(*transport_, call, *row)));
  if (keeps_input(call, *row)) price += chooser_.price_of_copy(call.input_bytes);
  const bool checked = options_.check == Check::full || (call.scale != nullptr && call.verb == Verb::all_reduce);
  return checked && size() > 1 ? price + chooser_.price_of(Track::check(), 1) : price;
}

double Engine::predict(const Request& sent, const Request& received) const {
  require_exchange(sent, received);
  UnevenChunks chunks;
  const Call out = call_of(sent, view_, chunks), in = call_of(received, view_, chunks);
  const Call& longer = out.moved_bytes < in.moved_bytes ? in : out;
  const bool across = !transport_->offers().hosts.share(rank(), longer.peer);
  const schedule::Algorithm& row = *chooser_.choose(longer.question(across));
  const double in_host = out.peer == rank() ? chooser_.price_of_message_to_self(row, longer.moved_bytes)
                                            : chooser_.price_of_exchange(row, longer.moved_bytes, across);
  const Devices sends = devices_of(out), receives = devices_of(in);
  if (!sends.any() && !receives.any()) return in_host;
  if (!chooser_.device_rates().known()) return 0;
  const choice::StagedBytes staged{staged_bytes(out, chunks, sends).input, staged_bytes(in, chunks, receives).output};
  return in_host + choice::price_of_staging(chooser_.device_rates(), staged);
}

}  // namespace tutti::engine
