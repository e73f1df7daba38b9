// kill -9 of a random rank at random points: no survivor hangs beyond its deadline, and nothing is left behind.
#include <dirent.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <set>
#include <thread>

#include "engine/factory.h"
#include "rendezvous/forked_group.h"
#include "tutti/communicator.h"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kRanks = 4;
constexpr int kKills = 200;
constexpr std::chrono::milliseconds kTimeout{10'000};

// Calls of every kind, until something fails.
void work_until_failure(rendezvous::GroupLinks links) {
  Options options;
  options.timeout = kTimeout;
  const FileDescriptor own_life = std::move(links.own_life);
  transport::ShmLinks shm{links.rank, links.size, std::move(links.sockets), std::move(links.life), {}};
  Communicator comm(engine::make_engine(engine::make_shm_member(std::move(shm)), options));
  const Symmetric<float> symmetric = comm.allocate<float>(60'000);
  std::vector<float> large(200'000, 1.0f), small(4, 1.0f);
  for (;;) {
    comm.all_reduce(std::span(small));
    Work first = comm.all_reduce_async(large.data(), large.data(), large.size(), DType::float32);
    comm.broadcast(std::span(small), 1);
    comm.all_reduce(symmetric.span());
    Work sent = comm.send_async(small.data(), 4, DType::float32, (comm.rank() + 1) % kRanks);
    comm.recv(small.data(), 4, DType::float32, (comm.rank() + kRanks - 1) % kRanks);
    first.wait();
  }
}

std::set<std::string> entries_of(const char* folder) {
  std::set<std::string> entries;
  if (DIR* opened = ::opendir(folder)) {
    while (const dirent* entry = ::readdir(opened)) entries.insert(entry->d_name);
    ::closedir(opened);
  }
  return entries;
}

TEST(Kill, SurvivorsEndBeforeTheirDeadlineAndNothingIsLeft) {
  std::mt19937 random(7);
  const auto shared_before = entries_of("/dev/shm");
  const auto open_before = entries_of("/proc/self/fd").size();
  int named = 0, survivors = 0;
  std::chrono::nanoseconds longest{0};
  for (int kill = 0; kill < kKills; ++kill) {
    const int victim = static_cast<int>(random() % kRanks);
    rendezvous::ForkedGroup group(kRanks, work_until_failure);
    // One kill in four falls into the meeting, the others into the work.
    std::this_thread::sleep_for(std::chrono::microseconds(random() % (kill % 4 == 0 ? 2000 : 40'000)));
    ASSERT_EQ(::kill(group.pid(victim), SIGKILL), 0);
    const auto killed_at = Clock::now();
    const auto ends = group.wait();
    longest = std::max<std::chrono::nanoseconds>(longest, Clock::now() - killed_at);
    for (int rank = 0; rank < kRanks; ++rank) {
      const rendezvous::ChildEnd& end = ends[static_cast<std::size_t>(rank)];
      if (rank == victim) {
        EXPECT_EQ(end.signal, SIGKILL);
        continue;
      }
      EXPECT_EQ(end.exit_code, 1) << "kill " << kill << ": rank " << rank << " ended with signal " << end.signal;
      EXPECT_NE(end.message, "") << "kill " << kill << ": rank " << rank << " gave no reason";
      ++survivors;
      const bool names_victim = end.message.find("rank " + std::to_string(victim)) != std::string::npos;
      if (names_victim) ++named;
      // In the meeting a rank may only see that another survivor went before it.
      const bool meeting = end.message.find("shared memory") != std::string::npos ||
                           end.message.find("before the group was made") != std::string::npos;
      EXPECT_TRUE(names_victim || meeting) << "kill of rank " << victim << ", rank " << rank << ": " << end.message;
    }
    ASSERT_LT(longest, kTimeout) << "kill " << kill << " of rank " << victim << " was waited out, not noticed";
  }
  EXPECT_EQ(entries_of("/dev/shm"), shared_before);
  EXPECT_EQ(entries_of("/proc/self/fd").size(), open_before);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
  std::printf("%d kills: slowest group ended after %.1f ms; %d of %d survivors named the dead rank\n", kKills,
              std::chrono::duration<double, std::milli>(longest).count(), named, survivors);
}

}  // namespace
}  // namespace tutti
