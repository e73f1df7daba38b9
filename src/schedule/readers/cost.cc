#include "schedule/readers/cost.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <utility>

#include "schedule/fold.h"
#include "schedule/layout.h"
#include "tutti/error.h"

namespace tutti::schedule {
namespace {

// Segments that are played: enough for the pipeline to have reached its pace.
constexpr std::uint64_t kPlayed = 12;

// One edge: when each message can be taken, and when the credit of each came back.
struct Edge {
  std::deque<double> arrivals;
  std::optional<double> first;  // when the first one came
  std::vector<double> freed;    // by message
  std::uint64_t sent = 0;
};

struct LaneState {
  std::uint64_t segment = 0;
  std::size_t step = 0;
  double ended = 0;              // its step before
  std::vector<double> finished;  // by segment and step
  // When the step at its head may start, once that is known: it changes only with what this rank does. Until then, the
  // wait that was not met last time.
  std::optional<double> ready;
  std::size_t missing = 0;
};

class Play {
 public:
  Play(std::span<const Lowered> programs, const Layout& layout, const Rates& rates, std::uint64_t segments)
      : programs_(programs),
        layout_(layout),
        rates_(rates),
        segments_(segments),
        bytes_weight_(outgrows_caches() ? rates.far : 1),
        credits_(std::max<std::uint64_t>(1, programs.front().offers.credits)),
        rank_free_(programs.size(), 0),
        cores_(static_cast<std::size_t>(std::clamp<int>(rates.cores, 1, static_cast<int>(programs.size())))) {
    for (const Lowered& lowered : programs) {
      lanes_.emplace_back(lowered.program.lanes.size());
      for (std::size_t i = 0; i < lowered.program.lanes.size(); ++i) {
        lanes_.back()[i].finished.assign(lowered.program.lanes[i].steps.size() * segments, -1);
      }
      if (lowered.program.hears_first) note_senders(lowered.program);
    }
  }

  // When the last rank has ended; `ends`, by segment, when the last step of that segment has.
  double run(std::vector<double>& ends) {
    ends.assign(segments_, 0);
    for (;;) {
      std::optional<Ready> next;
      bool waiting = false;
      for (std::size_t rank = 0; rank < programs_.size(); ++rank) {
        for (std::size_t lane = 0; lane < lanes_[rank].size(); ++lane) {
          if (over(rank, lane)) continue;
          LaneState& state = lanes_[rank][lane];
          if (!state.ready) state.ready = ready_at(rank, lane);
          waiting = true;
          if (state.ready && (!next || *state.ready < next->at)) next = Ready{*state.ready, rank, lane};
        }
      }
      if (!next) {
        if (waiting) throw Error(ErrorCode::invalid_argument, "these programs wait for each other for ever");
        return *std::max_element(ends.begin(), ends.end());
      }
      fire(*next, ends);
    }
  }

 private:
  struct Ready {
    double at;
    std::size_t rank, lane;
  };
  struct Core {
    double free = 0;
    std::size_t rank = ~std::size_t{0};
  };

  const Program& program(std::size_t rank) const { return programs_[rank].program; }
  const Step& step_of(std::size_t rank, std::size_t lane) const {
    return program(rank).lanes[lane].steps[lanes_[rank][lane].step];
  }
  bool over(std::size_t rank, std::size_t lane) const {
    return lanes_[rank][lane].segment == segments_ || program(rank).lanes[lane].steps.empty();
  }
  std::size_t resolve(std::size_t rank, const Index& index) const {
    return static_cast<std::size_t>(index.resolve(static_cast<int>(rank), program(rank).ranks));
  }
  Edge& edge(std::size_t from, std::size_t to, std::size_t channel) {
    const std::size_t index = (channel * programs_.size() + from) * programs_.size() + to;
    if (index >= edges_.size()) edges_.resize((channel + 1) * programs_.size() * programs_.size());
    return edges_[index];
  }

  // When what the rank waits for is there, if that is known yet.
  std::optional<double> met_at(std::size_t rank, const LaneState& state, const Wait& wait) const {
    const std::size_t peer = resolve(rank, wait.rank);
    const double latency = peer == rank ? 0 : rates_.progress;
    if (wait.lane == Wait::kEntryLane) return latency + rates_.enter;
    const auto back = static_cast<std::uint64_t>(wait.segments_back);
    if (state.segment < back) return 0;
    const LaneState& theirs = lanes_[peer][static_cast<std::size_t>(wait.lane)];
    const std::size_t steps = program(peer).lanes[static_cast<std::size_t>(wait.lane)].steps.size();
    const double finished = theirs.finished[(state.segment - back) * steps + static_cast<std::size_t>(wait.step)];
    if (finished < 0) return std::nullopt;
    return finished + latency;
  }

  // When the rank may start the step at the head of a lane, if that is known yet.
  std::optional<double> ready_at(std::size_t rank, std::size_t lane) {
    LaneState& state = lanes_[rank][lane];
    const Step& step = step_of(rank, lane);
    if (state.missing < step.waits.size() && !met_at(rank, state, step.waits[state.missing])) return std::nullopt;
    double at = std::max(state.ended, rank_free_[rank]);
    for (std::size_t i = 0; i < step.waits.size(); ++i) {
      const std::optional<double> met = met_at(rank, state, step.waits[i]);
      if (!met) {
        state.missing = i;
        return std::nullopt;
      }
      at = std::max(at, *met);
    }
    for (const Operand& source : step.sources) {
      if (!is_slot(source)) continue;
      const Edge& from = edge(resolve(rank, source.rank), rank, source.channel);
      if (from.arrivals.empty()) return std::nullopt;
      at = std::max(at, from.arrivals.front());
    }
    for (const Operand& destination : step.destinations) {
      if (!is_slot(destination)) continue;
      const Edge& to = edge(rank, resolve(rank, destination.rank), destination.channel);
      if (to.sent < credits_) continue;
      if (to.freed.size() <= to.sent - credits_) return std::nullopt;
      at = std::max(at, to.freed[to.sent - credits_] + rates_.message);
    }
    if (program(rank).hears_first && writes_user(step)) {
      for (const auto& [from, channel] : senders_[rank]) {
        const std::optional<double>& first = edge(from, rank, channel).first;
        if (!first) return std::nullopt;
        at = std::max(at, *first);
      }
    }
    return at;
  }

  // Whom a rank that hears first hears before it writes.
  void note_senders(const Program& program) {
    senders_.resize(programs_.size());
    const auto rank = static_cast<std::size_t>(program.rank);
    for (const Lane& lane : program.lanes) {
      for (const Step& step : lane.steps) {
        for (const Operand& source : step.sources) {
          if (is_slot(source)) senders_[rank].insert({resolve(rank, source.rank), source.channel});
        }
      }
    }
  }

  // What a rank touches: its input and its output.
  bool outgrows_caches() const {
    const std::uint64_t blocks = layout_.cut == Cut::chunks ? layout_.blocks : 1;
    const auto touched = static_cast<double>(2 * layout_.count * blocks * layout_.element_bytes);
    return rates_.far > 0 && touched > rates_.cache_bytes && rates_.cache_bytes > 0;
  }

  double bytes_of(std::size_t rank, const Step& step, std::uint64_t segment) const {
    const Operand* sized = sized_operand(step);
    std::uint64_t elements = 0;
    for (int i = 0; sized != nullptr && i < sized->blocks.count; ++i) {
      const int block = sized->blocks.at(i, static_cast<int>(rank), program(rank).blocks);
      elements += layout_.size(segment, static_cast<std::uint64_t>(block));
    }
    return static_cast<double>(elements * layout_.element_bytes) * bytes_weight_;
  }

  double time_of(std::size_t rank, const Step& step, std::uint64_t segment) const {
    if (step.op == StepOp::wait) return rates_.step;
    const double bytes = bytes_of(rank, step, segment);
    const bool streams = !programs_[rank].offers.operands_in_slots;
    double time = rates_.step;
    std::size_t sources = 0, destinations = 0;
    for (const Operand& source : step.sources) {
      if (is_slot(source) && streams) {
        time += rates_.call + bytes * rates_.stream;
        continue;
      }
      ++sources;
      const bool far = is_slot(source) || (source.kind == Operand::Kind::window && resolve(rank, source.rank) != rank);
      if (far) time += bytes * rates_.peer;
    }
    for (const Operand& destination : step.destinations) {
      if (is_slot(destination) && streams) {
        if (!is_single_copy(programs_[rank].offers))
          time += rates_.call + bytes * rates_.stream;  // else the receiver does it all
      } else {
        ++destinations;
      }
    }
    if (sources == 0 || destinations == 0) return time;  // a message leaves from memory, or lands there
    return time + bytes * (rates_.copy + static_cast<double>(sources - 1) * rates_.reduce +
                           static_cast<double>(destinations - 1) * rates_.store);
  }

  // The core that serves the rank first, which may cost a turn.
  double start_on_core(std::size_t rank, double at, Core*& core) {
    core = nullptr;
    double best = 0;
    for (Core& each : cores_) {
      const bool new_here = each.rank != rank && each.rank != ~std::size_t{0};
      const double start = std::max(at, each.free) + (new_here ? rates_.turn : 0);
      if (core == nullptr || start < best) {
        core = &each;
        best = start;
      }
    }
    return best;
  }

  void fire(const Ready& ready, std::vector<double>& ends) {
    LaneState& state = lanes_[ready.rank][ready.lane];
    const Step& step = step_of(ready.rank, ready.lane);
    Core* core = nullptr;
    const bool shared = cores_.size() < programs_.size();
    const double start = shared ? start_on_core(ready.rank, ready.at, core) : ready.at;
    const double end = start + time_of(ready.rank, step, state.segment);
    rank_free_[ready.rank] = state.ended = end;
    for (LaneState& mine : lanes_[ready.rank]) mine.ready.reset();
    state.missing = 0;
    if (core != nullptr) *core = {end, ready.rank};
    for (const Operand& source : step.sources) {
      if (!is_slot(source)) continue;
      Edge& from = edge(resolve(ready.rank, source.rank), ready.rank, source.channel);
      from.arrivals.pop_front();
      from.freed.push_back(end);
    }
    for (const Operand& destination : step.destinations) {
      if (!is_slot(destination)) continue;
      Edge& to = edge(ready.rank, resolve(ready.rank, destination.rank), destination.channel);
      to.arrivals.push_back(end + rates_.message);
      if (!to.first) to.first = end + rates_.message;
      ++to.sent;
    }
    const std::size_t steps = program(ready.rank).lanes[ready.lane].steps.size();
    state.finished[state.segment * steps + state.step] = end;
    ends[state.segment] = std::max(ends[state.segment], end);
    if (++state.step == steps) {
      state.step = 0;
      ++state.segment;
    }
  }

  std::span<const Lowered> programs_;
  const Layout& layout_;
  const Rates& rates_;
  std::uint64_t segments_;
  double bytes_weight_;
  std::uint64_t credits_;
  std::vector<std::vector<LaneState>> lanes_;  // by rank and lane
  std::vector<double> rank_free_;
  std::vector<Core> cores_;
  std::vector<Edge> edges_;                                             // by channel, source and destination
  std::vector<std::set<std::pair<std::size_t, std::size_t>>> senders_;  // by rank: source and channel
};

}  // namespace

double predict(std::span<const Lowered> programs, std::uint64_t count, std::uint32_t element_bytes,
               const Rates& rates) {
  require_program_set(programs);
  const Lowered& first = programs.front();
  const Layout layout = Layout::of(first.program.verb, count, element_bytes,
                                   static_cast<std::uint32_t>(first.program.blocks), first.segment_bytes);
  const std::uint64_t played = std::min(layout.segments, kPlayed);
  std::vector<double> ends;
  const double time = Play(programs, layout, rates, played).run(ends);
  if (played == layout.segments) return time;
  const double pace = (ends[played - 1] - ends[played / 2 - 1]) / static_cast<double>(played - played / 2);
  return time + pace * static_cast<double>(layout.segments - played);
}

}  // namespace tutti::schedule
