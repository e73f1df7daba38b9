#include "rendezvous/forked_ranks.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rendezvous/sockets.h"

namespace tutti::rendezvous {
namespace {

// One number each way; the links are empty until both ends have met.
void exchange(int socket, int own, int expected) {
  require(::send(socket, &own, sizeof own, MSG_NOSIGNAL) == sizeof own, "send");
  int got = -1;
  pollfd entry{socket, POLLIN, 0};
  require(::poll(&entry, 1, 20'000) == 1, "an answer comes");
  require(::recv(socket, &got, sizeof got, 0) == sizeof got, "recv");
  require(got == expected, "got " + std::to_string(got) + " instead of " + std::to_string(expected));
}

}  // namespace

Endpoint fresh_unix_endpoint() { return "unix:@tutti-test-" + Token::random().hex().substr(0, 24); }

Endpoint fresh_tcp_endpoint(const std::string& host) {
  return listen_at((host.find(':') == std::string::npos ? host : "[" + host + "]") + ":0").endpoint;
}

MeetingOptions options_for(int rank, int size, const Endpoint& lobby) {
  MeetingOptions options;
  options.rank = rank;
  options.size = size;
  options.job = "a test";
  options.lobby = lobby;
  options.keep_lobby = rank == 0;
  options.deadline = Deadline::after(std::chrono::seconds(30));
  if (!lobby.starts_with("unix:")) options.token = Token::from_hex(std::string(64, 'a'));
  return options;
}

std::vector<ChildEnd> meet_forked(int size, const Endpoint& lobby, const std::function<void(MeetingOptions&)>& change,
                                  const std::function<void(Met&)>& then) {
  ForkedGroup group(size, [&](int rank) {
    MeetingOptions options = options_for(rank, size, lobby);
    change(options);
    Met met = meet(options);
    then(met);
  });
  return group.wait();
}

void expect_all_ok(const std::vector<ChildEnd>& ends) {
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    EXPECT_EQ(ends[rank].exit_code, 0) << "rank " << rank << ", signal " << ends[rank].signal << ": "
                                       << ends[rank].message;
  }
}

void exchange_everywhere(Met& met) {
  for (int peer = 0; peer < met.size; ++peer) {
    const auto& sockets = met.data[static_cast<std::size_t>(peer)];
    for (std::size_t channel = 0; channel < sockets.size(); ++channel) {
      const int base = static_cast<int>(channel) * 1000;
      exchange(sockets[channel].get(), base + met.rank, base + peer);
    }
  }
  const bool first = met.memory_ranks.front() == met.rank;
  for (std::size_t i = 0; i < met.memory_sockets.size(); ++i) {
    if (!met.memory_sockets[i].valid()) continue;
    exchange(met.memory_sockets[i].get(), met.rank, first ? met.memory_ranks[i] : met.memory_ranks.front());
  }
}

}  // namespace tutti::rendezvous
