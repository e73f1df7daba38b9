// How soon all ranks know of a death: forks ranks that meet over TCP on this host, and kills one of them.
//
//   control_bench [RANKS [ROUNDS]]
//
// Prints, for each round, how long the meeting took, and after how long the first and the last survivor knew.
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "rendezvous/forked_group.h"
#include "rendezvous/meeting.h"
#include "rendezvous/overlay.h"

namespace {

using namespace tutti;
using namespace tutti::rendezvous;
using Clock = std::chrono::steady_clock;

constexpr int kMostRanks = 4096;

// Seen by all processes.
struct Shared {
  sem_t known, over;  // a survivor knows; all do, and may leave
  std::atomic<std::int64_t> began, met, killed;
  std::atomic<std::int64_t> knew[kMostRanks];
};

std::int64_t now() { return Clock::now().time_since_epoch().count(); }
double ms(std::int64_t from, std::int64_t to) { return static_cast<double>(to - from) / 1e6; }

// Waits for what the control plane brings.
class Waiting {
 public:
  explicit Waiting(Control& control) : control_(control) {
    Control::Hooks hooks;
    hooks.wake = [this] {
      const std::lock_guard lock(mutex_);
      ++wakes_;
      woken_.notify_all();
    };
    control_.attach(hooks);
  }
  ~Waiting() { control_.attach({}); }

  template <class Condition>
  void until(const Condition& condition) {
    for (;;) {
      std::unique_lock lock(mutex_);
      const int seen = wakes_;
      lock.unlock();
      if (condition()) return;
      lock.lock();
      woken_.wait(lock, [&] { return wakes_ != seen; });
    }
  }

 private:
  Control& control_;
  std::mutex mutex_;
  std::condition_variable woken_;
  int wakes_ = 0;
};

void run_rank(int rank, int size, int victim, const Endpoint& lobby, Shared& shared) {
  MeetingOptions options;
  options.rank = rank;
  options.size = size;
  options.job = "control_bench";
  options.lobby = lobby;
  options.keep_lobby = rank == 0;
  options.wanted = TransportKind::tcp;
  options.deadline = Deadline::after(std::chrono::minutes(5));
  const Met met = meet(options);
  Waiting waiting(*met.control);
  met.control->announce(0, {1, 0, 0});
  if (rank == victim) {
    for (int peer = 0; peer < size; ++peer) {
      if (peer != rank) waiting.until([&] { return met.control->announced(0, peer).sequence == 1; });
    }
    shared.met = now();
    shared.killed = now();
    ::kill(::getpid(), SIGKILL);
  }
  waiting.until([&] { return met.control->failure().has_value(); });
  if (met.control->failure()->rank == victim) shared.knew[rank] = now();
  // Whoever leaves takes time from those who do not know yet.
  ::sem_post(&shared.known);
  ::sem_wait(&shared.over);
}

bool run_round(int size, int round) {
  auto& shared =
      *static_cast<Shared*>(::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const int victim = 1 + round * 7 % (size - 1);
  const Endpoint lobby = "unix:@tutti-control-bench-" + std::to_string(::getpid()) + "-" + std::to_string(round);
  ::sem_init(&shared.known, 1, 0);
  ::sem_init(&shared.over, 1, 0);
  shared.began = now();
  ForkedGroup group(size, [&](int rank) { run_rank(rank, size, victim, lobby, shared); });
  for (int survivor = 1; survivor < size; ++survivor) ::sem_wait(&shared.known);
  for (int survivor = 1; survivor < size; ++survivor) ::sem_post(&shared.over);
  group.wait();
  std::int64_t first = INT64_MAX, last = 0;
  for (int rank = 0; rank < size; ++rank) {
    if (rank == victim) continue;
    first = std::min<std::int64_t>(first, shared.knew[rank]);
    last = std::max<std::int64_t>(last, shared.knew[rank]);
  }
  if (first == 0) {
    std::printf("%6d ranks: not every survivor named rank %d\n", size, victim);
  } else {
    std::printf(
        "%6d ranks, %zu neighbours each: met and heard all after %.0f ms; first knew after %.2f ms, last %.2f ms\n",
        size, neighbours_of(0, size).size(), ms(shared.began, shared.met), ms(shared.killed, first),
        ms(shared.killed, last));
  }
  ::munmap(&shared, sizeof(Shared));
  return first != 0;
}

}  // namespace

int main(int count, char** arguments) {
  const int size = count > 1 ? std::atoi(arguments[1]) : 32;
  const int rounds = count > 2 ? std::atoi(arguments[2]) : 3;
  if (size < 3 || size > kMostRanks || rounds < 1) {
    std::fprintf(stderr, "usage: control_bench [RANKS [ROUNDS]]\n");
    return 2;
  }
  bool good = true;
  for (int round = 0; round < rounds; ++round) good = run_round(size, round) && good;
  return good ? 0 : 1;
}
