// The death-watch: what each rank knows of the others once they have met, over one control connection to each.
//
//   beat      every quarter of the silence that makes a rank suspect
//   goodbye   the rank leaves in good order: the end of its connection is no death
//   verdict   somebody died or gave up
//   statement what the rank is in, on one channel
//
// A connection that ends without a goodbye is a failure at once. Silence alone makes a rank suspect, which is said and
// taken back, and is a failure only when it lasts; data that comes from a rank breaks its silence, too. A watch that
// was late itself first reads what has come before it judges anybody's silence. Whoever speaks otherwise than a watch
// does is hung up on.
//
// The first failure counts and never changes; whoever hears of it passes it on and says what it is in itself. A pure
// state machine.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/control.h"
#include "rendezvous/network.h"
#include "rendezvous/wire.h"

namespace tutti::rendezvous {

// A verdict as it travels on a control connection.
Bytes failure_frame(const Failure& failure);

class Watch final : public Machine {
 public:
  struct Options {
    int rank = 0;
    int size = 1;
    Time silence{};                                   // after which a rank is lost; 0 = never
    std::vector<std::pair<int, ConnectionId>> links;  // a rank and its held connection
    Time suspicion{};                                 // the silence after which a rank is suspect; 0 = never
  };
  // A rank has become suspect, or is so no longer.
  struct Suspicion {
    int rank = 0;
    bool heard_again = false;
    Time silent{};  // for how long it was
  };

  Watch(Network& network, Options options, Time now);

  // What to say when somebody gives up; asked for inside the functions below.
  void set_say(std::function<std::vector<Statement>()> say) { say_ = std::move(say); }

  // How long ago data came from a peer; asked for inside tick().
  void set_quiet_for(std::function<Time(int peer)> quiet_for) { quiet_for_ = std::move(quiet_for); }

  const std::optional<Failure>& failure() const { return failure_; }
  bool departed(int peer) const { return peers_[static_cast<std::size_t>(peer)].departed; }
  // By channel, as far as it announced anything.
  const std::vector<Statement>& announced(int peer) const { return peers_[static_cast<std::size_t>(peer)].statements; }
  // The peers of which there is news since the last call; the failure is news of its own.
  std::vector<int> take_changed() { return std::exchange(changed_, {}); }
  // In the order in which they came up since the last call.
  std::vector<Suspicion> take_suspicions() { return std::exchange(suspicions_, {}); }

  void abort(int culprit, ErrorCode cause);
  void lose(int peer, Loss loss) { fail({peer, -1, true, loss}); }
  void announce(std::uint32_t channel, const Statement& statement);
  // Announces what set_say gave, on all channels. The first failure calls for it by itself.
  void say();
  void goodbye();

  void accepted(ConnectionId connection, std::string_view, Time) override { network_.close(connection); }
  void connected(ConnectionId, Time) override {}
  void received(ConnectionId connection, std::span<const std::byte> bytes, Time now) override;
  void closed(ConnectionId connection, End end, std::string_view words, Time now) override;
  void tick(Time now) override;
  Time next_tick() const override;

 private:
  static constexpr std::size_t kMostBytes = 256;
  struct Peer {
    ConnectionId connection = 0;  // 0 once it has ended
    Time heard{};
    bool suspect = false;
    bool departed = false;
    FrameReader frames{kMostBytes};
    std::vector<Statement> statements;  // by channel
  };

  // Whether it could be understood.
  bool take(int rank, const Frame& frame);
  bool take_failure(Reader reader);
  void fail(const Failure& failure);
  void broadcast(const Bytes& frame);
  void hear(int rank, Time when);
  void judge_silence(Time now);
  void judge_silence(int rank, Time now);

  Network& network_;
  Options options_;
  Time first_limit_;  // the silence that is judged first; 0 = none ever is
  Time beat_every_;
  Time next_beat_ = kNever;
  Time next_judgement_ = kNever;
  Time ticked_;
  bool catching_up_ = false;
  std::vector<Peer> peers_;  // by rank
  std::map<ConnectionId, int> ranks_;
  std::optional<Failure> failure_;
  std::vector<int> changed_;
  std::vector<Suspicion> suspicions_;
  std::function<std::vector<Statement>()> say_;
  std::function<Time(int)> quiet_for_;
};

}  // namespace tutti::rendezvous
