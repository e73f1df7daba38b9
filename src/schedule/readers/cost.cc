#include "schedule/readers/cost.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <utility>

#include "schedule/fold.h"
#include "schedule/layout.h"
#include "schedule/readers/firing.h"
#include "schedule/readers/step_time.h"
#include "tutti/error.h"

namespace tutti::schedule {
namespace {

// Segments that are played: enough for the pipeline to have reached its pace.
constexpr std::uint64_t kPlayed = 12;
// Calls that are played one after the other, if they are short: the last two count.
constexpr std::uint64_t kCalls = 4;

// One edge: when each message can be taken, and when the credit of each came back.
struct Edge {
  std::deque<double> arrivals;
  std::vector<std::optional<double>> first;  // by call: when its first one came
  std::vector<double> freed;                 // by message
  std::uint64_t sent = 0;
};

struct LaneState {
  std::uint64_t segment = 0;  // those of the calls before count on
  std::size_t step = 0;
  double ended = 0;              // its step before
  std::vector<double> finished;  // by segment and step
  // When the step at its head may start, once that is known: it changes only with what this rank does. Until then, the
  // wait that was not met last time.
  std::optional<double> ready;
  const Wait* missing = nullptr;
};

// A rank at the border of two calls.
struct CallState {
  std::size_t lanes_left = 0;  // of this call
  double entered = -1;         // when the one before was over; negative until it is
  double begun = -1;           // when the first step may start
};

class Play {
 public:
  Play(std::span<const Lowered> programs, const Layout& layout, const LinkRates& rates, std::uint64_t segments,
       std::uint64_t calls = 1)
      : programs_(programs),
        offers_(programs.front().offers),
        rates_(rates.inside),
        across_(rates.across),
        step_time_(programs, layout, rates),
        segments_(segments),
        calls_(calls),
        stays_with_sender_(step_time_.stays_with_sender(layout.count * layout.element_bytes)),
        rank_free_(programs.size(), 0),
        states_(programs.size()),
        news_(programs.size(), 1),
        cores_(static_cast<std::size_t>(offers_.hosts.count())),
        adapters_(cores_.size()),
        channels_(static_cast<std::size_t>(programs.front().program.channels)),
        edges_(programs.size() * programs.size() * channels_) {
    share_cores();
    for (std::size_t rank = 0; rank < programs.size(); ++rank) set_up(rank);
  }

  // By call, when its last step has ended.
  std::vector<double> run() {
    std::vector<double> ends(calls_, 0);
    for (;;) {
      std::optional<Ready> next;
      bool waiting = false;
      for (std::size_t rank = 0; rank < programs_.size(); ++rank) {
        for (std::size_t lane = 0; lane < lanes_[rank].size(); ++lane) {
          if (over(rank, lane)) continue;
          LaneState& state = lanes_[rank][lane];
          if (!state.ready && news_[rank] != 0) state.ready = ready_at(rank, lane);
          waiting = true;
          if (state.ready && (!next || *state.ready < next->at)) next = Ready{*state.ready, rank, lane};
        }
        news_[rank] = 0;
      }
      if (!next) {
        if (waiting) throw Error(ErrorCode::invalid_argument, "these programs wait for each other for ever");
        return ends;
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
  struct Adapter {
    double sends_until = 0, receives_until = 0;
  };

  void set_up(std::size_t rank) {
    std::vector<CallState>& states = states_[rank];
    states.resize(calls_ + 1);
    states[0].entered = 0;
    lanes_.emplace_back(program(rank).lanes.size());
    for (std::size_t i = 0; i < lanes_[rank].size(); ++i) {
      const Lane& lane = program(rank).lanes[i];
      lanes_[rank][i].finished.assign(lane.steps.size() * segments_ * calls_, -1);
      for (CallState& state : states) state.lanes_left += lane.steps.empty() ? 0 : 1;
      for (const Step& step : lane.steps) uses_shared_scratch_ = uses_shared_scratch_ || looks_into_scratch(step);
    }
    if (states[0].lanes_left == 0) {
      for (CallState& state : states) state.entered = 0;
    }
    senders_.push_back(program(rank).hears_first ? senders_to(program(rank)) : std::set<int>());
  }

  static bool looks_into_scratch(const Step& step) {
    const auto looks = [](const Operand& operand) {
      return operand.kind == Operand::Kind::window && operand.buffer == Buffer::scratch;
    };
    return std::any_of(step.sources.begin(), step.sources.end(), looks) ||
           std::any_of(step.destinations.begin(), step.destinations.end(), looks);
  }

  const Program& program(std::size_t rank) const { return programs_[rank].program; }
  const Step& step_of(std::size_t rank, std::size_t lane) const {
    return program(rank).lanes[lane].steps[lanes_[rank][lane].step];
  }
  bool over(std::size_t rank, std::size_t lane) const {
    return lanes_[rank][lane].segment == segments_ * calls_ || program(rank).lanes[lane].steps.empty();
  }
  std::size_t resolve(std::size_t rank, const Index& index) const {
    return static_cast<std::size_t>(index.resolve(static_cast<int>(rank), program(rank).ranks));
  }
  Edge& edge(std::size_t from, std::size_t to, std::size_t channel) {
    return edges_[(from * programs_.size() + to) * channels_ + channel];
  }
  const EdgeOffers& offers(std::size_t from, std::size_t to) const {
    return offers_.of(static_cast<int>(from), static_cast<int>(to));
  }
  std::size_t host_of(std::size_t rank) const {
    return static_cast<std::size_t>(offers_.hosts.of(static_cast<int>(rank)));
  }
  std::vector<Core>& cores_of(std::size_t rank) { return cores_[host_of(rank)]; }

  // Each host has its own, and ranks that have one each need not take turns.
  void share_cores() {
    std::vector<int> ranks(cores_.size(), 0);
    for (std::size_t rank = 0; rank < programs_.size(); ++rank) ++ranks[host_of(rank)];
    for (std::size_t host = 0; host < cores_.size(); ++host) {
      const int cores = std::max(1, rates_.cores);
      if (cores < ranks[host]) cores_[host].resize(static_cast<std::size_t>(cores));
    }
  }

  // When what a step waits for is there: true where that is known, and `at` is then not before it.
  struct Seen {
    Play& play;
    std::size_t rank;
    std::uint64_t segment;
    double at;

    bool known(double moment) {
      at = std::max(at, moment);
      return true;
    }
    double latency(const Wait& wait) const { return play.resolve(rank, wait.rank) == rank ? 0 : play.rates_.progress; }
    std::uint64_t call() const { return segment / play.segments_; }
    bool entered(const Wait& wait) {
      const double moment = play.states_[play.resolve(rank, wait.rank)][call()].entered;
      return moment >= 0 && known(moment + latency(wait) + play.rates_.enter);
    }
    bool finished(const Wait& wait) {
      const double moment = play.finished_at(rank, segment, wait);
      return moment >= 0 && known(moment + latency(wait));
    }
    bool has_come(const Operand& source) {
      const Edge& from = play.edge(play.resolve(rank, source.rank), rank, source.channel);
      return !from.arrivals.empty() && known(from.arrivals.front());
    }
    bool has_credit(const Operand& destination) {
      const std::size_t peer = play.resolve(rank, destination.rank);
      const std::uint64_t credits = std::max<std::uint64_t>(1, play.offers(rank, peer).credits);
      const Edge& to = play.edge(rank, peer, destination.channel);
      if (to.sent < credits) return true;
      const std::uint64_t before = to.sent - credits;  // the message whose place this one takes
      return before < to.freed.size() && known(to.freed[before] + play.step_time_.between(rank, peer).message);
    }
    bool heard_all() {
      const auto heard = [&](int sender) {
        std::optional<double> first;  // on any channel
        for (std::size_t channel = 0; channel < play.channels_; ++channel) {
          const Edge& from = play.edge(static_cast<std::size_t>(sender), rank, channel);
          const std::optional<double> there = call() < from.first.size() ? from.first[call()] : std::nullopt;
          if (there && (!first || *there < *first)) first = there;
        }
        return first && known(*first);
      };
      return std::all_of(play.senders_[rank].begin(), play.senders_[rank].end(), heard);
    }
  };

  // When the step that a wait names was over, in the segment it means; negative where that is not known yet.
  double finished_at(std::size_t rank, std::uint64_t segment, const Wait& wait) const {
    const std::size_t peer = resolve(rank, wait.rank);
    const LaneState& theirs = lanes_[peer][static_cast<std::size_t>(wait.lane)];
    const std::size_t steps = program(peer).lanes[static_cast<std::size_t>(wait.lane)].steps.size();
    const std::uint64_t meant = segment - static_cast<std::uint64_t>(wait.segments_back);
    return theirs.finished[meant * steps + static_cast<std::size_t>(wait.step)];
  }

  // When the rank may begin a call; negative where that is not known yet.
  double begun_at(std::size_t rank, std::uint64_t call) {
    CallState& state = states_[rank][call];
    if (state.begun >= 0 || state.entered < 0) return state.begun;
    double at = state.entered;
    for (std::size_t other = 0; call > 0 && other < programs_.size(); ++other) {
      const double left = states_[other][call].entered;
      if (uses_shared_scratch_ && left < 0) return -1;
      if (uses_shared_scratch_ && other != rank) at = std::max(at, left + rates_.progress);
      for (std::size_t channel = 0; stays_with_sender_ && channel < channels_; ++channel) {
        const Edge& to = edge(rank, other, channel);
        if (to.freed.size() < to.sent) return -1;
        if (to.sent > 0) at = std::max(at, to.freed.back() + rates_.message);
      }
    }
    return state.begun = at;
  }

  // When the rank may start the step at the head of a lane, if that is known yet.
  std::optional<double> ready_at(std::size_t rank, std::size_t lane) {
    LaneState& state = lanes_[rank][lane];
    if (state.missing != nullptr && finished_at(rank, state.segment, *state.missing) < 0) return std::nullopt;
    const double begun = begun_at(rank, state.segment / segments_);
    if (begun < 0) return std::nullopt;
    Seen seen{*this, rank, state.segment, std::max({state.ended, rank_free_[rank], begun})};
    const auto unmet = first_unmet(step_of(rank, lane), state.segment % segments_, program(rank).hears_first, seen);
    state.missing = unmet.wait != nullptr && unmet.wait->lane != Wait::kEntryLane ? unmet.wait : nullptr;
    return unmet.may_fire() ? std::optional(seen.at) : std::nullopt;
  }

  // The core that serves the rank first, which may cost a turn.
  double start_on_core(std::size_t rank, double at, Core*& core) {
    core = nullptr;
    double best = 0;
    for (Core& each : cores_of(rank)) {
      const bool new_here = each.rank != rank && each.rank != ~std::size_t{0};
      const double start = std::max(at, each.free) + (new_here ? rates_.turn : 0);
      if (core == nullptr || start < best) {
        core = &each;
        best = start;
      }
    }
    return best;
  }

  // When a message is through, that is put on the wire from `start` to `end`: adapters take one after the other.
  double crossed(std::size_t from, std::size_t to, double bytes, double start, double end) {
    if (host_of(from) == host_of(to)) return end;
    double& sends_until = adapters_[host_of(from)].sends_until;
    double& receives_until = adapters_[host_of(to)].receives_until;
    const double begin = std::max(start, sends_until), takes = bytes * across_.wire;
    sends_until = begin + takes;
    receives_until = std::max(begin, receives_until) + takes;
    return std::max(end, receives_until);
  }

  void fire(const Ready& ready, std::vector<double>& ends) {
    LaneState& state = lanes_[ready.rank][ready.lane];
    const Step& step = step_of(ready.rank, ready.lane);
    Core* core = nullptr;
    const bool shared = !cores_of(ready.rank).empty();
    const double start = shared ? start_on_core(ready.rank, ready.at, core) : ready.at;
    const std::uint64_t segment = state.segment % segments_, call = state.segment / segments_;
    const double end = start + step_time_.of(ready.rank, step, segment);
    rank_free_[ready.rank] = state.ended = end;
    for (LaneState& mine : lanes_[ready.rank]) mine.ready.reset();
    news_[ready.rank] = 1;
    state.missing = nullptr;
    if (core != nullptr) *core = {end, ready.rank};
    for (const Operand& source : step.sources) {
      if (!is_slot(source)) continue;
      Edge& from = edge(resolve(ready.rank, source.rank), ready.rank, source.channel);
      from.arrivals.pop_front();
      news_[resolve(ready.rank, source.rank)] = 1;
      from.freed.push_back(end);
    }
    for (const Operand& destination : step.destinations) {
      if (!is_slot(destination)) continue;
      const std::size_t peer = resolve(ready.rank, destination.rank);
      Edge& to = edge(ready.rank, peer, destination.channel);
      const auto bytes = static_cast<double>(step_time_.bytes_of(ready.rank, step, segment));
      const double message = step_time_.between(ready.rank, peer).message;
      to.arrivals.push_back(crossed(ready.rank, peer, bytes, start, end) + message);
      if (to.first.size() <= call) to.first.resize(call + 1);
      if (!to.first[call]) to.first[call] = to.arrivals.back();
      ++to.sent;
      news_[peer] = 1;
    }
    if (program(ready.rank).lanes[ready.lane].published) std::fill(news_.begin(), news_.end(), 1);
    const std::size_t steps = program(ready.rank).lanes[ready.lane].steps.size();
    state.finished[state.segment * steps + state.step] = end;
    ends[call] = std::max(ends[call], end);
    if (++state.step < steps) return;
    state.step = 0;
    const bool last = ++state.segment % segments_ == 0;
    if (!last || --states_[ready.rank][call].lanes_left > 0) return;
    states_[ready.rank][call + 1].entered = end;
    std::fill(news_.begin(), news_.end(), 1);
  }

  std::span<const Lowered> programs_;
  const Offers& offers_;
  const Rates& rates_;   // of memory, cores and links inside hosts
  const Rates& across_;  // of links between hosts
  StepTime step_time_;
  std::uint64_t segments_;  // of a call
  std::uint64_t calls_;
  bool stays_with_sender_;  // a message, until it has been copied out of its memory: so the call lasts
  bool uses_shared_scratch_ = false;
  std::vector<std::vector<LaneState>> lanes_;  // by rank and lane
  std::vector<double> rank_free_;
  std::vector<std::vector<CallState>> states_;  // by rank and call
  std::vector<char> news_;                      // by rank: whether anything has changed that its steps may wait for
  std::vector<std::vector<Core>> cores_;        // by host; none where every rank has its own
  std::vector<Adapter> adapters_;               // by host
  std::size_t channels_;                        // of each edge
  std::vector<Edge> edges_;                     // by source, destination and channel
  std::vector<std::set<int>> senders_;          // by rank: whom it hears from, where it hears first
};

Layout layout_of(std::span<const Lowered> programs, std::uint64_t count, std::uint32_t element_bytes) {
  require_program_set(programs);
  const Lowered& first = programs.front();
  return Layout::of(first.program.verb, count, element_bytes, static_cast<std::uint32_t>(first.program.blocks),
                    first.segment_bytes);
}

}  // namespace

double predict(std::span<const Lowered> programs, std::uint64_t count, std::uint32_t element_bytes,
               const LinkRates& rates) {
  const Layout layout = layout_of(programs, count, element_bytes);
  const std::uint64_t played = std::min(layout.segments, kPlayed);
  const double time = Play(programs, layout, rates, played).run().back();
  if (played == layout.segments) return time;
  const double half = Play(programs, layout, rates, played / 2).run().back();
  const double pace = (time - half) / static_cast<double>(played - played / 2);
  return time + pace * static_cast<double>(layout.segments - played);
}

double predict_repeated(std::span<const Lowered> programs, std::uint64_t count, std::uint32_t element_bytes,
                        const LinkRates& rates) {
  const Layout layout = layout_of(programs, count, element_bytes);
  // What a long call begins and ends with is little of it.
  if (layout.segments > kPlayed) return predict(programs, count, element_bytes, rates);
  const std::uint64_t calls = std::clamp<std::uint64_t>(kPlayed / layout.segments, 2, kCalls);
  const std::vector<double> ends = Play(programs, layout, rates, layout.segments, calls).run();
  const std::uint64_t counted = std::min<std::uint64_t>(2, calls - 1);
  return (ends.back() - ends[calls - 1 - counted]) / static_cast<double>(counted);
}

}  // namespace tutti::schedule
