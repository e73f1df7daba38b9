#include "tutti/tune.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <numeric>

#include "choice/fit.h"
#include "engine/engine.h"
#include "engine/tune_device.h"
#include "schedule/verbs.h"
#include "topology/discover/probe.h"

namespace tutti {
namespace {

using choice::TimedCall;
using schedule::Algorithm;
using Clock = std::chrono::steady_clock;

constexpr auto& kSizes = topology::kSurveyBytes;
constexpr std::uint64_t kQuickSizes[] = {8, 4 << 10, 256 << 10};
constexpr Verb kVerbsTimed[] = {Verb::all_reduce, Verb::broadcast,      Verb::reduce,         Verb::scatter,
                                Verb::gather,     Verb::all_gather,     Verb::reduce_scatter, Verb::all_to_all,
                                Verb::scan,       Verb::exclusive_scan, Verb::send_recv,      Verb::barrier};
constexpr int kBatches = 7;
constexpr int kMostCalls = 2000;
// Batches of all algorithms together are stopped after this, but not before there are three: what takes long, as over a
// slow link, is steady.
constexpr double kLongEnough = 2;
constexpr int kFewestBatches = 3;

}  // namespace

// How long a batch of calls takes; of the batches the median counts, as in what people measure. Ranks that share cores
// have turns of some milliseconds: calls that run ahead of others within a turn are quick, and must be paid for later.
constexpr double kBatchSeconds = 1e-3;
constexpr double kCrowdedBatchSeconds = 4e-3;

// Times calls on all ranks alike.
struct Tuner {
  Tuner(Communicator& communicator, bool rough)
      : comm(communicator),
        engine(communicator.engine()),
        quick(rough),
        batch_seconds(engine.crowded() ? kCrowdedBatchSeconds : kBatchSeconds),
        sizes(quick ? std::span<const std::uint64_t>(kQuickSizes) : kSizes),
        ordinary_in(sizes.back()),
        ordinary_out(ordinary_in.size()),
        symmetric_in(comm.allocate<std::byte>(ordinary_in.size())),
        symmetric_out(comm.allocate<std::byte>(ordinary_in.size())) {}

  // To the next rank, and from the one before.
  Request message_of(std::size_t bytes, bool sends) {
    const int ranks = comm.size();
    return {.verb = Verb::send_recv,
            .input = sends ? ordinary_in.data() : nullptr,
            .output = sends ? nullptr : ordinary_out.data(),
            .input_count = sends ? bytes / sizeof(float) : 0,
            .output_count = sends ? 0 : bytes / sizeof(float),
            .direction = sends ? Direction::send : Direction::receive,
            .peer = (comm.rank() + (sends ? 1 : ranks - 1)) % ranks};
  }

  Request request_for(const Algorithm& row, std::size_t bytes) {
    if (row.verb == Verb::send_recv) return message_of(bytes, true);
    const auto ranks = static_cast<std::size_t>(comm.size());
    const bool chunks = schedule::facts_of(row.verb).cut == schedule::Cut::chunks;
    const std::size_t whole = schedule::moves_data(row.verb) ? std::max(sizeof(float), bytes) / sizeof(float) : 0;
    const std::size_t part = chunks ? std::max<std::size_t>(1, whole / ranks) : whole;
    const auto holds = [&](schedule::Buffer buffer) {
      const bool all = schedule::holding_of(row.verb, buffer, comm.size(), 0, 0) == schedule::Holding::all;
      return chunks && all ? part * ranks : part;
    };
    std::byte* const input = row.user_windows ? symmetric_in.data() : ordinary_in.data();
    std::byte* const output = row.user_windows ? symmetric_out.data() : ordinary_out.data();
    return {.verb = row.verb,
            .input = schedule::facts_of(row.verb).reads_input_at_root_only ? output
                                                                           : input,  // in place, as everybody calls it
            .output = output,
            .input_count = holds(schedule::Buffer::input),
            .output_count = holds(schedule::Buffer::output),
            .element = DType::float32};
  }

  double slowest(double seconds) {
    comm.all_reduce(one(seconds), ReduceOp::maximum);
    return seconds;
  }

  double batch(const Request& request, const Algorithm& row, int calls) {
    const bool message = row.verb == Verb::send_recv;
    const Request answer = message_of(request.input_count * sizeof(float), false);
    const auto call = [&] { message ? engine.exchange(request, answer, &row) : engine.run(request, &row); };
    // The first call would pay for what other algorithms' batches have left in the caches. One that fills a batch by
    // itself is too large to find much there anyway.
    if (calls > 1) call();
    comm.barrier();
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    const std::chrono::duration<double> took = Clock::now() - start;
    return slowest(took.count() / calls);
  }

  // Seconds per call of each algorithm, of the slowest rank. They take turns, so that what else runs on the machine
  // hits all alike.
  std::vector<double> time(std::span<const Algorithm* const> rows, std::size_t bytes) {
    std::vector<Request> requests;
    std::vector<double> once;
    for (const Algorithm* row : rows) {
      requests.push_back(request_for(*row, bytes));
      batch(requests.back(), *row, 1);  // makes the plan
      once.push_back(batch(requests.back(), *row, 2));
    }
    if (quick) return once;
    std::vector<std::vector<double>> batches(rows.size());
    const double all = std::accumulate(once.begin(), once.end(), 0.0);
    const int rounds = static_cast<int>(std::clamp(kLongEnough / all, double{kFewestBatches}, double{kBatches}));
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const int calls = static_cast<int>(std::clamp(batch_seconds / once[i], 1.0, double{kMostCalls}));
        batches[i].push_back(batch(requests[i], *rows[i], calls));
      }
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto median = batches[i].begin() + rounds / 2;
      std::nth_element(batches[i].begin(), median, batches[i].end());
      once[i] = *median;
    }
    return once;
  }

  Communicator& comm;
  engine::Engine& engine;
  bool quick;
  double batch_seconds;
  std::span<const std::uint64_t> sizes;
  std::vector<std::byte> ordinary_in, ordinary_out;
  Symmetric<std::byte> symmetric_in, symmetric_out;
};

// What the rates that were found say of calls on device memory: of those that are staged, the schedule in host memory
// and both ways. Off as error_of().
void tell_of_device(const engine::TunedDevice& device, const std::deque<choice::Pricer>& pricers,
                    const topology::LinkRates& rates, Tuned& tuned) {
  double off = 0;
  std::size_t told = 0;
  for (const engine::TimedOnDevice& call : device.calls) {
    double predicted = 0;
    if (call.row == nullptr) {
      predicted = choice::price_of_launch(device.rates, call.touched);
    } else {
      const auto pricer = std::ranges::find(pricers, call.row, [](const choice::Pricer& each) { return &each.row(); });
      if (pricer == pricers.end()) continue;
      predicted = pricer->at(call.bytes, rates) + choice::price_of_staging(device.rates, call.staged);
    }
    tuned.calls.push_back({call.verb, call.row == nullptr ? engine::kOneLaunch : call.row->name, call.bytes,
                           call.seconds * 1e6, predicted * 1e6, true});
    off += std::abs(std::log(predicted / call.seconds));
    ++told;
  }
  if (told != 0) tuned.device_error = std::exp(off / static_cast<double>(told));
}

Tuned tune(Communicator& communicator, const std::function<void(double)>& say, bool quick) {
  if (communicator.size() < 2) throw Error(ErrorCode::invalid_argument, "tune: a group of one has nothing to measure");
  Tuner tuner(communicator, quick);
  const choice::Chooser& chooser = tuner.engine.chooser();
  const auto tell = [&](double part) {
    if (say && communicator.rank() == 0) say(part);
  };
  std::deque<choice::Pricer> pricers;  // addresses last
  std::vector<TimedCall> timed;
  for (std::size_t v = 0; v < std::size(kVerbsTimed); ++v) {
    const std::vector<const Algorithm*> rows = chooser.candidates_of(kVerbsTimed[v]);
    const std::size_t first = pricers.size();
    for (const Algorithm* row : rows)
      pricers.push_back(choice::Pricer::compared(*row, communicator.size(), chooser.offers()));
    for (const std::size_t bytes : tuner.sizes) {
      const std::vector<double> times = tuner.time(rows, bytes);
      for (std::size_t i = 0; i < rows.size(); ++i) timed.push_back({rows[i], &pricers[first + i], bytes, times[i]});
      if (!schedule::moves_data(kVerbsTimed[v])) break;
    }
    tell(0.8 * static_cast<double>(v + 1) / std::size(kVerbsTimed));
  }
  Tuned tuned;
  const std::optional<engine::TunedDevice> device = engine::tune_device(tuner.engine, communicator, quick);
  if (device) tuned.why_no_device = device->why_not;
  tuned.memory = chooser.offers().every(&EdgeOffers::windows_to_scratch);
  topology::Survey survey{tuned.memory, communicator.size(), chooser.offers().hosts.count()};
  topology::Rates& rates = survey.rates;
  const bool has_device = device && device->why_not.empty();
  if (has_device) survey.device = device->rates;
  const choice::AgreedCosts& known = tuner.engine.costs();
  // Not from what was found last time, which may have been found on a busy machine.
  topology::CostTable costs = topology::usual_costs((tuned.memory ? known.memory : known.streams).rates.inside.cores);
  if (chooser.offers().hosts.several()) {
    for (TimedCall& call : timed) call.inside = &known.memory.rates.inside;
  }
  // Rank 0 tells the others now and then that it is still at work, or they would think that it is stuck.
  std::uint64_t working = 1;
  while (communicator.rank() != 0 && working != 0) communicator.broadcast(one(working), 0);
  if (communicator.rank() == 0) {
    costs.speeds = topology::measure_speeds();
    rates = choice::fit(timed, tuned.memory ? costs.memory : costs.streams, [&](double part) {
      tell(0.8 + 0.2 * part);
      communicator.broadcast(one(working), 0);
    });
    choice::survey_factors(timed, survey);
    tuned.error = choice::error_of(timed, rates);
    tuned.regret = choice::regret_of(timed, rates);
    for (const TimedCall& call : timed) {
      tuned.calls.push_back(
          {call.row->verb, call.row->name, call.bytes, call.seconds * 1e6, call.predicted(rates) * 1e6});
    }
    if (has_device) {
      const topology::LinkRates links(chooser.offers().hosts.several() ? known.memory.rates.inside : rates, rates);
      tell_of_device(*device, pricers, links, tuned);
    }
    working = 0;
    communicator.broadcast(one(working), 0);
  }
  topology::put_survey(costs, std::move(survey));
  tuned.costs = topology::to_text(costs);
  std::uint64_t length = tuned.costs.size();
  communicator.broadcast(one(length), 0);
  tuned.costs.resize(length);
  communicator.broadcast(std::span(tuned.costs), 0);
  communicator.broadcast(one(tuned.error), 0);
  communicator.broadcast(one(tuned.regret), 0);
  return tuned;
}

}  // namespace tutti
