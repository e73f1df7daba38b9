// The control plane of a group as its data plane sees it: who is gone, who gave up, and what each rank says it is in.
//
// Implemented by src/rendezvous for groups that span sockets; ranks that share memory need none. Every function may be
// called from any thread and none of them blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/statement.h"
#include "tutti/error.h"

namespace tutti {

// Why a group cannot go on: a rank's process ended or fell silent, or a rank gave up after an error of its own.
struct Failure {
  int rank = -1;    // the one that ended or gave up
  int blamed = -1;  // given up: whom it blamed, or -1
  bool died = false;
  bool silent = false;                     // died: as far as its silence tells; it may be stopped, or cut off
  ErrorCode cause = ErrorCode::peer_lost;  // given up: the code of its error
  bool left = false;                       // given up: whom it blamed had left in good order
};

class Control {
 public:
  virtual ~Control() = default;

  // The first failure this rank has heard of; it never changes afterwards.
  virtual std::optional<Failure> failure() const = 0;
  // The peer said goodbye: what it has sent so far is all there will ever be.
  virtual bool departed(int peer) const = 0;

  // Tells all ranks that this one gives up, whom it blames (-1 = nobody) and why. The first failure counts.
  virtual void abort(int culprit, ErrorCode cause) = 0;
  // Tells all ranks what this one is in, on one channel.
  virtual void announce(std::uint32_t channel, const Statement& statement) = 0;
  // What `peer` announced last on the channel; sequence 0 where it announced nothing.
  virtual Statement announced(std::uint32_t channel, int peer) const = 0;

  // What the data plane lends to the control plane's thread. After lend({}) returns, nothing lent is used any more.
  struct Lent {
    std::function<void()> wake;                           // called at every piece of news
    std::function<Statement(std::uint32_t channel)> say;  // what this rank is in; asked for when somebody gives up
    std::uint32_t channels = 0;
    int readable = -1;  // a descriptor (an epoll) that calls for `wake` when it becomes readable after arm(); or -1
  };
  virtual void lend(Lent lent) = 0;
  // Asks for one `wake` as soon as Lent::readable is readable.
  virtual void arm() = 0;
};

}  // namespace tutti
