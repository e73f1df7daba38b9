// The death-watch: what each rank knows of the others once they have met, over control links to its neighbours
// (overlay.h).
//
// Every rank beats to its neighbours, and they alone judge its silence; whatever else is told goes through all ranks:
// who hears news for the first time passes them on to every other neighbour (news.h).
//
// A link that ends without a goodbye is a death at once. Silence alone makes a rank suspect, which is said and taken
// back, and is a death only when it lasts; data that comes from a rank breaks its silence, too. A watch that was late
// itself first reads what has come before it judges anybody's silence. Whoever speaks otherwise than a watch does is
// hung up on.
//
// One watch serves all groups of its process. The death of a rank fails every group that holds it, and no other; a
// group that a member gives up fails alone. The first failure of a group counts and never changes. What is said of
// groups that were not entered here is passed on like all else.
//
// The living ranks form a ring, in which each is linked with the next either way; where the next one is gone, both ends
// of the gap make new links with those who are their neighbours among the living (relinker.h), and tell each other all
// they know. Data links are made here, too, when they are wanted (linker.h), because this is where each rank listens:
// nobody is let in who is lost or has left. A pure state machine.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/control.h"
#include "rendezvous/gate.h"
#include "rendezvous/known_news.h"
#include "rendezvous/linker.h"
#include "rendezvous/network.h"
#include "rendezvous/news.h"
#include "rendezvous/relinker.h"
#include "rendezvous/wire.h"

namespace tutti::rendezvous {

// How often a rank beats; more often only where a silence of less than four of these counts.
inline constexpr Time kBeatEvery = std::chrono::milliseconds(250);

class Watch final : public Machine {
 public:
  struct Options {
    int rank = 0;
    int size = 1;
    Time silence{};                                   // after which a rank is lost; 0 = never
    std::vector<std::pair<int, ConnectionId>> links;  // a rank and its held connection
    Time suspicion{};                                 // the silence after which a rank is suspect; 0 = never
    std::optional<LinkOptions> linking = {};          // none: no links are made beside these
  };
  // A neighbour has become suspect, or is so no longer.
  struct Suspicion {
    int rank = 0;
    bool heard_again = false;
    Time silent{};  // for how long it was
  };
  // There is news of a member of a group that was entered, or (-1) the group has failed.
  struct Change {
    GroupNumber group = 0;
    int rank = -1;
  };

  // `gate`: who waits there already comes in now.
  Watch(Network& network, Options options, Time now, std::optional<Gate> gate = {});

  // What to say when a group has failed over calls that differ; asked for inside the functions below.
  void set_say(std::function<std::vector<Statement>(GroupNumber)> say) { say_ = std::move(say); }
  // How long ago data came from a rank; asked for inside tick().
  void set_quiet_for(std::function<Time(int rank)> quiet_for) { quiet_for_ = std::move(quiet_for); }

  // This process is a member of the group from now on. A group that holds a lost rank, or that was given up before,
  // fails at once. Numbers are never used again.
  void enter(GroupNumber group, std::vector<int> members);
  // In good order: what this rank has sent in it is all there will be.
  void leave(GroupNumber group);
  // The whole process does.
  void goodbye();

  // Of groups that were entered; ranks are the watch's own.
  std::optional<Failure> failure(GroupNumber group) const;
  bool departed(GroupNumber group, int rank) const { return known_.departed(group, rank); }
  std::uint64_t left_at(GroupNumber group, int rank) const { return known_.left_at(group, rank); }
  // How many news this process has told.
  std::uint64_t told() const { return told_; }
  // By channel, as far as the rank announced anything.
  std::vector<Statement> announced(GroupNumber group, int rank) const { return known_.announced(group, rank); }
  // Since the last call, in the order in which they came up.
  std::vector<Change> take_changes() { return std::exchange(changes_, {}); }
  // Control links that were made here.
  std::vector<ConnectionId> take_new_links() { return std::exchange(new_links_, {}); }

  // Data links; see linker.h.
  void want_link(int rank, std::uint32_t channel, Time now);
  std::vector<Linker::Made> take_data_links() { return linker_ ? linker_->take_made() : std::vector<Linker::Made>(); }
  std::vector<Linker::Key> take_absent_links() { return linker_ ? linker_->take_absent() : std::vector<Linker::Key>(); }
  // Of ranks that were lost because no link with them could be made: why, for people.
  std::vector<std::string> take_troubles() { return std::exchange(troubles_, {}); }
  // Where descriptors are short, whether any could be got back that this machine knows nothing of.
  void set_make_room(std::function<bool()> make_room) { make_room_ = std::move(make_room); }
  // Descriptors are short: whether anybody could be sent away for it.
  bool make_room();
  // Why this process can make no more links; empty where it can.
  const std::string& own_trouble() const { return own_trouble_; }
  std::vector<Suspicion> take_suspicions() { return std::exchange(suspicions_, {}); }

  void abort(GroupNumber group, int culprit, ErrorCode cause);
  void lose(int rank, Loss loss);
  void announce(GroupNumber group, std::uint32_t channel, const Statement& statement);
  // Where the group has failed over calls that differ: announces what set_say gives, on all channels. The failure calls
  // for it by itself.
  void say(GroupNumber group);

  void accepted(ConnectionId connection, std::string_view from, Time now) override;
  void connected(ConnectionId connection, Time now) override;
  void received(ConnectionId connection, std::span<const std::byte> bytes, Time now) override;
  void closed(ConnectionId connection, End end, std::string_view words, Time now) override;
  void tick(Time now) override;
  Time next_tick() const override;

 private:
  struct Neighbour {
    int rank = -1;
    Time heard{};
    bool knows = true;  // that the link stands; whoever leaves before it does says goodbye to others only
    bool suspect = false;
    FrameReader frames{kMostControlBytes};
  };
  struct Group {
    std::vector<int> members;  // ascending
    std::optional<Failure> failure;
    bool holds(int rank) const;
  };

  Neighbour& link(int rank, ConnectionId connection, Time now);
  void hang_up(ConnectionId connection);
  // Whether it could be understood.
  bool take(ConnectionId from, const Frame& frame);
  // This rank has something to say.
  void tell(News news);
  void learn(const News& news, ConnectionId from);
  void pass_on(const News& news, ConnectionId from);
  void act_on(const News& news);
  void act_on_loss(int rank, Loss loss);
  void tell_goodbye(int rank);
  void fail(GroupNumber number, const Failure& failure);
  bool any_group_lives() const;
  void hear(Neighbour& neighbour, Time when);
  bool is_gone(int rank) const { return known_.departed(rank) || known_.lost(rank); }
  bool is_linked(int rank) const;
  // Neither gone nor, as far as can be seen, ended.
  bool seems_there(int rank) const { return !is_gone(rank) && !relinker_->is_refused_by(rank); }
  // The next one that is there, this way (1) or that way (-1) round; this rank itself where it is alone.
  int next_living(int step) const;
  // The neighbours of this rank among those that are there, as far as it has no link to them.
  std::vector<int> missing_neighbours() const;
  void keep_joined(Time now);
  void open_gate();
  // Of connections that are no neighbour's.
  void received_elsewhere(ConnectionId connection, std::span<const std::byte> bytes, Time now);
  void closed_elsewhere(ConnectionId connection, End end, std::string_view words, Time now);
  void admit(const Hello& hello, ConnectionId connection, Time now);
  void join(int rank, ConnectionId connection, bool knows, Time now);
  void judge_links();
  void judge_silence(Time now);
  // Whether it has been silent for too long.
  bool judge_silence(Neighbour& neighbour, Time now);

  Network& network_;
  const Options options_;
  const Time first_limit_;  // the silence that is judged first; 0 = none ever is
  const Time beat_every_;
  Time next_beat_;
  Time next_judgement_ = kNever;
  Time ticked_;
  bool catching_up_ = false;
  std::map<ConnectionId, Neighbour> neighbours_;
  KnownNews known_;
  std::uint64_t told_ = 0;
  std::map<GroupNumber, Group> groups_;
  // What follows is there where links are made.
  std::optional<Gate> gate_;
  std::optional<Relinker> relinker_;
  std::optional<Linker> linker_;
  std::vector<std::string> troubles_;
  std::string own_trouble_;
  int beats_apart_ = 0;  // since when there is a gap beside this rank
  std::vector<ConnectionId> new_links_;
  std::vector<Change> changes_;
  std::vector<Suspicion> suspicions_;
  std::function<std::vector<Statement>(GroupNumber)> say_;
  std::function<Time(int)> quiet_for_;
  std::function<bool()> make_room_;
};

// What to say on a control link when this rank gives up before there is a watch, in the group of all ranks.
Bytes last_words(int rank, const Failure& failure);
// The group of all ranks that have met.
inline constexpr GroupNumber kEverybody = 0;

}  // namespace tutti::rendezvous
