#include "topology/discover/probe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "base/file_descriptor.h"
#include "base/mix.h"
#include "base/pause.h"
#include "topology/discover/cores.h"

namespace tutti::topology {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kEach{3};       // for every speed
constexpr std::chrono::milliseconds kPatience{12};  // with another thread, which may have to wait for a core
constexpr std::size_t kNear = 32 << 10, kFar = 4 << 20, kSent = 64 << 10;
constexpr int kTrips = 16;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The least that `act` takes, over as many tries as there is time for: what else runs never makes it quicker. 0 where
// it never succeeds.
template <class Act>
double least(const Act& act) {
  double best = 0;
  for (const auto begin = Clock::now(); Clock::now() - begin < kEach;) {
    const auto start = Clock::now();
    if (!act()) break;
    const double took = seconds_since(start);
    if (best == 0 || took < best) best = took;
  }
  return best;
}

bool move_to(const cpu_set_t& core) { return ::pthread_setaffinity_np(::pthread_self(), sizeof core, &core) == 0; }

double work() {
  constexpr int kSteps = 4096;
  std::atomic<std::uint64_t> seen{0};
  return least([&] {
           std::uint64_t value = seen.load(std::memory_order_relaxed);
           for (int i = 0; i < kSteps; ++i) value = mix(value, 1);
           seen.store(value, std::memory_order_relaxed);
           return true;
         }) /
         kSteps;
}

double copy_of(std::size_t bytes) {
  const std::vector<char> from(bytes, 1);
  std::vector<char> to(bytes, 2);
  std::atomic<char> seen{0};
  return least([&] {
           std::memcpy(to.data(), from.data(), bytes);
           seen.store(to[bytes / 2], std::memory_order_relaxed);
           return true;
         }) /
         static_cast<double>(bytes);
}

// A process reads itself as it would read another.
double readv_of(std::size_t bytes) {
  std::vector<char> from(bytes, 1), to(bytes, 2);
  const iovec here{to.data(), bytes}, there{from.data(), bytes};
  const pid_t self = ::getpid();
  return least([&] { return ::process_vm_readv(self, &here, 1, &there, 1, 0) == static_cast<ssize_t>(bytes); });
}

// Both ends of a connection of this host to itself.
struct Loopback {
  Loopback() {
    const FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    FileDescriptor dialled(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    if (::bind(listener.get(), raw, length) != 0 || ::listen(listener.get(), 1) != 0 ||
        ::getsockname(listener.get(), raw, &length) != 0 || ::connect(dialled.get(), raw, length) != 0 ||
        ::setsockopt(dialled.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
      return;
    // Whoever else may have come first is not what was dialled.
    FileDescriptor taken(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    sockaddr_in peer{}, own{};
    socklen_t peers = sizeof peer, owns = sizeof own;
    if (::getpeername(taken.get(), reinterpret_cast<sockaddr*>(&peer), &peers) != 0 ||
        ::getsockname(dialled.get(), reinterpret_cast<sockaddr*>(&own), &owns) != 0 || peer.sin_port != own.sin_port)
      return;
    to = std::move(dialled);
    from = std::move(taken);
  }
  FileDescriptor to, from;
};

double send_of(const Loopback& loopback, std::size_t bytes) {
  std::vector<char> data(bytes, 1);
  return least([&] {
    if (::send(loopback.to.get(), data.data(), bytes, MSG_DONTWAIT | MSG_NOSIGNAL) != static_cast<ssize_t>(bytes))
      return false;
    const timeval patience{0, 5000};
    ::setsockopt(loopback.from.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return ::recv(loopback.from.get(), data.data(), bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
  });
}

// Two threads that take turns: `whose` says whose it is.
class Pair {
 public:
  // Lets `theirs` run on another thread and core whenever it is its turn.
  template <class Wait, class Theirs>
  Pair(const cpu_set_t& core, Wait wait, Theirs theirs)
      : other_([this, core, wait, theirs] {
          if (!move_to(core)) over_.store(true);
          while (!over_.load(std::memory_order_relaxed)) {
            if (whose_.load(std::memory_order_acquire) != 1) {
              wait();
              continue;
            }
            theirs();
            whose_.store(0, std::memory_order_release);
          }
        }) {}
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  ~Pair() {
    over_.store(true);
    other_.join();
  }

  // Hands over and waits for one's turn again. False where patience has ended.
  template <class Wait>
  bool hand_over(Wait wait) {
    whose_.store(1, std::memory_order_release);
    for (int i = 1; whose_.load(std::memory_order_acquire) != 0; ++i) {
      if (over_.load(std::memory_order_relaxed) || (i % 1024 == 0 && Clock::now() > end_)) return false;
      wait();
    }
    return true;
  }

 private:
  Clock::time_point end_ = Clock::now() + kPatience;
  alignas(128) std::atomic<int> whose_{0};
  alignas(128) std::atomic<bool> over_{false};
  std::thread other_;
};

constexpr auto kSpin = [] { pause_core(); };
constexpr auto kYield = [] { ::sched_yield(); };

// From one thread to the other, waiting as `wait` does.
template <class Wait>
double trip_to(const cpu_set_t& core, Wait wait) {
  Pair pair(core, wait, [] {});
  if (!pair.hand_over(kYield)) return 0;  // it begins on this core
  return least([&] {
           for (int i = 0; i < kTrips; ++i) {
             if (!pair.hand_over(wait)) return false;
           }
           return true;
         }) /
         (2 * kTrips);
}

double fetch_from(const cpu_set_t& core) {
  std::vector<char> from(kNear, 1), to(kNear, 2);
  char written = 0;
  Pair pair(core, kSpin, [&] { std::memset(from.data(), ++written, kNear); });
  if (!pair.hand_over(kYield)) return 0;
  double best = 0;
  for (const auto begin = Clock::now(); Clock::now() - begin < kEach && pair.hand_over(kSpin);) {
    const auto start = Clock::now();
    std::memcpy(to.data(), from.data(), kNear);
    const double took = seconds_since(start);
    if (best == 0 || took < best) best = took;
  }
  return best / static_cast<double>(kNear);
}

double per_byte(double whole, double first, std::size_t bytes) {
  return whole > first && first > 0 ? (whole - first) / static_cast<double>(bytes - 1) : 0;
}

void measure(Speeds& speeds) {
  // Wherever the machine lets us: a rank that is bound to a core would know nothing of the others.
  cpu_set_t all;
  std::memset(&all, 0xff, sizeof all);
  move_to(all);
  const std::vector<cpu_set_t> cores = allowed_cores();
  if (cores.empty() || !move_to(cores[0])) return;
  speeds.work = work();
  speeds.copy = copy_of(kNear);
  speeds.far_copy = copy_of(kFar);
  speeds.call = readv_of(1);
  speeds.reach = per_byte(readv_of(kSent), speeds.call, kSent);
  if (const Loopback loopback; loopback.to.valid()) {
    speeds.send = send_of(loopback, 1);
    speeds.stream = per_byte(send_of(loopback, kSent), speeds.send, kSent);
  }
  speeds.turn = trip_to(cores[0], kYield);
  if (cores.size() < 2) return;
  speeds.line = trip_to(cores[1], kSpin);
  speeds.fetch = fetch_from(cores[1]);
}

}  // namespace

Speeds measure_speeds() {
  Speeds speeds;
  try {
    std::thread([&] {
      try {
        measure(speeds);
      } catch (const std::exception&) {  // no memory, no thread, no processors to see: the rest is not known
      }
    }).join();
  } catch (const std::system_error&) {
  }
  return speeds;
}

}  // namespace tutti::topology
