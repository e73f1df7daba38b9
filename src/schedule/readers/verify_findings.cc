// What a run found, in words: races, deadlocks, messages left over, buffers touched outside a call or too early.
#include <algorithm>
#include <iterator>
#include <sstream>

#include "schedule/readers/verify_run.h"

namespace tutti::schedule::verification {
// The owner's caller may still compute in a buffer before the entry of the owner.
void Run::check_entered(int number, const PlannedOperand& operand) {
  const int self = lane(number).rank;
  if (operand.rank == self || operand.buffer == Buffer::scratch) return;
  const std::span<const std::uint32_t> now = clock(number);
  std::uint32_t& touched = last_touch_[index_of(operand.rank) * plan_.lanes.size() + index_of(number)];
  const bool first = touched == 0;
  touched = now[index_of(number)];
  if (first && now[entry_component(operand.rank)] == 0) {
    problems_.add(Problem::Kind::race, place(number), " may touch ", name_of(operand.buffer), " of rank ", operand.rank,
                  " before that rank has entered the call");
  }
}

// Every message carries the fingerprint of its call: once one came from a rank, that rank is known to be in this call.
// Only a lane's first write matters, because what a lane knows only grows.
void Run::check_heard(int number, const PlannedOperand& operand) {
  LaneState& state = states_[index_of(number)];
  if (operand.buffer == Buffer::scratch || plan_.user_windows || plan_.any->hears_first || state.wrote_output) return;
  state.wrote_output = true;
  const int self = lane(number).rank;
  const std::span<const std::uint32_t> now = clock(number);
  std::set<int> senders, heard;
  for (std::size_t i = 0; i < edges_.size(); ++i) {
    if (plan_.edges[i].to != self || plan_.edges[i].receiver == -1) continue;
    senders.insert(plan_.edges[i].from);
    const Epoch& first = edges_[i].heard;
    if (first.time != 0 && first.before(now)) heard.insert(plan_.edges[i].from);
  }
  for (const int sender : senders) {
    if (heard.contains(sender)) continue;
    problems_.add(Problem::Kind::early_output, place(number), " writes ", name_of(operand.buffer),
                  " before every in-edge was heard: no message from rank ", sender,
                  " need have come by then, and were that rank in another call, the output would be lost");
    return;
  }
}

// A rank returns when its lanes have finished: by then it must know that the peers are through with its buffers. It
// stays for what others have yet to copy.
void Run::check_returns() {
  for (int rank = 0; rank < plan_.ranks; ++rank) {
    Clock returned(width_);
    for (int number = plan_.first_lane[index_of(rank)]; number < plan_.first_lane[index_of(rank) + 1]; ++number) {
      acquire(returned, clock(number));
    }
    for (std::size_t i = 0; i < edges_.size(); ++i) {
      if (plan_.edges[i].from != rank || !plan_.edges[i].single_copy) continue;
      for (const Told& receipt : edges_[i].returned_credits) acquire(returned, receipt->clock);
    }
    for (std::size_t number = 0; number < plan_.lanes.size(); ++number) {
      const Epoch touched{static_cast<std::uint32_t>(number),
                          last_touch_[index_of(rank) * plan_.lanes.size() + number]};
      if (touched.before(returned)) continue;
      problems_.add(Problem::Kind::race, place(touched), " may touch buffers of rank ", rank,
                    " after that rank has returned");
    }
    if (!moves_data(plan_.any->verb)) check_met(rank, returned);
  }
}

void Run::check_met(int rank, const Clock& returned) {
  for (int other = 0; other < plan_.ranks; ++other) {
    if (other == rank || returned[entry_component(other)] != 0) continue;
    problems_.add(Problem::Kind::wrong_result, "rank ", rank, " may leave the barrier before rank ", other,
                  " has entered it");
  }
}

void Run::check_left_over() {
  for (std::size_t i = 0; i < edges_.size(); ++i) {
    const PlannedEdge& edge = plan_.edges[i];
    if (edges_[i].messages.empty()) continue;
    problems_.add(Problem::Kind::unmatched, edges_[i].messages.size(), " messages from rank ", edge.from, " (lane '",
                  lane(edge.sender).lane->name, "') to rank ", edge.to, " are never received");
  }
}

// Follows each stuck lane to the one that would have to move first, to the end or round a circle. Lanes that only wait
// behind lanes already named are left out.
void Run::report_deadlock() {
  constexpr std::size_t kMostNamed = 8;
  const auto lanes = static_cast<int>(plan_.lanes.size());
  std::vector<int> visited(index_of(lanes), -1);  // the walk that came by
  for (int start = 0; start < lanes; ++start) {
    std::vector<int> path;
    int number = start;
    while (number != -1 && !done(number) && visited[index_of(number)] == -1) {
      visited[index_of(number)] = start;
      path.push_back(number);
      number = blocker(number).lane;
    }
    const bool circle = number != -1 && visited[index_of(number)] == start;
    const bool behind_others = number != -1 && !done(number) && !circle;
    if (path.empty() || behind_others) continue;
    path.erase(path.begin(), circle ? std::find(path.begin(), path.end(), number) : std::prev(path.end()));
    std::ostringstream text;
    if (circle) text << "a circle of " << path.size() << ": ";
    for (std::size_t i = 0; i < std::min(path.size(), kMostNamed); ++i) {
      text << (i == 0 ? "" : "; ") << place(path[i]) << words(blocker(path[i]));
    }
    problems_.add(Problem::Kind::deadlock, text.str(), path.size() > kMostNamed ? "; ..." : "");
  }
}

std::string Run::words(const Blocker& blocker) const {
  std::ostringstream text;
  switch (blocker.kind) {
    case Blocker::Kind::none: break;
    case Blocker::Kind::wait:
      text << " waits for rank " << blocker.rank << " to finish step " << blocker.wait->step << " of lane '"
           << lane(blocker.lane).lane->name << "'";
      if (blocker.wait->segments_back != 0) text << ", " << blocker.wait->segments_back << " segments back";
      break;
    case Blocker::Kind::message: text << " waits for a message from rank " << blocker.rank; break;
    case Blocker::Kind::credit:
      text << " waits for rank " << blocker.rank << " to take a message (" << blocker.credits << " credits)";
      break;
  }
  if (blocker.lane == -1)
    text << ", where no lane does that";
  else if (done(blocker.lane))
    text << ", whose lane '" << lane(blocker.lane).lane->name << "' has ended";
  return text.str();
}

void Run::report_race(int number, const PlannedOperand& operand, std::size_t index, bool writes, Epoch other,
                      bool wrote) {
  const std::size_t steps = lane(static_cast<int>(other.component)).steps.size();
  const auto key =
      std::tuple(number, states_[index_of(number)].step, static_cast<int>(other.component), (other.time - 1) % steps);
  if (!reported_.insert(key).second) return;
  problems_.add(Problem::Kind::race, place(number), writes ? " writes block " : " reads block ", operand.blocks[index],
                " of ", name_of(operand.buffer), " of rank ", operand.rank, ", and nothing orders it with ",
                place(other), ", which ", wrote ? "writes" : "reads", " it");
}

std::string Run::place(int number) const {
  return place(number, states_[index_of(number)].segment, states_[index_of(number)].step);
}

std::string Run::place(Epoch epoch) const {
  const auto number = static_cast<int>(epoch.component);
  const std::size_t steps = lane(number).steps.size();
  return place(number, (epoch.time - 1) / steps, (epoch.time - 1) % steps);
}

std::string Run::place(int number, std::uint64_t segment, std::size_t step) const {
  std::ostringstream text;
  text << "rank " << lane(number).rank << ", lane '" << lane(number).lane->name << "', step " << step << ", segment "
       << segment;
  return text.str();
}

}  // namespace tutti::schedule::verification
