// From a launch to a meeting: where the lobby is, who keeps it, and with which token.
//
//   launch           lobby                                   found by the others through
//   tutti run        kept by the launcher                    TUTTI_RENDEZVOUS
//   given, Slurm     kept by rank 0 at a place all can name  the variables
//   one host         kept by rank 0 at a UNIX socket         the variables
//   torchrun, PMIx   kept by rank 0 at a port of its choice  the store: rank 0 listens, then publishes
//   own store        the same                                a store that the program brings
//
// The port of a Slurm job is 20000 + a hash of the job modulo 8192: below the ports that Linux gives to outgoing
// connections. Abstract sockets are called @tutti-<user id>-<hash of the job>; where another user has taken that name,
// the ranks meet at the refuge (refuge.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/deadline.h"
#include "base/environment.h"
#include "base/log.h"
#include "rendezvous/launch/launch.h"
#include "rendezvous/launch/store.h"
#include "rendezvous/launch/token_source.h"
#include "rendezvous/network.h"
#include "rendezvous/token.h"

namespace tutti::rendezvous {

struct Rendezvous {
  std::string job;          // for MeetingOptions; the same on all ranks, differs between meetings
  Endpoint lobby;           // empty for a group of one. For the keeper that publishes: its address and port 0
  bool keep_lobby = false;  // this rank keeps it
  std::function<Endpoint(bool make)> refuge;  // for MeetingOptions; none where nobody can take the lobby's place
  std::optional<Token> token;                 // none where the kernel vouches for the user
  TokenSource token_source = TokenSource::nobody_to_meet;
  // Where set, the keeper calls it once, with the endpoint it really listens at: the others are waiting for it. It owns
  // the store, and PMIx forgets the words of a rank that has ended: keep this object until the meeting is over.
  std::function<void(const Endpoint&)> publish;
  // Where set, the keeper calls it when the meeting is over, well or not: what was published goes, the token with it.
  std::function<void()> withdraw;
};

// The store that the launch calls for.
std::shared_ptr<Store> make_store(const Launch& launch, const Deadline& deadline);
using MakeStore = std::function<std::shared_ptr<Store>(const Launch&, const Deadline&)>;

// `meeting` counts the meetings of this process before this one, which is the same number on all ranks. Blocks until
// rank 0 has published, where it has to, or the deadline. Says on the log what was recognised.
Rendezvous arrange(const Launch& launch, const Environment& environment, unsigned meeting, const Deadline& deadline,
                   const Log& log, const MakeStore& store_of = make_store);

}  // namespace tutti::rendezvous
