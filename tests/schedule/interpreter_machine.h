// The inside of the interpreter: the state of a run, and its events.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "interpreter.h"
#include "schedule/verbs.h"
#include "words.h"

namespace tutti::schedule::interpretation {

struct Random {
  std::uint64_t state;

  std::uint64_t next() { return scramble(state += 0x9E3779B97F4A7C15u); }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(next() % n); }
};

// A block in memory, and the steps in flight that use it.
struct Place {
  Word word;
  int readers = 0;
  int writers = 0;
};

enum class Presence { absent, inside, returned };

struct RankState {
  Presence presence = Presence::absent;
  std::vector<Place> user;  // input, then output; in place some blocks of the output lie in the input
  std::vector<Place> scratch;
  std::vector<Word> outputs;  // as they were on return, by cell
  std::size_t lanes_left = 0;
  std::set<int> unheard;    // ranks it receives from, until their first message is here
  std::size_t exposed = 0;  // messages that it must stay for: their receivers have yet to copy them
};

struct Message {
  std::vector<Word> words;
  std::vector<std::uint64_t> sizes;
  std::vector<Place*> exposed;  // single-copy: where it lies instead
  int owner = -1;
  bool user = false;
};

struct EdgeState {
  std::deque<Message> messages;
  std::uint32_t in_use = 0;  // credits spent and not given back
};

using EdgeKey = std::tuple<int, int, int>;  // from, to, channel

// One operand of a step in flight.
struct Reach {
  int owner = -1;              // own, window
  int peer = -1;               // slot
  bool user = false;           // touches the owner's input or output
  bool exposed = false;        // slot as source: a message that lies with its owner
  std::vector<Place*> places;  // own, window, exposed
  EdgeState* edge = nullptr;
  std::vector<Word> words;  // source: what was read or received
};

// What is left to do of a step in flight: an event reads or writes one block of one operand.
struct Event {
  bool write;
  std::size_t operand;
  std::size_t block;
};

struct LaneRun {
  const Program* program = nullptr;
  const Lane* lane = nullptr;
  std::uint64_t segment = 0;
  std::size_t step = 0;
  std::uint64_t finished = 0;  // steps
  bool reached = false;        // its operands are known
  bool in_flight = false;
  std::uint64_t blocked_at = ~std::uint64_t{0};  // nothing has happened since it was found blocked
  std::vector<Reach> destinations, sources;
  std::vector<std::uint64_t> sizes;
  std::vector<Event> events;
  std::size_t next_event = 0;

  const Step& current() const { return lane->steps[step]; }
};

struct Fault {
  std::string words;
};

class Machine {
 public:
  explicit Machine(const Trial& trial) : trial_(trial), ranks_(trial.programs.size()) {}

  std::string run(std::uint64_t seed);

 private:
  // interpreter.cc: who moves, and what is right in the end
  void reset();
  void schedule();
  bool everyone_returned() const;
  bool move(std::size_t actor);
  bool enter(std::size_t rank);
  void leave(std::size_t rank);
  Word expected_word(std::size_t rank, std::size_t cell) const;
  Word hosts_first(const std::vector<Word>& words) const;
  std::size_t user_index(int owner, Buffer buffer, std::uint64_t segment, std::size_t block) const;
  void check_outputs() const;
  bool compares_on_entry() const;
  std::set<int> senders_to(const Program& program) const;
  void poison(std::vector<Place>& places);

  // interpreter_step.cc: the life of a step
  bool begin(LaneRun& lane);
  bool holds(const LaneRun& lane, const Wait& wait) const;
  void reach_all(LaneRun& lane);
  Reach reach(LaneRun& lane, const Operand& operand, bool destination);
  Place& place(int owner, const Operand& operand, std::uint64_t segment, std::size_t block);
  bool slots_ready(const LaneRun& lane) const;
  bool may_write(const LaneRun& lane) const;
  void take_slots(LaneRun& lane);
  void check_heard(const LaneRun& lane) const;
  void mark(LaneRun& lane, int by);
  void check_free(const Reach& reach, bool write) const;
  void plan_events(LaneRun& lane);
  void happen(LaneRun& lane, const Event& event);
  void finish(LaneRun& lane);
  void leave_if_done(std::size_t rank);
  const EdgeOffers& offers(int from, int to) const { return trial_.programs[0].offers.of(from, to); }
  // The trial's own, where it has any.
  std::uint32_t credits(int from, int to) const {
    return trial_.credits != 0 ? trial_.credits : offers(from, to).credits;
  }

  const Trial trial_;
  Random random_{0};
  std::vector<RankState> ranks_;
  std::vector<LaneRun> lanes_;  // rank after rank
  std::vector<std::size_t> first_lane_;
  std::map<EdgeKey, EdgeState> edges_;
  std::uint64_t now_ = 0;  // counts what can unblock somebody
};

}  // namespace tutti::schedule::interpretation
