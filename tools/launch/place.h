// Where a job meets: the address that was given, looked at before any rank starts, the lobby there, and a free port.
#pragma once

#include <memory>
#include <string>

#include "rendezvous/lobby_server.h"
#include "tools/launch/job.h"

namespace tutti::tools {

struct MeetingPlace {
  std::string host;
  int port = 0;
};

// Takes host:port apart and makes sure that the host has an address that a job of `hosts` hosts can use. Throws Error
// with the remedy.
MeetingPlace meeting_place(const std::string& text, int hosts);

// Opens the lobby of the job; null on the hosts that do not keep it. It waits for as long as the job runs: how long a
// rank waits for the others is for the rank to say. Throws Error with the remedy.
std::unique_ptr<rendezvous::LobbyServer> open_lobby(const Job& job);

// A TCP port of the loopback interface that nobody uses at this moment.
int free_port();

}  // namespace tutti::tools
