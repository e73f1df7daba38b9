#include "schedule/readers/simulate/simulate.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <queue>
#include <utility>

#include "base/mix.h"
#include "schedule/fold.h"
#include "schedule/readers/firing.h"
#include "schedule/readers/simulate/flows.h"
#include "schedule/readers/simulate/history.h"
#include "schedule/readers/simulate/scene.h"
#include "schedule/readers/simulate/symmetry.h"
#include "tutti/error.h"

namespace tutti::schedule {
namespace {

constexpr std::uint32_t kNobody = ~std::uint32_t{0};

// A number from 0 to 1 for each (seed, what it is for), the same on every machine.
double lot(std::uint64_t seed, std::uint64_t purpose, std::uint64_t number) {
  constexpr int kBits = 53;
  const std::uint64_t drawn = mix(mix(mix(mix(seed, purpose), number), number), purpose);
  return std::ldexp(static_cast<double>(drawn >> (64 - kBits)), -kBits);
}

struct SimEdge {
  std::uint32_t sent = 0, come = 0, taken = 0, freed = 0;
};

struct SimLane {
  std::uint64_t segment = 0;
  std::uint32_t step = 0;
  std::uint32_t next_slot = 0;     // of the destinations of the step at hand
  std::uint32_t windows_left = 0;  // flows of it that are under way
  bool busy = false;
  double bytes = 0;  // of each operand of the step at hand
};

// What a rank without anything to do waits for.
struct Awaited {
  Simulated::Cause cause = Simulated::Cause::message;
  std::uint32_t what = kNobody;  // an edge that it takes from or sends over, or a peer: by place in the scene
};

struct SimRank {
  std::vector<SimLane> lanes;
  double processor_free = 0;
  double end = 0;
  double idle_since = -1;  // nothing of it goes on since then
  Awaited awaited;
  std::uint32_t heard = 0;  // edges that a message has come over
  bool entered = false;
  bool noted = false;                  // to be looked at
  std::vector<std::uint32_t> waiting;  // ranks that wait for its progress
};

class Simulation {
 public:
  Simulation(Scene& scene, SceneLinks& links, const topology::Topology& topology, const SimulateOptions& options,
             const RankTraits& traits)
      : scene_(scene),
        links_(links),
        topology_(topology),
        options_(options),
        traits_(traits),
        ranks_(scene.ranks.size()),
        edges_(scene.edges.size()),
        flows_(scene.capacities) {
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      ranks_[rank].lanes.resize(scene.text_of(rank).lanes.size());
      for (std::size_t lane = 0; lane < ranks_[rank].lanes.size(); ++lane) lanes_left_ += over(rank, lane) ? 0 : 1;
      push(traits.starts[place(rank)], Event::Kind::enter, rank, 0);
    }
    waited_in_.resize(scene.ins.size());
    waited_edge_.resize(scene.edges.size());
    waited_peer_.resize(scene.peers.size());
    background_.resize(static_cast<std::size_t>(options.background.flows));
    for (std::uint32_t i = 0; i < background_.size(); ++i) begin_background(i);
    if (options.history) history_ = std::make_unique<History>(scene, traits);
  }

  Simulated run() {
    while (lanes_left_ > 0) {
      const double event = events_.empty() ? Flows::kNever : events_.top().at;
      const double at = std::min(event, flows_.next_end());
      if (at == Flows::kNever || (events_.empty() && under_way_ == 0))
        throw Error(ErrorCode::invalid_argument, "these programs wait for each other for ever");
      now_ = at;
      // All of one moment, before rates are shared out anew.
      for (bool more = true; more;) {
        more = false;
        while (!events_.empty() && events_.top().at <= now_) {
          const Event next = events_.top();
          events_.pop();
          handle(next);
          more = true;
        }
        look_at_noted();
        for (Flows::Id flow = 0; flows_.take_ended(now_, &flow);) {
          ++count_;
          end_transfer(flow);
          more = true;
        }
        look_at_noted();
      }
      flows_.settle(now_);
    }
    return result();
  }

 private:
  struct Event {
    enum class Kind : std::uint8_t { enter, computed, arrival };
    double at = 0;
    std::uint64_t number = 0;
    std::uint32_t what = 0;  // the rank, or the edge
    std::uint16_t lane = 0;
    Kind kind = Kind::enter;

    bool operator>(const Event& other) const { return at != other.at ? at > other.at : number > other.number; }
  };
  // What a flow belongs to.
  struct Transfer {
    std::uint32_t rank = 0;  // kNobody: of the background
    std::uint32_t lane = 0;
    std::uint32_t edge = 0;
    bool message = false;
    double began = 0;
  };
  using Cause = Simulated::Cause;

  void push(double at, Event::Kind kind, std::uint32_t what, std::size_t lane) {
    events_.push({at, next_++, what, static_cast<std::uint16_t>(lane), kind});
  }
  std::size_t place(std::uint32_t rank) const { return static_cast<std::size_t>(scene_.ranks[rank].rank); }
  const std::vector<SceneStep>& steps_of(std::uint32_t rank, std::size_t lane) const {
    return scene_.text_of(rank).lanes[lane];
  }
  const SceneStep& step_of(std::uint32_t rank, std::size_t lane) const {
    return steps_of(rank, lane)[ranks_[rank].lanes[lane].step];
  }
  bool over(std::uint32_t rank, std::size_t lane) const {
    return ranks_[rank].lanes[lane].segment == scene_.layout.segments || steps_of(rank, lane).empty();
  }
  // What firing.h asks.
  struct Sight {
    const Simulation& simulation;
    std::uint32_t rank;
    std::uint64_t segment;

    bool entered(const SceneWait& wait) const {
      return simulation.ranks_[simulation.scene_.peer_of(rank, wait)].entered;
    }
    bool finished(const SceneWait& wait) const {
      const std::uint32_t peer = simulation.scene_.peer_of(rank, wait);
      const auto lane = static_cast<std::size_t>(wait.lane);
      const std::uint64_t steps = simulation.steps_of(peer, lane).size();
      const std::uint64_t meant = segment - static_cast<std::uint64_t>(wait.segments_back);
      const SimLane& theirs = simulation.ranks_[peer].lanes[lane];
      return theirs.segment * steps + theirs.step > meant * steps + static_cast<std::uint64_t>(wait.step);
    }
    bool has_come(const SceneSlot& source) const {
      const SimEdge& from = simulation.edges_[simulation.scene_.in_edge(rank, source)];
      return from.come > from.taken;
    }
    bool has_credit(const SceneSlot& destination) const {
      const std::uint32_t edge = simulation.scene_.out_edge(rank, destination);
      return simulation.edges_[edge].sent - simulation.edges_[edge].freed < simulation.scene_.edges[edge].credits;
    }
    bool heard_all() const { return simulation.ranks_[rank].heard == simulation.scene_.ranks[rank].ins; }
  };

  void handle(const Event& event) {
    ++count_;
    switch (event.kind) {
      case Event::Kind::enter:
        ranks_[event.what].entered = true;
        wake_waiting(event.what);
        look_later(event.what);
        break;
      case Event::Kind::computed:
        if (history_) history_->computed(event.what, event.lane, now_);
        transfer(event.what, event.lane);
        break;
      case Event::Kind::arrival: {
        const std::uint32_t to = scene_.edges[event.what].to;
        if (edges_[event.what].come++ == 0) ++ranks_[to].heard;
        look_later(to);
        break;
      }
    }
  }

  // Fires whatever a rank can.
  void look(std::uint32_t rank) {
    SimRank& self = ranks_[rank];
    if (!self.entered) return;
    const bool hears_first = scene_.text_of(rank).hears_first;
    Awaited awaited;
    bool busy = false;
    for (std::size_t number = 0; number < self.lanes.size(); ++number) {
      SimLane& lane = self.lanes[number];
      while (!lane.busy && !over(rank, number)) {
        const auto unmet =
            first_unmet(step_of(rank, number), lane.segment, hears_first, Sight{*this, rank, lane.segment});
        if (!unmet.may_fire()) {
          if (unmet.wait != nullptr) ranks_[scene_.peer_of(rank, *unmet.wait)].waiting.push_back(rank);
          if (awaited.what == kNobody) awaited = awaited_by(rank, unmet);
          break;
        }
        fire(rank, number);
      }
      busy = busy || lane.busy;
    }
    note_idleness(self, busy, awaited);
  }

  Awaited awaited_by(std::uint32_t rank, const Unmet<SceneWait, SceneSlot>& unmet) const {
    using Kind = Unmet<SceneWait, SceneSlot>::Kind;
    const SceneRank& place = scene_.ranks[rank];
    switch (unmet.kind) {
      case Kind::wait: return {Cause::progress, place.first_peer + unmet.wait->peer};
      case Kind::message: return {Cause::message, place.first_in + unmet.operand->number};
      case Kind::credit: return {Cause::credit, place.first_edge + unmet.operand->number};
      case Kind::hearing:
        for (std::uint32_t in = place.first_in; in < place.first_in + place.ins; ++in) {
          if (edges_[scene_.ins[in]].come == 0) return {Cause::message, in};
        }
        break;
      case Kind::nothing: break;
    }
    return {};
  }

  void note_idleness(SimRank& self, bool busy, const Awaited& awaited) {
    if (self.idle_since >= 0 && self.awaited.what != kNobody) {
      std::vector<double>& waited = self.awaited.cause == Cause::message  ? waited_in_
                                    : self.awaited.cause == Cause::credit ? waited_edge_
                                                                          : waited_peer_;
      waited[self.awaited.what] += now_ - self.idle_since;
    }
    self.idle_since = busy ? -1 : now_;
    self.awaited = awaited;
  }

  void look_later(std::uint32_t rank) {
    if (std::exchange(ranks_[rank].noted, true)) return;
    later_.push_back(rank);
  }
  void wake_waiting(std::uint32_t rank) {
    if (ranks_[rank].waiting.empty()) return;
    for (const std::uint32_t waiting : std::exchange(ranks_[rank].waiting, {})) look_later(waiting);
  }
  void look_at_noted() {
    for (; !later_.empty(); later_.pop_front()) {
      ranks_[later_.front()].noted = false;
      look(later_.front());
    }
  }

  void fire(std::uint32_t rank, std::size_t number) {
    SimRank& self = ranks_[rank];
    SimLane& lane = self.lanes[number];
    const SceneStep& step = step_of(rank, number);
    if (history_) history_->fired(rank, number, step, lane.step, lane.segment, now_);
    lane.busy = true;
    lane.next_slot = 0;
    lane.bytes = scene_.bytes_of(rank, step, lane.segment);
    for (const SceneSlot& source : step.sources) ++edges_[scene_.in_edge(rank, source)].taken;
    for (const SceneSlot& destination : step.destinations) ++edges_[scene_.out_edge(rank, destination)].sent;
    const double takes = time_of(step, lane.bytes) * traits_.factors[place(rank)];
    if (takes == 0) return transfer(rank, number);
    const double begin = std::max(self.processor_free, now_);
    self.processor_free = begin + takes;
    if (history_) history_->computes_from(rank, number, begin);
    push(self.processor_free, Event::Kind::computed, rank, number);
  }

  double time_of(const SceneStep& step, double bytes) const {
    double time = options_.step_s;
    if (options_.reduced_bytes_per_s > 0) time += bytes * step.reduced / options_.reduced_bytes_per_s;
    if (step.copies && options_.copied_bytes_per_s > 0) time += bytes / options_.copied_bytes_per_s;
    return time;
  }

  // What a step moves between ranks: all through windows at once, then its messages one after the other.
  void transfer(std::uint32_t rank, std::size_t number) {
    SimLane& lane = ranks_[rank].lanes[number];
    for (const SceneSlot& window : step_of(rank, number).windows) {
      ++lane.windows_left;
      begin_flow(scene_.out_edge(rank, window), lane.bytes, {rank, static_cast<std::uint32_t>(number), 0, false, now_});
    }
    if (lane.windows_left == 0) send_next(rank, number);
  }

  void send_next(std::uint32_t rank, std::size_t number) {
    SimLane& lane = ranks_[rank].lanes[number];
    const SceneStep& step = step_of(rank, number);
    if (lane.next_slot == step.destinations.size()) return finish(rank, number);
    const std::uint32_t edge = scene_.out_edge(rank, step.destinations[lane.next_slot++]);
    begin_flow(edge, lane.bytes, {rank, static_cast<std::uint32_t>(number), edge, true, now_});
  }

  void begin_flow(std::uint32_t number, double bytes, const Transfer& transfer) {
    const std::span<const Flows::Share> way = scene_.way(scene_.edges[number]);
    const double factor = traits_.factors[place(transfer.rank)];
    const double most = factor == 1 ? Flows::kNever : scene_.peak_of(way) / factor;
    start(flows_.begin(now_, way, bytes, most), transfer);
    ++under_way_;
    if (history_) history_->sends(transfer.rank, transfer.lane, bytes / scene_.peak_of(way));
  }
  void start(Flows::Id flow, const Transfer& transfer) {
    if (transfers_.size() <= flow) transfers_.resize(flow + 1);
    transfers_[flow] = transfer;
  }

  void end_transfer(Flows::Id flow) {
    const Transfer transfer = transfers_[flow];
    if (transfer.rank == kNobody) return begin_background(transfer.edge);
    --under_way_;
    if (transfer.message) {
      const double bytes = ranks_[transfer.rank].lanes[transfer.lane].bytes;
      if (history_) history_->sent(transfer.rank, transfer.lane, transfer.edge, bytes, transfer.began, now_);
      push(now_ + scene_.edges[transfer.edge].latency_s, Event::Kind::arrival, transfer.edge, 0);
      return send_next(transfer.rank, transfer.lane);
    }
    if (--ranks_[transfer.rank].lanes[transfer.lane].windows_left == 0) send_next(transfer.rank, transfer.lane);
  }

  // The next flow of somebody else, between two ranks that are drawn.
  void begin_background(std::uint32_t number) {
    std::vector<Flows::Share>& way = background_[number];
    const auto draw = [&] {
      constexpr std::uint64_t kBackground = 0x6b636162;
      return static_cast<int>(lot(options_.seed, kBackground, drawn_++) * topology_.ranks());
    };
    const int from = draw();
    int to = draw();
    if (to == from) to = (from + 1) % topology_.ranks();
    way.clear();
    links_.route(from, to, scene_, way);
    flows_.add_links(scene_.capacities);
    start(flows_.begin(now_, way, options_.background.bytes), {kNobody, 0, number, false, now_});
  }

  void finish(std::uint32_t rank, std::size_t number) {
    SimRank& self = ranks_[rank];
    SimLane& lane = self.lanes[number];
    const SceneStep& step = step_of(rank, number);
    self.end = now_;
    lane.busy = false;
    if (history_) history_->finished(rank, number, step, now_);
    for (const SceneSlot& source : step.sources) {
      const std::uint32_t edge = scene_.in_edge(rank, source);
      ++edges_[edge].freed;
      look_later(scene_.edges[edge].from);
    }
    if (++lane.step == steps_of(rank, number).size()) {
      lane.step = 0;
      if (++lane.segment == scene_.layout.segments) --lanes_left_;
    }
    look_later(rank);
    wake_waiting(rank);
  }

  Simulated result() const {
    Simulated simulated;
    simulated.simulated_ranks = static_cast<int>(ranks_.size());
    for (const SimRank& rank : ranks_) {
      simulated.ends.push_back(rank.end);
      simulated.seconds = std::max(simulated.seconds, rank.end);
    }
    tell_waits(simulated);
    tell_links(simulated);
    if (history_) history_->tell(simulated);
    simulated.events = count_;
    simulated.rate_changes = flows_.rate_changes();
    return simulated;
  }

  void tell_waits(Simulated& simulated) const {
    for (const SceneRank& place : scene_.ranks) {
      const auto tell = [&](double seconds, int peer, Cause cause) {
        if (seconds > 0) simulated.waits.push_back({place.rank, peer, seconds, cause, place.stands_for});
      };
      for (std::uint32_t in = place.first_in; in < place.first_in + place.ins; ++in)
        tell(waited_in_[in], scene_.senders[in], Cause::message);
      for (std::uint32_t edge = place.first_edge; edge < place.first_edge + place.edges; ++edge)
        tell(waited_edge_[edge], scene_.edges[edge].peer, Cause::credit);
      for (std::uint32_t peer = place.first_peer; peer < place.first_peer + place.peers; ++peer)
        tell(waited_peer_[peer], scene_.awaited[peer], Cause::progress);
    }
    std::stable_sort(simulated.waits.begin(), simulated.waits.end(),
                     [](const Simulated::Wait& a, const Simulated::Wait& b) { return a.seconds > b.seconds; });
  }

  void tell_links(Simulated& simulated) const {
    const std::vector<Flows::LinkUse> uses = flows_.uses(now_);
    for (std::size_t link = 0; link < uses.size(); ++link) {
      const Flows::LinkUse& use = uses[link];
      simulated.links.push_back({scene_.links[link], use.bytes,
                                 simulated.seconds > 0 ? use.bytes / (use.capacity * simulated.seconds) : 0,
                                 scene_.links_alike.empty() ? 1 : scene_.links_alike[link]});
    }
    std::sort(simulated.links.begin(), simulated.links.end(), [](const Simulated::Link& a, const Simulated::Link& b) {
      return a.utilisation != b.utilisation ? a.utilisation > b.utilisation : a.link < b.link;
    });
  }

  Scene& scene_;
  SceneLinks& links_;
  const topology::Topology& topology_;
  const SimulateOptions& options_;
  const RankTraits& traits_;
  std::vector<SimRank> ranks_;
  std::vector<SimEdge> edges_;
  Flows flows_;
  std::vector<Transfer> transfers_;  // by flow
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t next_ = 0;
  double now_ = 0;
  std::uint64_t count_ = 0;
  std::uint64_t lanes_left_ = 0;
  std::uint64_t under_way_ = 0;                                // flows that are not of the background
  std::deque<std::uint32_t> later_;                            // ranks to look at
  std::vector<double> waited_in_, waited_edge_, waited_peer_;  // seconds
  std::deque<std::vector<Flows::Share>> background_;           // ways of others' flows
  std::uint64_t drawn_ = 0;
  std::unique_ptr<History> history_;  // nullptr: none is kept
};

[[noreturn]] void refuse_option(const std::string& why) { throw Error(ErrorCode::invalid_argument, why); }

RankTraits traits_of(int ranks, const SimulateOptions& options) {
  RankTraits traits;
  traits.factors.assign(static_cast<std::size_t>(ranks), 1);
  for (const SimulateOptions::Straggler& straggler : options.stragglers) {
    if (straggler.rank < 0 || straggler.rank >= ranks)
      refuse_option("rank " + std::to_string(straggler.rank) + " cannot be a straggler: there are ranks 0 to " +
                    std::to_string(ranks - 1));
    if (!(straggler.factor > 0) || std::isinf(straggler.factor))
      refuse_option("a straggler takes a positive number of times as long as others");
    traits.factors[static_cast<std::size_t>(straggler.rank)] = straggler.factor;
  }
  constexpr std::uint64_t kSkew = 0x746f6c;
  for (std::uint64_t rank = 0; rank < static_cast<std::uint64_t>(ranks); ++rank)
    traits.starts.push_back(options.skew_s * lot(options.seed, kSkew, rank));
  for (const SimulateOptions::LateStart& late : options.late_starts) {
    if (late.rank < 0 || late.rank >= ranks)
      refuse_option("rank " + std::to_string(late.rank) + " cannot start late: there are ranks 0 to " +
                    std::to_string(ranks - 1));
    if (!(late.seconds >= 0) || std::isinf(late.seconds))
      refuse_option("a rank starts late by a time that is not negative");
    traits.starts[static_cast<std::size_t>(late.rank)] += late.seconds;
  }
  return traits;
}

void check_links(const topology::Topology& topology, const SimulateOptions& options) {
  for (const SimulateOptions::SlowLink& slow : options.slow_links) {
    if (slow.link < 0 || slow.link >= topology.directed_links())
      refuse_option("there is no link " + std::to_string(slow.link));
    if (!(slow.factor > 0) || std::isinf(slow.factor))
      refuse_option("a slow link takes a positive number of times as long as others");
  }
  if (options.background.flows > 0 && topology.ranks() < 2)
    refuse_option("background traffic needs two ranks at least, and " + topology.name + " has one");
  constexpr double kLeastOfBackground = 4 << 10;  // less would be over so soon that there would be no end to flows
  if (options.background.flows > 0 && !(options.background.bytes >= kLeastOfBackground))
    refuse_option("flows of background traffic have 4 KB at least: shorter ones would be all that is simulated");
}

}  // namespace

std::string_view name_of(Simulated::Cause cause) {
  constexpr std::string_view kNames[] = {"message", "credit", "progress"};
  return kNames[static_cast<std::size_t>(cause)];
}

Simulated simulate(const ProgramSource& programs, const topology::Topology& topology, const SimulateOptions& options) {
  if (programs.ranks > topology.ranks())
    refuse_option(topology.name + " has " + std::to_string(topology.ranks()) + " ranks, and these programs are for " +
                  std::to_string(programs.ranks));
  check_links(topology, options);
  const RankTraits traits = traits_of(programs.ranks, options);
  SceneLinks links(topology, options.slow_links, options.failed_links);
  Scene scene = make_scene(programs, options.count, options.element_bytes, links);
  std::vector<std::uint32_t> classes;  // by rank, where ranks were folded
  if (options.fold && options.background.flows == 0) classes = fold_scene(scene, traits);
  Simulated simulated = Simulation(scene, links, topology, options, traits).run();
  if (!classes.empty()) {
    std::vector<double> ends;
    for (const std::uint32_t number : classes) ends.push_back(simulated.ends[number]);
    simulated.ends = std::move(ends);
  }
  return simulated;
}

Simulated simulate(std::span<const Lowered> programs, const topology::Topology& topology,
                   const SimulateOptions& options) {
  require_program_set(programs);
  return simulate(
      {static_cast<int>(programs.size()), [&](int rank) { return programs[static_cast<std::size_t>(rank)]; }, false},
      topology, options);
}

}  // namespace tutti::schedule
