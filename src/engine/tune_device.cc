#include "engine/tune_device.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <thread>

#include "base/deadline.h"
#include "device/copy.h"
#include "device/driver.h"
#include "device/staging.h"
#include "engine/engine.h"
#include "schedule/verbs.h"

namespace tutti::engine {
namespace {

using Clock = std::chrono::steady_clock;
using schedule::Algorithm;
using schedule::Buffer;
using topology::DeviceRates;

// The longer ones are beyond what the caches of a device hold.
struct Sizes {
  std::size_t shortest, longest, longest_staged;
  std::span<const std::size_t> of_calls;
  int batches;
};
constexpr std::size_t kSizesOfCalls[] = {64, 64 << 10, 1 << 20, 16 << 20}, kQuickSizesOfCalls[] = {64, 64 << 10};
constexpr Sizes kWhole{64, std::size_t{64} << 20, 16 << 20, kSizesOfCalls, 7};
constexpr Sizes kQuick{64, 1 << 20, 1 << 20, kQuickSizesOfCalls, 3};

constexpr double kBatchSeconds = 2e-3;
constexpr int kMostCalls = 200;

constexpr Verb kLaunched[] = {Verb::all_reduce, Verb::broadcast,  Verb::reduce,         Verb::scatter,
                              Verb::gather,     Verb::all_gather, Verb::reduce_scatter, Verb::all_to_all};
constexpr Verb kStaged[] = {Verb::all_reduce, Verb::broadcast, Verb::all_gather};

struct Line {
  double fixed_s = 0, bytes_per_s = 0;
};

// Through a short and a long one. Where the long one took no longer, something held up the short one: then all of the
// long one's time is that of its bytes.
Line line_through(double short_s, double long_s, std::size_t long_bytes) {
  const double of_bytes = long_s > short_s ? long_s - short_s : long_s;
  return {std::min(short_s, long_s), static_cast<double>(long_bytes) / of_bytes};
}

class DeviceTuner {
 public:
  DeviceTuner(Engine& engine, Communicator& comm, const Sizes& sizes)
      : comm_(comm),
        engine_(engine),
        sizes_(sizes),
        input_(comm.allocate_device<std::byte>(sizes.longest)),
        output_(comm.allocate_device<std::byte>(sizes.longest)) {
    engine_.launch_always(true);
  }
  ~DeviceTuner() { engine_.launch_always(false); }
  DeviceTuner(const DeviceTuner&) = delete;
  DeviceTuner& operator=(const DeviceTuner&) = delete;

  TunedDevice tune() {
    TunedDevice tuned;
    DeviceRates& rates = tuned.rates;
    if (is_launched(request_of(Verb::all_reduce, sizes_.shortest))) {
      const std::uint64_t touched = choice::bytes_touched(Verb::all_reduce, comm_.size(), sizes_.longest, false);
      const Line launch = line_through(time_launch(sizes_.shortest), time_launch(sizes_.longest), touched);
      rates.launch_s = launch.fixed_s;
      rates.touch_bytes_per_s = launch.bytes_per_s;
    }
    const Line to_host = line_through(time_staging(sizes_.shortest, true), time_staging(sizes_.longest_staged, true),
                                      sizes_.longest_staged);
    const Line to_device = line_through(time_staging(sizes_.shortest, false),
                                        time_staging(sizes_.longest_staged, false), sizes_.longest_staged);
    rates.to_host_s = to_host.fixed_s;
    rates.to_host_bytes_per_s = to_host.bytes_per_s;
    rates.to_device_s = to_device.fixed_s;
    rates.to_device_bytes_per_s = to_device.bytes_per_s;
    rates.copy_bytes_per_s =
        line_through(time_copy(sizes_.shortest), time_copy(sizes_.longest), sizes_.longest).bytes_per_s;
    time_calls(tuned);
    return tuned;
  }

 private:
  // Of the slowest rank, for each of so many calls one after the other.
  template <class Do>
  double batch(int calls, Do&& call) {
    comm_.barrier();
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    double took = std::chrono::duration<double>(Clock::now() - start).count() / calls;
    comm_.all_reduce(one(took), ReduceOp::maximum);
    return took;
  }

  // The median batch. What comes first makes kernels, streams and memory.
  template <class Do>
  double seconds_of(Do&& call) {
    batch(1, call);
    const double once = batch(2, call);
    const int calls = static_cast<int>(std::clamp(kBatchSeconds / once, 1.0, double{kMostCalls}));
    std::vector<double> batches;
    for (int i = 0; i < sizes_.batches; ++i) batches.push_back(batch(calls, call));
    const auto median = batches.begin() + sizes_.batches / 2;
    std::nth_element(batches.begin(), median, batches.end());
    return *median;
  }

  // In place where callers have it so. As many elements on every rank, whichever of the buffers it has.
  Request request_of(Verb verb, std::size_t bytes) const {
    const auto ranks = static_cast<std::size_t>(comm_.size());
    const bool chunks = schedule::facts_of(verb).cut == schedule::Cut::chunks;
    const std::size_t whole = bytes / sizeof(float), part = chunks ? std::max<std::size_t>(1, whole / ranks) : whole;
    const auto holds = [&](Buffer buffer) {
      const bool all = schedule::holding_of(verb, buffer, comm_.size(), 0, 0) == schedule::Holding::all;
      return chunks && all ? part * ranks : part;
    };
    return {.verb = verb,
            .input = is_in_place(verb) ? output_.data() : input_.data(),
            .output = output_.data(),
            .input_count = holds(Buffer::input),
            .output_count = holds(Buffer::output),
            .element = DType::float32};
  }
  static bool is_in_place(Verb verb) { return schedule::facts_of(verb).reads_input_at_root_only; }

  double time_launch(std::size_t bytes) {
    const Request request = request_of(Verb::all_reduce, bytes);
    return seconds_of([&] { engine_.run(request); });
  }
  bool is_launched(const Request& request) {
    engine_.run(request);
    int launched = engine_.last_algorithm() == kOneLaunch ? 1 : 0;
    comm_.all_reduce(one(launched), ReduceOp::minimum);
    return launched != 0;
  }

  // All ranks at the same time, as in a call.
  double time_staging(std::size_t bytes, bool to_host) {
    return seconds_of([&] {
      device::StagingPool::Plan& plan = pool_.draft();
      (to_host ? plan.input_device : plan.output_device) = kFirst;
      (to_host ? plan.input : plan.output).push_back({output_.data(), 0, bytes});
      plan.bytes = bytes;
      const auto staging = pool_.open(driver_, plan);
      if (!to_host) staging->start_output(bytes);
      const Deadline deadline = Deadline::after(comm_.timeout());
      while (!(to_host ? staging->has_input() : staging->has_output())) {
        if (deadline.passed()) throw Error(ErrorCode::timeout, "tune: a copy between device and host does not end");
        std::this_thread::yield();
      }
    });
  }

  // Of rank 0 alone.
  double time_copy(std::size_t bytes) {
    return seconds_of([&] {
      if (comm_.rank() == 0) device::copy_anywhere(output_.data(), input_.data(), bytes);
    });
  }

  void time_calls(TunedDevice& tuned) {
    for (const std::size_t bytes : sizes_.of_calls) {
      for (const Verb verb : kLaunched) {
        if (tuned.rates.launches()) time_call(verb, nullptr, bytes, tuned);
      }
      for (const Verb verb : kStaged)
        time_call(verb, engine_.chooser().choose({.verb = verb, .bytes = bytes}), bytes, tuned);
    }
  }

  // A call whose algorithm is asked for is staged.
  void time_call(Verb verb, const Algorithm* row, std::size_t bytes, TunedDevice& tuned) {
    const Request request = request_of(verb, bytes);
    if (row == nullptr && !is_launched(request)) return;
    const double seconds = seconds_of([&] { engine_.run(request, row); });
    const std::uint64_t in = request.input_count * sizeof(float), out = request.output_count * sizeof(float);
    const std::uint64_t moved = std::max(in, out);
    tuned.calls.push_back({.verb = verb,
                           .row = row,
                           .bytes = moved,
                           .touched = choice::bytes_touched(verb, comm_.size(), moved, is_in_place(verb)),
                           .staged = {in, out},
                           .seconds = seconds});
  }

  static constexpr int kFirst = 0;

  Communicator& comm_;
  Engine& engine_;
  const Sizes& sizes_;
  DeviceMemory<std::byte> input_, output_;
  const device::Driver& driver_ = device::load_driver();
  device::StagingPool pool_{[] {}};
};

}  // namespace

std::optional<TunedDevice> tune_device(Engine& engine, Communicator& comm, bool quick) {
  std::optional<DeviceTuner> tuner;
  TunedDevice tuned;
  int drivers = 1;  // that have a device
  try {
    tuner.emplace(engine, comm, quick ? kQuick : kWhole);
  } catch (const Error& error) {
    const bool has_none = error.code() == ErrorCode::unsupported || error.code() == ErrorCode::invalid_argument;
    if (!has_none && error.code() != ErrorCode::system) throw;
    drivers = has_none ? 0 : 1;
    tuned.why_not = error.what();
  }
  comm.all_reduce(one(drivers), ReduceOp::maximum);
  if (drivers == 0) return std::nullopt;
  if (!tuned.why_not.empty()) return tuned;
  return tuner->tune();
}

}  // namespace tutti::engine
