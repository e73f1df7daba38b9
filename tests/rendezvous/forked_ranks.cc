#include "rendezvous/forked_ranks.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>

#include "rendezvous/sockets.h"

namespace tutti::rendezvous {
namespace {

// One number each way.
void exchange(const DataLink& link, int own, int expected) {
  const int socket = link.socket.get();
  require(::send(socket, &own, sizeof own, MSG_NOSIGNAL) == sizeof own, "send");
  int got = -1;
  if (link.first.size() == sizeof got) {
    std::memcpy(&got, link.first.data(), sizeof got);
  } else {
    pollfd entry{socket, POLLIN, 0};
    require(link.first.empty() && ::poll(&entry, 1, 20'000) == 1, "an answer comes");
    require(::recv(socket, &got, sizeof got, 0) == sizeof got, "recv");
  }
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

std::vector<std::vector<DataLink>> link_everywhere(Met& met, int channels) {
  std::vector<std::vector<DataLink>> links(static_cast<std::size_t>(met.size));
  if (!met.links) return links;
  std::vector<int> peers;
  for (int peer = 0; peer < met.size; ++peer) {
    if (std::find(met.memory_ranks.begin(), met.memory_ranks.end(), peer) == met.memory_ranks.end())
      peers.push_back(peer);
  }
  for (const int peer : peers) links[static_cast<std::size_t>(peer)].resize(static_cast<std::size_t>(channels));
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t missing = peers.size() * static_cast<std::size_t>(channels);
  std::string wrong;
  Links::Hooks hooks;
  hooks.linked = [&](Links::Made made) {
    const std::lock_guard lock(mutex);
    DataLink& link = links[static_cast<std::size_t>(made.rank)].at(made.channel);
    if (link.socket.valid()) wrong = "a link came twice";
    link = {std::move(made.socket), std::move(made.first)};
    --missing;
    changed.notify_one();
  };
  hooks.absent = [&](int peer, std::uint32_t) {
    const std::lock_guard lock(mutex);
    wrong = "no link with rank " + std::to_string(peer);
    changed.notify_one();
  };
  met.links->attach(std::move(hooks));
  for (const int peer : peers) {
    for (int channel = 0; channel < channels; ++channel) met.links->want(peer, static_cast<std::uint32_t>(channel));
  }
  {
    std::unique_lock lock(mutex);
    require(changed.wait_for(lock, std::chrono::seconds(20), [&] { return missing == 0 || !wrong.empty(); }),
            "all links stand");
    require(wrong.empty(), wrong);
  }
  met.links->attach({});
  return links;
}

void exchange_everywhere(Met& met, int channels) { exchange_everywhere(met, link_everywhere(met, channels)); }

void exchange_everywhere(Met& met, const std::vector<std::vector<DataLink>>& links) {
  for (int peer = 0; peer < met.size; ++peer) {
    const auto& sockets = links[static_cast<std::size_t>(peer)];
    for (std::size_t channel = 0; channel < sockets.size(); ++channel) {
      const int base = static_cast<int>(channel) * 1000;
      exchange(sockets[channel], base + met.rank, base + peer);
    }
  }
  const bool first = met.memory_ranks.front() == met.rank;
  for (std::size_t i = 0; i < met.memory_sockets.size(); ++i) {
    if (!met.memory_sockets[i].valid()) continue;
    const DataLink link{std::move(met.memory_sockets[i])};
    exchange(link, met.rank, first ? met.memory_ranks[i] : met.memory_ranks.front());
  }
}

}  // namespace tutti::rendezvous
