// The lobby: where ranks join, learn who the others are, and are told to go, or why not.
//
// Runs at whoever keeps it, the launcher or a rank. It is the one judge of a meeting: a rank that fails tells the
// lobby, the first cause counts, and every rank, also one that joins later, gets the same verdict. A pure state
// machine.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/gate.h"
#include "rendezvous/network.h"
#include "rendezvous/roster.h"

namespace tutti::rendezvous {

struct LobbyOptions {
  int size = 1;
  std::string job;
  std::optional<Token> token;  // without one the network vouches for users, and a session token is handed out
  int keeper = -1;             // the rank that keeps it; -1 = the launcher
  Time deadline = kNever;
  bool again = false;  // after one meeting the same ranks may meet another time
  std::string hint;    // said when ranks are missing: what is known of the place
};

class Lobby final : public Machine {
 public:
  Lobby(Network& network, LobbyOptions options, Time now);

  // Whoever knows that a rank's process ended before or while it met; `words` as in "was killed by signal 9".
  void note_death(int rank, const std::string& words);
  // Descriptors are short: whether anybody could be sent away for it.
  bool make_room() { return gate_.make_room(); }
  // Those that have proved themselves.
  std::size_t guests() const { return guests_.size(); }
  // Nobody needs it any more: all were told to go, or all were told why not, or the time is over.
  bool over() const;
  bool went() const { return went_; }
  const std::optional<Verdict>& verdict() const { return verdict_; }
  // Who was sent away, in words; empty where nobody was.
  std::string refusals() const { return gate_.refusals(); }

  void accepted(ConnectionId connection, std::string_view from, Time now) override;
  void connected(ConnectionId, Time) override {}
  void received(ConnectionId connection, std::span<const std::byte> bytes, Time now) override;
  void closed(ConnectionId connection, End end, std::string_view words, Time now) override;
  void tick(Time now) override;
  Time next_tick() const override;

 private:
  struct Guest {
    int rank = -1;
    FrameReader frames{kMostFromMember};
  };
  struct Seat {
    ConnectionId connection = 0;
    std::optional<Join> join;
    bool ready = false;
    bool settled = false;  // told the verdict, or known to be dead
  };

  bool in_range(int rank) const { return rank >= 0 && rank < options_.size; }
  Seat& seat(int rank) { return seats_[static_cast<std::size_t>(rank)]; }
  std::vector<int> ranks_where(bool (*condition)(const Seat&)) const;
  void admit(ConnectionId connection, const Hello& hello);
  void take(ConnectionId connection, const Frame& frame, Time now);
  void take_join(ConnectionId connection, Join join);
  void send_roster();
  void send_go();
  Verdict missing(Time now) const;
  void fail(Verdict verdict);
  void tell(ConnectionId connection, const Verdict& verdict);
  void expect_guests() { gate_.set_most(kStrangers + seats_.size() - std::min(seats_.size(), guests_.size())); }

  Network& network_;
  LobbyOptions options_;
  Gate gate_;
  Time began_;
  std::map<ConnectionId, Guest> guests_;  // whoever has proved itself
  std::vector<Seat> seats_;               // by rank
  int joined_ = 0;
  int ready_ = 0;
  bool went_ = false;
  bool expired_ = false;
  std::optional<Verdict> verdict_;
};

}  // namespace tutti::rendezvous
