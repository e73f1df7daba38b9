// The control plane of a group as its data plane sees it: who is gone, who gave up, and what each rank says it is in.
//
// Implemented by src/rendezvous for groups that span sockets; ranks that share memory need none. Every function may be
// called from any thread and none of them blocks.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/statement.h"
#include "tutti/error.h"

namespace tutti {

// How a rank was lost, as far as those who lost it can tell.
enum class Loss : std::uint8_t {
  ended,        // its process is gone: the system closed its connections in order, or says so itself
  reset,        // its connection was reset: by the end of its process, or by something on the way
  unreachable,  // the network gave its connection up
  silent,       // nothing was heard of it for too long: it is stopped, or cut off
};

// Why a group cannot go on: a rank was lost, or a rank gave up after an error of its own.
struct Failure {
  int rank = -1;      // the one that was lost or gave up
  int blamed = -1;    // given up: whom it blamed, or -1
  bool died = false;  // lost, and `loss` says how
  Loss loss = Loss::ended;
  ErrorCode cause = ErrorCode::peer_lost;  // given up: the code of its error
  bool left = false;                       // given up: whom it blamed had left in good order
  std::string words = {};                  // given up by this rank itself: why, for people; told to nobody else
};

class Control {
 public:
  virtual ~Control() = default;

  // The first failure this rank has heard of; it never changes afterwards.
  virtual std::optional<Failure> failure() const = 0;
  // The peer said goodbye: what it has sent so far is all there will ever be.
  virtual bool departed(int peer) const = 0;
  // The number of the news in which it said so, of all that its process has told; the highest where that ended. Its
  // connections say how many it had told when they were made (Links::Made). 0 where it has not left.
  virtual std::uint64_t left_at(int peer) const = 0;

  // Tells all ranks that this one gives up, whom it blames (-1 = nobody) and why. The first failure counts.
  virtual void abort(int culprit, ErrorCode cause) = 0;
  // Tells all ranks that this one has lost `peer`, which counts as a failure unless there was one before.
  virtual void lose(int peer, Loss loss) = 0;
  // Tells all ranks what this one is in, on one channel.
  virtual void announce(std::uint32_t channel, const Statement& statement) = 0;
  // What `peer` announced last on the channel; sequence 0 where it announced nothing.
  virtual Statement announced(std::uint32_t channel, int peer) const = 0;

  // What the data plane has called on the control plane's thread. After attach({}) returns, none is called any more.
  struct Hooks {
    std::function<void()> wake;                           // called at every piece of news
    std::function<Statement(std::uint32_t channel)> say;  // what this rank is in; asked for when somebody gives up
    std::uint32_t channels = 0;
    // How long ago data came from the peer, as far as known; asked for before the peer is taken to be silent.
    std::function<std::chrono::nanoseconds(int peer)> quiet_for;
  };
  virtual void attach(Hooks hooks) = 0;
};

// The control plane of a process, for all groups that are made of the ranks of one job.
class ControlPlane {
 public:
  virtual ~ControlPlane() = default;
  // What a new group sees of it; `members`: ranks of the job, by the group's. All members give it the same number,
  // which no group had before. Returns at once: others may enter later, or have left.
  virtual std::unique_ptr<Control> enter(std::uint64_t group, std::vector<int> members) = 0;
};

}  // namespace tutti
