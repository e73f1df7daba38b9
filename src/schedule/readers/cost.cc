#include "schedule/readers/cost.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <utility>

#include "schedule/fold.h"
#include "schedule/layout.h"
#include "schedule/readers/firing.h"
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
  const Wait* missing = nullptr;
};

class Play {
 public:
  Play(std::span<const Lowered> programs, const Layout& layout, const LinkRates& rates, std::uint64_t segments)
      : programs_(programs),
        offers_(programs.front().offers),
        layout_(layout),
        rates_(rates.inside),
        across_(rates.across),
        segments_(segments),
        bytes_weight_(outgrows_caches() ? rates_.far : 1),
        rank_free_(programs.size(), 0),
        cores_(static_cast<std::size_t>(offers_.hosts.count())),
        adapters_(cores_.size()),
        channels_(static_cast<std::size_t>(programs.front().program.channels)),
        edges_(programs.size() * programs.size() * channels_) {
    share_cores();
    for (const Lowered& lowered : programs) {
      lanes_.emplace_back(lowered.program.lanes.size());
      for (std::size_t i = 0; i < lowered.program.lanes.size(); ++i) {
        lanes_.back()[i].finished.assign(lowered.program.lanes[i].steps.size() * segments, -1);
      }
      senders_.push_back(lowered.program.hears_first ? senders_to(lowered.program) : std::set<int>());
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
  struct Adapter {
    double sends_until = 0, receives_until = 0;
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
    return edges_[(from * programs_.size() + to) * channels_ + channel];
  }
  const EdgeOffers& offers(std::size_t from, std::size_t to) const {
    return offers_.of(static_cast<int>(from), static_cast<int>(to));
  }
  // Of the link between two ranks.
  const Rates& rates(std::size_t from, std::size_t to) const {
    return offers_.hosts.share(static_cast<int>(from), static_cast<int>(to)) ? rates_ : across_;
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
    bool entered(const Wait& wait) { return known(latency(wait) + play.rates_.enter); }
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
      return before < to.freed.size() && known(to.freed[before] + play.rates(rank, peer).message);
    }
    bool heard_all() {
      const auto heard = [&](int sender) {
        std::optional<double> first;  // on any channel
        for (std::size_t channel = 0; channel < play.channels_; ++channel) {
          const std::optional<double>& there = play.edge(static_cast<std::size_t>(sender), rank, channel).first;
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

  // When the rank may start the step at the head of a lane, if that is known yet.
  std::optional<double> ready_at(std::size_t rank, std::size_t lane) {
    LaneState& state = lanes_[rank][lane];
    if (state.missing != nullptr && finished_at(rank, state.segment, *state.missing) < 0) return std::nullopt;
    Seen seen{*this, rank, state.segment, std::max(state.ended, rank_free_[rank])};
    const auto unmet = first_unmet(step_of(rank, lane), state.segment, program(rank).hears_first, seen);
    state.missing = unmet.wait;
    return unmet.may_fire() ? std::optional(seen.at) : std::nullopt;
  }

  // What a rank touches: its input and its output.
  bool outgrows_caches() const {
    const std::uint64_t blocks = layout_.cut == Cut::chunks ? layout_.blocks : 1;
    const auto touched = static_cast<double>(2 * layout_.count * blocks * layout_.element_bytes);
    return rates_.far > 0 && touched > rates_.cache_bytes && rates_.cache_bytes > 0;
  }

  double bytes_of(std::size_t rank, const Step& step, std::uint64_t segment) const {
    return static_cast<double>(elements_of(step, program(rank), layout_, segment) * layout_.element_bytes);
  }

  double time_of(std::size_t rank, const Step& step, std::uint64_t segment) const {
    if (step.op == StepOp::wait) return rates_.step;
    const double bytes = bytes_of(rank, step, segment) * bytes_weight_;
    const auto is_stream = [&](const Operand& operand, std::size_t peer) {
      return is_slot(operand) && !offers(rank, peer).operands_in_slots;
    };
    double time = rates_.step;
    std::size_t sources = 0, destinations = 0;
    for (const Operand& source : step.sources) {
      const std::size_t peer = resolve(rank, source.rank);
      if (is_stream(source, peer)) {
        time += rates(rank, peer).call + bytes * rates(rank, peer).stream;
        continue;
      }
      ++sources;
      const bool far = is_slot(source) || (source.kind == Operand::Kind::window && peer != rank);
      if (far) time += bytes * rates_.peer;
    }
    for (const Operand& destination : step.destinations) {
      const std::size_t peer = resolve(rank, destination.rank);
      if (is_stream(destination, peer)) {
        if (!is_single_copy(offers(rank, peer)))  // else the receiver does it all
          time += rates(rank, peer).call + bytes * rates(rank, peer).stream;
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
    const double end = start + time_of(ready.rank, step, state.segment);
    rank_free_[ready.rank] = state.ended = end;
    for (LaneState& mine : lanes_[ready.rank]) mine.ready.reset();
    state.missing = nullptr;
    if (core != nullptr) *core = {end, ready.rank};
    for (const Operand& source : step.sources) {
      if (!is_slot(source)) continue;
      Edge& from = edge(resolve(ready.rank, source.rank), ready.rank, source.channel);
      from.arrivals.pop_front();
      from.freed.push_back(end);
    }
    for (const Operand& destination : step.destinations) {
      if (!is_slot(destination)) continue;
      const std::size_t peer = resolve(ready.rank, destination.rank);
      Edge& to = edge(ready.rank, peer, destination.channel);
      const double bytes = bytes_of(ready.rank, step, state.segment);
      to.arrivals.push_back(crossed(ready.rank, peer, bytes, start, end) + rates(ready.rank, peer).message);
      if (!to.first) to.first = to.arrivals.back();
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
  const Offers& offers_;
  const Layout& layout_;
  const Rates& rates_;   // of memory, cores and links inside hosts
  const Rates& across_;  // of links between hosts
  std::uint64_t segments_;
  double bytes_weight_;
  std::vector<std::vector<LaneState>> lanes_;  // by rank and lane
  std::vector<double> rank_free_;
  std::vector<std::vector<Core>> cores_;  // by host; none where every rank has its own
  std::vector<Adapter> adapters_;         // by host
  std::size_t channels_;                  // of each edge
  std::vector<Edge> edges_;               // by source, destination and channel
  std::vector<std::set<int>> senders_;    // by rank: whom it hears from, where it hears first
};

}  // namespace

double predict(std::span<const Lowered> programs, std::uint64_t count, std::uint32_t element_bytes,
               const LinkRates& rates) {
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
