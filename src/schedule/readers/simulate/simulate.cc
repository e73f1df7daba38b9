#include "schedule/readers/simulate/simulate.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <queue>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/mix.h"
#include "schedule/fold.h"
#include "schedule/layout.h"
#include "schedule/readers/firing.h"
#include "schedule/readers/simulate/flows.h"
#include "tutti/error.h"

namespace tutti::schedule {
namespace {

struct SimEdge {
  topology::Route route;
  double narrowest = Flows::kNever;  // of its links, in bytes per second
  std::uint64_t sent = 0, come = 0, taken = 0, freed = 0;
};

struct SimLane {
  std::uint64_t segment = 0;
  std::size_t step = 0;
  bool busy = false;
  std::size_t next_slot = 0;     // of the destinations of the step at hand
  std::size_t windows_left = 0;  // flows of it that are under way
};

struct SimRank {
  std::vector<SimLane> lanes;
  double processor_free = 0;
  double factor = 1;
  double end = 0;
  bool entered = false;
  bool noted = false;        // to be looked at
  std::set<int> senders;     // where it hears first
  std::vector<int> waiting;  // ranks that wait for its progress
  double idle_since = -1;    // nothing of it goes on since then
  int awaited = -1;          // and the message of this peer is missing
  std::map<int, double> waited_for = {};
};

class Simulation {
 public:
  Simulation(std::span<const Lowered> programs, const topology::Topology& topology, const SimulateOptions& options)
      : programs_(programs),
        topology_(topology),
        options_(options),
        layout_(Layout::of(programs.front().program.verb, options.count, options.element_bytes,
                           static_cast<std::uint32_t>(programs.front().program.blocks),
                           programs.front().segment_bytes)),
        ranks_(programs.size()) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      ranks_[rank].lanes.resize(program(static_cast<int>(rank)).lanes.size());
      if (program(static_cast<int>(rank)).hears_first)
        ranks_[rank].senders = senders_to(program(static_cast<int>(rank)));
      events_.push({options.skew_s * lot(rank), Event::Kind::enter, static_cast<int>(rank), 0, next_++});
    }
    for (const SimulateOptions::Straggler& straggler : options.stragglers) {
      if (straggler.rank < 0 || straggler.rank >= static_cast<int>(ranks_.size()) || !(straggler.factor > 0))
        throw Error(ErrorCode::invalid_argument, "rank " + std::to_string(straggler.rank) + " cannot be a straggler");
      ranks_[static_cast<std::size_t>(straggler.rank)].factor = straggler.factor;
    }
  }

  Simulated run() {
    for (;;) {
      const double event = events_.empty() ? Flows::kNever : events_.top().at;
      const double at = std::min(event, flows_.next_end());
      if (at == Flows::kNever) break;
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
    require_all_over();
    return result();
  }

 private:
  struct Event {
    enum class Kind : std::uint8_t { enter, computed, arrival };
    double at = 0;
    Kind kind = Kind::enter;
    int rank = 0;
    std::int64_t what = 0;  // the lane, or who has sent
    std::uint64_t number = 0;

    bool operator>(const Event& other) const { return at != other.at ? at > other.at : number > other.number; }
  };
  // What a flow belongs to.
  struct Transfer {
    int rank = 0;
    std::size_t lane = 0;
    int to = -1;  // of a message
  };

  // From 0 to 1, and the same for the same seed on every machine.
  double lot(std::size_t rank) const {
    constexpr int kBits = 53;
    const std::uint64_t drawn = mix(mix(mix(options_.seed, 0x746f6c), rank), rank);
    return std::ldexp(static_cast<double>(drawn >> (64 - kBits)), -kBits);
  }
  const Program& program(int rank) const { return programs_[static_cast<std::size_t>(rank)].program; }
  SimRank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  const Step& step_of(int rank, const SimLane& lane, std::size_t number) const {
    return program(rank).lanes[number].steps[lane.step];
  }
  int resolve(int rank, const Index& index) const { return index.resolve(rank, program(rank).ranks); }
  bool over(int rank, std::size_t lane) {
    return at(rank).lanes[lane].segment == layout_.segments || program(rank).lanes[lane].steps.empty();
  }
  SimEdge& edge(int from, int to) {
    const auto [entry, is_new] = edges_.try_emplace(static_cast<std::uint64_t>(from) << 32 | static_cast<unsigned>(to));
    SimEdge& edge = entry->second;
    if (is_new) {
      edge.route = topology_.route(from, to);
      for (const std::int64_t link : edge.route.links)
        edge.narrowest = std::min(edge.narrowest, topology_.speed_of(link).bytes_per_s);
    }
    return edge;
  }

  // What firing.h asks.
  struct Sight {
    Simulation& simulation;
    int rank;
    std::uint64_t segment;

    bool entered(const Wait& wait) const { return simulation.at(simulation.resolve(rank, wait.rank)).entered; }
    bool finished(const Wait& wait) const {
      const int peer = simulation.resolve(rank, wait.rank);
      const auto lane = static_cast<std::size_t>(wait.lane);
      const std::uint64_t steps = simulation.program(peer).lanes[lane].steps.size();
      const std::uint64_t meant = segment - static_cast<std::uint64_t>(wait.segments_back);
      const SimLane& theirs = simulation.at(peer).lanes[lane];
      return theirs.segment * steps + theirs.step > meant * steps + static_cast<std::uint64_t>(wait.step);
    }
    bool has_come(const Operand& source) const {
      const SimEdge& from = simulation.edge(simulation.resolve(rank, source.rank), rank);
      return from.come > from.taken;
    }
    bool has_credit(const Operand& destination) const {
      const int peer = simulation.resolve(rank, destination.rank);
      const SimEdge& to = simulation.edge(rank, peer);
      return to.sent - to.freed <
             std::max<std::uint32_t>(1, simulation.programs_.front().offers.of(rank, peer).credits);
    }
    bool heard_all() const {
      const std::set<int>& senders = simulation.at(rank).senders;
      return std::all_of(senders.begin(), senders.end(),
                         [&](int sender) { return simulation.edge(sender, rank).come > 0; });
    }
  };

  void handle(const Event& event) {
    ++count_;
    switch (event.kind) {
      case Event::Kind::enter:
        at(event.rank).entered = true;
        wake_waiting(event.rank);
        look_later(event.rank);
        break;
      case Event::Kind::computed: transfer(event.rank, static_cast<std::size_t>(event.what)); break;
      case Event::Kind::arrival:
        ++edge(static_cast<int>(event.what), event.rank).come;
        look_later(event.rank);
        break;
    }
  }

  // Fires whatever a rank can.
  void look(int rank) {
    SimRank& self = at(rank);
    if (!self.entered) return;
    int awaited = -1;
    bool busy = false;
    for (std::size_t number = 0; number < self.lanes.size(); ++number) {
      SimLane& lane = self.lanes[number];
      while (!lane.busy && !over(rank, number)) {
        const Sight sight{*this, rank, lane.segment};
        const auto unmet = first_unmet(step_of(rank, lane, number), lane.segment, program(rank).hears_first, sight);
        if (!unmet.may_fire()) {
          if (unmet.wait != nullptr) at(resolve(rank, unmet.wait->rank)).waiting.push_back(rank);
          if (unmet.wait == nullptr && unmet.operand != nullptr && awaited < 0)
            awaited = resolve(rank, unmet.operand->rank);
          break;
        }
        fire(rank, number);
      }
      busy = busy || lane.busy;
    }
    note_idleness(self, busy, awaited);
  }

  void note_idleness(SimRank& self, bool busy, int awaited) {
    if (self.idle_since >= 0 && self.awaited >= 0) self.waited_for[self.awaited] += now_ - self.idle_since;
    self.idle_since = busy ? -1 : now_;
    self.awaited = awaited;
  }

  void look_later(int rank) {
    if (std::exchange(at(rank).noted, true)) return;
    later_.push_back(rank);
  }
  void wake_waiting(int rank) {
    for (const int waiting : std::exchange(at(rank).waiting, {})) look_later(waiting);
  }
  void look_at_noted() {
    for (; !later_.empty(); later_.pop_front()) {
      at(later_.front()).noted = false;
      look(later_.front());
    }
  }

  void fire(int rank, std::size_t number) {
    SimRank& self = at(rank);
    SimLane& lane = self.lanes[number];
    const Step& step = step_of(rank, lane, number);
    lane.busy = true;
    lane.next_slot = 0;
    for (const Operand& source : step.sources) {
      if (is_slot(source)) ++edge(resolve(rank, source.rank), rank).taken;
    }
    for (const Operand& destination : step.destinations) {
      if (is_slot(destination)) ++edge(rank, resolve(rank, destination.rank)).sent;
    }
    const double takes = time_of(step, bytes_of(rank, step, lane.segment)) * self.factor;
    if (takes == 0) return transfer(rank, number);
    self.processor_free = std::max(self.processor_free, now_) + takes;
    events_.push({self.processor_free, Event::Kind::computed, rank, static_cast<std::int64_t>(number), next_++});
  }

  double bytes_of(int rank, const Step& step, std::uint64_t segment) const {
    return static_cast<double>(elements_of(step, program(rank), layout_, segment) * layout_.element_bytes);
  }

  double time_of(const Step& step, double bytes) const {
    double time = options_.step_s;
    if (step.op == StepOp::reduce && options_.reduced_bytes_per_s > 0)
      time += bytes * static_cast<double>(step.sources.size() - 1) / options_.reduced_bytes_per_s;
    const auto is_own = [](const Operand& operand) { return operand.kind == Operand::Kind::own; };
    const bool copies = step.op == StepOp::copy && is_own(step.sources.front()) &&
                        std::any_of(step.destinations.begin(), step.destinations.end(), is_own);
    if (copies && options_.copied_bytes_per_s > 0) time += bytes / options_.copied_bytes_per_s;
    return time;
  }

  // What a step moves between ranks: all through windows at once, then its messages one after the other.
  void transfer(int rank, std::size_t number) {
    SimLane& lane = at(rank).lanes[number];
    const Step& step = step_of(rank, lane, number);
    const double bytes = bytes_of(rank, step, lane.segment);
    for (const auto* operands : {&step.sources, &step.destinations}) {
      for (const Operand& operand : *operands) {
        if (operand.kind != Operand::Kind::window) continue;
        const int peer = resolve(rank, operand.rank);
        if (peer == rank) continue;
        ++lane.windows_left;
        const bool loads = operands == &step.sources;
        begin_flow(loads ? peer : rank, loads ? rank : peer, bytes, {rank, number, -1});
      }
    }
    if (lane.windows_left == 0) send_next(rank, number);
  }

  void send_next(int rank, std::size_t number) {
    SimLane& lane = at(rank).lanes[number];
    const Step& step = step_of(rank, lane, number);
    while (lane.next_slot < step.destinations.size() && !is_slot(step.destinations[lane.next_slot])) ++lane.next_slot;
    if (lane.next_slot == step.destinations.size()) return finish(rank, number);
    const int to = resolve(rank, step.destinations[lane.next_slot++].rank);
    begin_flow(rank, to, bytes_of(rank, step, lane.segment), {rank, number, to});
  }

  void begin_flow(int from, int to, double bytes, const Transfer& transfer) {
    const SimEdge& way = edge(from, to);
    const Flows::Id flow = flows_.begin(now_, way.route.links, bytes, way.narrowest / at(from).factor,
                                        [&](std::int64_t link) { return topology_.speed_of(link).bytes_per_s; });
    if (transfers_.size() <= flow) transfers_.resize(flow + 1);
    transfers_[flow] = transfer;
  }

  void end_transfer(Flows::Id flow) {
    const Transfer transfer = transfers_[flow];
    if (transfer.to >= 0) {
      const double latency = edge(transfer.rank, transfer.to).route.latency_s;
      events_.push({now_ + latency, Event::Kind::arrival, transfer.to, transfer.rank, next_++});
      return send_next(transfer.rank, transfer.lane);
    }
    if (--at(transfer.rank).lanes[transfer.lane].windows_left == 0) send_next(transfer.rank, transfer.lane);
  }

  void finish(int rank, std::size_t number) {
    SimRank& self = at(rank);
    SimLane& lane = self.lanes[number];
    const Step& step = step_of(rank, lane, number);
    self.end = now_;
    lane.busy = false;
    std::vector<int> senders;
    for (const Operand& source : step.sources) {
      if (is_slot(source)) senders.push_back(resolve(rank, source.rank));
    }
    if (++lane.step == program(rank).lanes[number].steps.size()) {
      lane.step = 0;
      ++lane.segment;
    }
    for (const int sender : senders) {
      ++edge(sender, rank).freed;
      look_later(sender);
    }
    look_later(rank);
    wake_waiting(rank);
  }

  void require_all_over() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (std::size_t lane = 0; lane < ranks_[rank].lanes.size(); ++lane) {
        if (!over(static_cast<int>(rank), lane))
          throw Error(ErrorCode::invalid_argument, "these programs wait for each other for ever");
      }
    }
  }

  Simulated result() const {
    Simulated simulated;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      simulated.ends.push_back(ranks_[rank].end);
      simulated.seconds = std::max(simulated.seconds, ranks_[rank].end);
      for (const auto& [peer, seconds] : ranks_[rank].waited_for)
        simulated.waits.push_back({static_cast<int>(rank), peer, seconds});
    }
    for (const Flows::LinkUse& use : flows_.uses())
      simulated.links.push_back(
          {use.link, use.bytes, simulated.seconds > 0 ? use.bytes / (use.capacity * simulated.seconds) : 0});
    const auto busier = [](const Simulated::Link& a, const Simulated::Link& b) {
      return a.utilisation != b.utilisation ? a.utilisation > b.utilisation : a.link < b.link;
    };
    std::sort(simulated.links.begin(), simulated.links.end(), busier);
    std::stable_sort(simulated.waits.begin(), simulated.waits.end(),
                     [](const Simulated::Wait& a, const Simulated::Wait& b) { return a.seconds > b.seconds; });
    simulated.events = count_;
    simulated.rate_changes = flows_.rate_changes();
    return simulated;
  }

  std::span<const Lowered> programs_;
  const topology::Topology& topology_;
  const SimulateOptions& options_;
  const Layout layout_;
  std::vector<SimRank> ranks_;
  std::unordered_map<std::uint64_t, SimEdge> edges_;  // by sender and receiver
  Flows flows_;
  std::vector<Transfer> transfers_;  // by flow
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t next_ = 0;
  double now_ = 0;
  std::uint64_t count_ = 0;
  std::deque<int> later_;  // ranks to look at
};

}  // namespace

Simulated simulate(std::span<const Lowered> programs, const topology::Topology& topology,
                   const SimulateOptions& options) {
  require_program_set(programs);
  if (static_cast<int>(programs.size()) > topology.ranks()) {
    throw Error(ErrorCode::invalid_argument, topology.name + " has " + std::to_string(topology.ranks()) +
                                                 " ranks, and these programs are for " +
                                                 std::to_string(programs.size()));
  }
  return Simulation(programs, topology, options).run();
}

}  // namespace tutti::schedule
