// Strangers at the doors of a real meeting: they cost little, disturb nobody, and are gone when it is over.
#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "rendezvous/forked_ranks.h"
#include "rendezvous/lobby_server.h"
#include "rendezvous/sockets.h"

namespace tutti::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A connection to a TCP endpoint, made without waiting for anything else; invalid where nobody listens there.
FileDescriptor stranger_to(const Endpoint& endpoint) {
  const SocketAddress address = resolve(endpoint, Deadline()).addresses.at(0);
  FileDescriptor socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(socket.get(), address.get(), address.length) != 0) socket.reset();
  return socket;
}

// Ranks join one by one while strangers talk, fall silent, or hang up with a reset.
TEST(Strangers, DoNotDisturbARealMeeting) {
  constexpr int kSize = 4;
  const std::optional<Token> token = options_for(0, kSize, "127.0.0.1:0").token;
  LobbyServer server("127.0.0.1:0", kSize, "a test", token, Deadline::after(seconds(30)), Log());
  std::vector<FileDescriptor> strangers;
  const auto disturb = [&] {
    for (int i = 0; i < 40; ++i) {
      strangers.push_back(stranger_to(server.endpoint()));
      ASSERT_TRUE(strangers.back().valid()) << std::strerror(errno);
      const std::string words(static_cast<std::size_t>(i) * 37 % 3000, static_cast<char>('A' + i));
      ::send(strangers.back().get(), words.data(), words.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      server.progress();
      if (i % 4 != 0) continue;
      const linger at_once{1, 0};
      ::setsockopt(strangers.back().get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
      strangers.pop_back();
    }
  };
  disturb();
  ForkedGroup group(kSize, [&](int rank) {
    MeetingOptions options = options_for(rank, kSize, server.endpoint());
    options.keep_lobby = false;
    options.wanted = TransportKind::tcp;
    Met met = meet(options);
    exchange_everywhere(met);
  });
  while (!server.done()) {
    disturb();
    pollfd entry{server.descriptor(), POLLIN, 0};
    ::poll(&entry, 1, 100);
    server.progress();
  }
  EXPECT_TRUE(server.went());
  expect_all_ok(group.wait());
}

// The TCP endpoints of loopback at which a process listens now.
std::set<Endpoint> doors_of(pid_t pid) {
  std::set<std::string> sockets;
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
  if (DIR* entries = ::opendir(folder.c_str())) {
    while (const dirent* entry = ::readdir(entries)) {
      char target[64] = {};
      if (::readlinkat(::dirfd(entries), entry->d_name, target, sizeof target - 1) > 0) sockets.insert(target);
    }
    ::closedir(entries);
  }
  std::set<Endpoint> doors;
  std::ifstream table("/proc/net/tcp");
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string number, local, remote, state, skipped, inode;
    fields >> number >> local >> remote >> state;
    for (int i = 0; i < 5; ++i) fields >> skipped;
    fields >> inode;
    if (state != "0A" || !sockets.contains("socket:[" + inode + "]")) continue;
    doors.insert("127.0.0.1:" + std::to_string(std::stoi(local.substr(local.find(':') + 1), nullptr, 16)));
  }
  return doors;
}

// A pipe on which one process waits until another says so.
struct Signal {
  Signal() {
    int pair[2];
    if (::pipe2(pair, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    reading = FileDescriptor(pair[0]);
    writing = FileDescriptor(pair[1]);
  }
  void await() const {
    char letter = 0;
    pollfd entry{reading.get(), POLLIN, 0};
    require(::poll(&entry, 1, 60'000) == 1 && ::read(reading.get(), &letter, 1) == 1, "a signal within 60 s");
  }
  void give(int times) const {
    for (int i = 0; i < times; ++i) require(::write(writing.get(), "x", 1) == 1, "write");
  }
  FileDescriptor reading, writing;
};

// Silent connections at every door of some processes, more of them as others are sent away.
class Crowd {
 public:
  Crowd(std::vector<pid_t> pids, std::size_t at_each) : pids_(std::move(pids)), at_each_(at_each) {}
  ~Crowd() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
  }

  // As many as asked for stand at `doors` doors at least.
  void gather(std::size_t doors) {
    const auto until = Deadline::after(seconds(60));
    while (!until.passed()) {
      come();
      if (silent_.size() >= doors) return;
      std::this_thread::yield();
    }
    throw std::runtime_error("the ranks do not listen");
  }
  void keep_coming() {
    thread_ = std::thread([this] {
      while (!over_) come();
    });
  }

 private:
  static bool gone(const FileDescriptor& socket) {
    char letter = 0;
    return ::recv(socket.get(), &letter, 1, MSG_DONTWAIT) >= 0 || errno != EAGAIN;
  }
  void come() {
    for (const pid_t pid : pids_) {
      for (const Endpoint& door : doors_of(pid)) {
        auto& here = silent_[door];
        std::erase_if(here, gone);
        while (here.size() < at_each_) {
          FileDescriptor next = stranger_to(door);
          if (!next.valid()) break;
          here.push_back(std::move(next));
        }
      }
    }
  }

  std::vector<pid_t> pids_;
  std::size_t at_each_;
  std::map<Endpoint, std::vector<FileDescriptor>> silent_;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

// More silent strangers than a rank has descriptors, at the lobby and at every rank, before and while all meet.
TEST(Strangers, SilentOnesTakeNoRanksPlace) {
  constexpr int kSize = 8;
  constexpr rlim_t kLimit = 200;
  const Signal last_may_come;
  const Endpoint lobby = fresh_tcp_endpoint("127.0.0.1");
  ForkedGroup group(kSize, [&](int rank) {
    const rlimit few{kLimit, kLimit};
    ::setrlimit(RLIMIT_NOFILE, &few);
    if (rank == kSize - 1) last_may_come.await();
    MeetingOptions options = options_for(rank, kSize, lobby);
    options.wanted = TransportKind::tcp;
    options.channels = 5;
    Met met = meet(options);
    exchange_everywhere(met, options.channels);
  });
  try_descriptors(4096, 0);
  std::vector<pid_t> pids;
  for (int rank = 0; rank < kSize; ++rank) pids.push_back(group.pid(rank));
  {
    Crowd crowd(pids, kLimit + 20);
    crowd.gather(kSize);  // the lobby, and all ranks but the last
    last_may_come.give(1);
    crowd.keep_coming();
    expect_all_ok(group.wait());
  }
}

TEST(Strangers, AreGoneWhenTheMeetingIsOver) {
  constexpr int kSize = 3;
  const Signal last_may_come, all_may_end;
  ForkedGroup group(kSize, [&](int rank) {
    if (rank == kSize - 1) last_may_come.await();
    MeetingOptions options = options_for(rank, kSize, "unix:@tutti-test-strangers-" + std::to_string(::getppid()));
    options.wanted = TransportKind::tcp;
    Met met = meet(options);
    all_may_end.await();
  });
  std::vector<FileDescriptor> strangers;
  for (int rank = 0; rank < kSize - 1; ++rank) {
    std::set<Endpoint> doors;
    for (const auto until = Deadline::after(seconds(60)); doors.empty() && !until.passed();) {
      doors = doors_of(group.pid(rank));
    }
    ASSERT_EQ(doors.size(), 1U);
    strangers.push_back(stranger_to(*doors.begin()));
    ASSERT_TRUE(strangers.back().valid());
  }
  last_may_come.give(1);
  for (const FileDescriptor& stranger : strangers) {
    pollfd entry{stranger.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&entry, 1, 20'000), 1) << "it is still connected";
  }
  all_may_end.give(kSize);
  expect_all_ok(group.wait());
}

// Whoever was refused may read why; what it goes on sending is not read for ever.
TEST(Strangers, CannotKeepALobbyReading) {
  constexpr std::size_t kMost = std::size_t{64} << 20;  // what the system keeps for both ends is far less
  const std::optional<Token> token = options_for(0, 2, "127.0.0.1:0").token;
  LobbyServer server("127.0.0.1:0", 2, "a test", token, Deadline::after(seconds(60)), Log());
  const FileDescriptor stranger = stranger_to(server.endpoint());
  ASSERT_TRUE(stranger.valid());
  const std::vector<char> noise(1 << 16, 'x');
  std::size_t sent = 0;
  const auto until = Deadline::after(seconds(60));
  while (sent < kMost && !until.passed()) {
    const ssize_t took = ::send(stranger.get(), noise.data(), noise.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (took < 0 && errno != EAGAIN) break;
    if (took > 0) sent += static_cast<std::size_t>(took);
    server.progress();
  }
  EXPECT_LT(sent, kMost);
  EXPECT_FALSE(until.passed());
}

}  // namespace
}  // namespace tutti::rendezvous
