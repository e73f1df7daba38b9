// A lobby over the real network, for whoever keeps one in a loop of its own.
//
//   poll(server.descriptor()) -> server.progress(), until server.done()
//
// Used by one thread at a time; nothing in here blocks.
#pragma once

#include <optional>
#include <string>

#include "base/deadline.h"
#include "base/log.h"
#include "rendezvous/epoll_network.h"
#include "rendezvous/lobby.h"

namespace tutti::rendezvous {

class LobbyServer {
 public:
  // Listens at `at`, where port 0 means any. A lobby over TCP needs a token; over a UNIX socket the kernel vouches for
  // the user. `keeper` is the rank that keeps it, -1 the launcher, at which the ranks may meet again after they have
  // met. Throws Error with the remedy.
  LobbyServer(const Endpoint& at, int size, const std::string& job, const std::optional<Token>& token,
              const Deadline& deadline, const Log& log, int keeper = -1);

  // Where it listens, with the real port.
  const Endpoint& endpoint() const { return endpoint_; }
  // Readable when progress() has something to do.
  int descriptor() const { return network_.descriptor(); }
  void progress();
  // A child ended before or while it met; `words` as in "was killed by signal 9".
  void note_death(int rank, const std::string& words);
  // Descriptors are short: whether anybody could be sent away for it.
  bool make_room();
  // Connections that belong to no rank, as far as is known.
  std::size_t strangers() const { return network_.connections() - lobby_.guests(); }
  // Nobody needs it any more, and all that was said is on its way.
  bool done() { return lobby_.over() && network_.flushed(); }
  // All ranks were told to go.
  bool went() const { return lobby_.went(); }
  const std::optional<Verdict>& verdict() const { return lobby_.verdict(); }

 private:
  void set_timer();

  Log log_;
  EpollNetwork network_;
  FileDescriptor timer_;
  Endpoint endpoint_;
  Lobby lobby_;
};

}  // namespace tutti::rendezvous
