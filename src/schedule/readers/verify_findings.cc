// What a run found, in words: races, deadlocks, messages left over, buffers touched outside a call or too early.
#include <algorithm>
#include <sstream>

#include "schedule/readers/verify_run.h"
#include "schedule/readers/verify_story.h"

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
    problems_.tell("no wait for its entry and no message that rank ", operand.rank,
                   " causes comes before; its caller may still compute in that buffer");
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
                  " before every in-edge was heard: no message from rank ", sender, " need have come by then");
    problems_.tell("rank ", sender, " sends to rank ", self, " in lane '", first_sending_lane(sender, self),
                   "', later than that or without an order");
    problems_.tell("were rank ", sender, " in another call, rank ", self,
                   " would learn it too late: its output would be lost");
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
      problems_.tell("rank ", rank,
                     " waits for nothing that comes after that step, and its caller may use the buffers ",
                     "as soon as it has returned");
    }
    if (!moves_data(plan_.any->verb)) check_met(rank, returned);
  }
}

void Run::check_met(int rank, const Clock& returned) {
  for (int other = 0; other < plan_.ranks; ++other) {
    if (other == rank || returned[entry_component(other)] != 0) continue;
    problems_.add(Problem::Kind::wrong_result, "rank ", rank, " may leave the barrier before rank ", other,
                  " has entered it");
    problems_.tell("no chain of messages and waits leads from rank ", other, "'s entry to rank ", rank, "'s last step");
  }
}

void Run::check_left_over() {
  for (std::size_t i = 0; i < edges_.size(); ++i) {
    const PlannedEdge& edge = plan_.edges[i];
    if (edges_[i].messages.empty()) continue;
    const std::size_t left = edges_[i].messages.size();
    problems_.add(Problem::Kind::unmatched, left, left == 1 ? " message" : " messages", " from rank ", edge.from,
                  " (lane '", lane(edge.sender).lane->name, "') to rank ", edge.to, left == 1 ? " is" : " are",
                  " never received");
    problems_.tell(left == 1 ? "it is sent by " : "the first of them is sent by ",
                   place(edges_[i].messages.front()->by));
    if (edge.receiver == -1) {
      problems_.tell("no lane of rank ", edge.to, " receives from rank ", edge.from);
    } else {
      problems_.tell("rank ", edge.to, " receives from rank ", edge.from, " in lane '", lane(edge.receiver).lane->name,
                     "', which has ended");
    }
  }
}

void Run::report_sizes(int number, const PlannedOperand& operand, const std::vector<std::uint64_t>& sizes,
                       const Finished& message) {
  std::uint64_t sent = 0, expected = 0;
  for (const std::uint64_t size : message.sizes) sent += size;
  for (const std::uint64_t size : sizes) expected += size;
  problems_.add(Problem::Kind::unmatched, place(number), " expects ", expected, " elements in ", sizes.size(),
                " blocks from rank ", operand.rank, ", which sent ", sent, " in ", message.sizes.size());
  problems_.tell("they are sent by ", place(message.by));
}

// Follows each stuck lane to the one that would have to move first, to the end or round a circle. Lanes that only wait
// behind lanes already named are left out.
void Run::report_deadlock() {
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
    if (!path.empty() && !behind_others) tell_waiting(path, number, circle);
  }
}

// `path`: lanes, each of which waits for the next; the last one for `end`, which is one of them where it is a circle.
void Run::tell_waiting(const std::vector<int>& path, int end, bool circle) {
  constexpr std::size_t kMostNamed = 6;
  const std::string lack = lack_of(lane(path[0]).rank, plan_, *this);
  if (circle) {
    const auto around = path.end() - std::find(path.begin(), path.end(), end);
    problems_.add(Problem::Kind::deadlock, lack, ": a circle of ", around, around == 1 ? " lane that" : " lanes that",
                  around == 1 ? " waits for itself" : " wait for each other");
  } else {
    problems_.add(Problem::Kind::deadlock, lack, ": rank ", lane(path.back()).rank, " waits for what never comes");
  }
  const bool all = path.size() <= kMostNamed;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (!all && i == kMostNamed / 2)
      problems_.tell("... and so on, through ", path.size() - kMostNamed + 1, " lanes more");
    if (all || i < kMostNamed / 2 || i + kMostNamed / 2 > path.size())
      problems_.tell(place(path[i]), words(blocker(path[i])));
  }
  if (circle) {
    problems_.tell("and that is where the circle closes: none of them can ever move");
  } else {
    tell_why_none(blocker(path.back()), path.back());
  }
}

// Why what the lane `waiting` waits for never happens: nobody does it, or the lane that does has ended.
void Run::tell_why_none(const Blocker& blocker, int waiting) {
  const int self = lane(waiting).rank;
  const bool message = blocker.kind == Blocker::Kind::message;
  if (blocker.lane == -1) {
    problems_.tell("no lane of rank ", blocker.rank, message ? " sends to rank " : " receives from rank ", self);
    return;
  }
  problems_.tell("lane '", lane(blocker.lane).lane->name, "' of rank ", blocker.rank,
                 " has ended: ", message ? "what it sends there has all been taken" : "it takes no more");
}

std::string Run::first_sending_lane(int from, int to) const {
  for (const PlannedEdge& edge : plan_.edges) {
    if (edge.from == from && edge.to == to && edge.sender != -1) return lane(edge.sender).lane->name;
  }
  return "none";
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
      text << " waits for rank " << blocker.rank << " to take a message (" << blocker.credits
           << (blocker.credits == 1 ? " credit)" : " credits)");
      break;
  }
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
  problems_.tell("which of the two comes first depends on timing, and so does what ",
                 writes && wrote ? "is left there" : "is read");
  const std::uint32_t known = clock(number)[other.component];
  problems_.tell("neither waits for the other: what rank ", lane(number).rank, " knows to be over by then of rank ",
                 lane(static_cast<int>(other.component)).rank, "'s lane is ",
                 known == 0 ? "nothing" : place({other.component, known}));
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
