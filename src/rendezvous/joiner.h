// A rank on its way into the group: it reaches the lobby, joins, links up with its peers, and goes when all may.
//
// A link that stands is held: nobody reads it, and nobody writes to it before `go`, which comes only after both of its
// ends have read all of the handshake. So no byte of what follows can be swallowed here. Ranks that went a little
// earlier may come for more links (linker.h): they wait at the gate. Whatever fails is told to the lobby first, and
// the lobby's verdict, the first cause, is what this rank reports. A pure state machine.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/dialer.h"
#include "rendezvous/gate.h"
#include "rendezvous/network.h"
#include "rendezvous/roster.h"

namespace tutti::rendezvous {

struct JoinerOptions {
  int rank = 0;
  std::string job;
  Endpoint lobby;
  std::optional<Token> token;
  Join join;
  Time deadline = kNever;
  // Called once with the roster, before any link: the place for checks that need the real world.
  std::function<std::optional<Verdict>(const Roster&)> check;
  // Where descriptors are short, whether any could be got back that this machine knows nothing of.
  std::function<bool()> make_room;
  // Where to look for the lobby when another user holds its name (`make`), or nobody answers there; or empty.
  std::function<Endpoint(bool make)> refuge;
};

class Joiner final : public Machine {
 public:
  enum class State : unsigned char { reaching, waiting, linking, ready, done, settling, failed };

  struct Standing {
    Link link;
    ConnectionId connection = 0;  // 0 while it does not stand
  };

  Joiner(Network& network, JoinerOptions options, Time now);

  State state() const { return state_; }
  bool over() const { return state_ == State::done || state_ == State::failed; }
  const Verdict& verdict() const { return verdict_; }            // once failed
  const Roster& roster() const { return *roster_; }              // from linking on
  const std::vector<Standing>& links() const { return links_; }  // all of them stand once done
  // Who was sent away, in words; empty where nobody was.
  std::string refusals() const { return gate_.refusals(); }
  // Once done: those who have come for what follows the meeting wait at it.
  Gate take_gate() { return std::move(gate_); }
  // Something outside went wrong: tells the lobby.
  void fail(Verdict verdict, Time now);
  // Descriptors are short: whether anybody could be sent away for it.
  bool make_room();

  void accepted(ConnectionId connection, std::string_view from, Time now) override;
  void connected(ConnectionId connection, Time now) override;
  void received(ConnectionId connection, std::span<const std::byte> bytes, Time now) override;
  void closed(ConnectionId connection, End end, std::string_view words, Time now) override;
  void tick(Time now) override;
  Time next_tick() const override;

 private:
  std::string us() const { return "rank " + std::to_string(options_.rank); }
  Hello hello_for(Purpose purpose, std::uint32_t channel, std::uint32_t to) const;
  Standing* find(Purpose purpose, int peer, std::uint32_t channel);
  Dialer* dialer_of(ConnectionId connection);
  void take_lobby(std::span<const std::byte> bytes, Time now);
  void take(const Frame& frame, Time now);
  void take_roster(Roster roster, Time now);
  void lobby_closed(Time now);
  void look_elsewhere(End end);
  void nonsense(Time now);
  void judge_lobby(Time now);
  void judge_link(const Dialer& dialer, int peer, Time now);
  void judge_links(Time now);
  void judge_deadline(Time now);
  void stand(Standing& standing, ConnectionId connection);
  void expect_links();
  void finish();

  Network& network_;
  JoinerOptions options_;
  Time began_;
  Time link_deadline_ = kNever;
  Time settle_until_ = kNever;
  State state_ = State::reaching;
  Gate gate_;
  Dialer lobby_;
  bool greeted_ = false;
  bool squatted_ = false;  // another user holds the lobby's name
  int keeper_ = -1;
  FrameReader frames_;
  std::optional<Roster> roster_;
  std::vector<Standing> links_;
  std::vector<std::unique_ptr<Dialer>> dialers_;  // by link; nullptr where the peer dials
  std::size_t standing_ = 0;
  Verdict verdict_;
};

}  // namespace tutti::rendezvous
