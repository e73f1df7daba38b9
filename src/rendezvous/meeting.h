// The meeting: how the ranks of a job find each other, agree on who they are, and end up linked.
//
//   every rank  -- join -->  lobby  -- roster -->  every rank
//   every rank  -- control and memory links, one handshake each -->  its peers
//   every rank  -- ready --> lobby  -- go -->  every rank
//
// The lobby is a listening place that the launcher or rank 0 keeps; whoever dies between join and go is named by it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/control.h"
#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/links.h"
#include "base/log.h"
#include "rendezvous/network.h"
#include "rendezvous/roster.h"
#include "rendezvous/token.h"

namespace tutti::rendezvous {

struct MeetingOptions {
  int rank = 0;
  int size = 1;
  std::string job;          // ranks of different jobs never meet
  Endpoint lobby;           // where the lobby is
  bool keep_lobby = false;  // this rank keeps it (on the endpoint above)
  // Where set: a place whose name other users cannot guess, for when one of them holds that of the lobby. `make`: also
  // where there is none yet. Empty where there can be none.
  std::function<Endpoint(bool make)> refuge;
  // Where set, the keeper calls it once with the endpoint it really listens at, because others wait to be told.
  std::function<void(const Endpoint&)> publish;
  // Needed where the lobby is reached over TCP. On one host, over a UNIX socket, the kernel vouches for the user, and
  // the lobby hands out a token for whatever TCP connections follow.
  std::optional<Token> token;
  TransportKind wanted = TransportKind::automatic;
  // What else all ranks must have alike, each as NAME=value; the same names in the same order everywhere.
  std::vector<std::string> settings;
  int channels = 1;       // data links per pair of ranks that do not share memory
  std::string hostid;     // see on_part_of_host(); empty = none
  std::string interface;  // address or interface name for TCP; empty = the one that routes to the lobby
  // A rank of which nothing is heard for so long, where there are control links, is suspected in the log, and lost;
  // 0 = never. All ranks alike, which is for the settings to say.
  std::chrono::milliseconds suspicion{1000};
  std::chrono::milliseconds silence{10'000};
  Deadline deadline;
  Log log;
};

struct Met {
  int rank = 0;
  int size = 1;
  std::vector<Member> members;    // by rank
  std::vector<int> memory_ranks;  // the ranks this one shares memory with, itself included, ascending; or itself alone
  // In the order of memory_ranks: UNIX sockets for handing over memory (the first rank has one to each other, the
  // others have one, at index 0), and descriptors (pidfds) that become readable when that rank's process ends.
  std::vector<FileDescriptor> memory_sockets;
  std::vector<FileDescriptor> life;
  // Runs on a thread of its own; nullptr where all ranks share memory.
  std::unique_ptr<Control> control;
  // Parts of the same, which goes on as long as any of them is kept: where data links come from, and groups of these
  // ranks that need not meet.
  std::shared_ptr<Links> links;
  std::shared_ptr<ControlPlane> plane;
  std::chrono::milliseconds silence{0};  // as MeetingOptions has it
};

// Throws Error: what is wrong, which rank, and what to do about it.
Met meet(const MeetingOptions& options);

}  // namespace tutti::rendezvous
