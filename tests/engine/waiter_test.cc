// Waiting: how soon a rank that finds nothing to do looks for a dead peer.
#include "engine/execute/waiter.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "check.h"
#include "engine/execute/track.h"
#include "engine/factory.h"
#include "engine/request.h"
#include "transport/memory/memory_transport.h"

namespace tutti::engine {
namespace {

// Beside busy programs every yield takes a time slice; here every look after the spin does.
TEST(Waiter, DoesNotYieldForLong) {
  transport::MemoryTransport transport(std::move(make_threads_group(1).front()), 1,
                                       Deadline::after(std::chrono::seconds(5)));
  constexpr int kQuick = 1100;  // more than the spin, fewer than spin and yields
  int looks = 0;
  const auto look = [&] {
    if (++looks > kQuick) std::this_thread::sleep_for(std::chrono::milliseconds(3));
    return Advance::stuck;
  };
  EXPECT_EQ(Waiter(transport).until_finished(look, [] { return true; }), Waiter::Outcome::hopeless);
  EXPECT_LT(looks, kQuick + 10);
}

// How often threads of this process other than the first have gone to sleep.
long sleeps_of_other_threads() {
  long sleeps = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(::getpid())) continue;
    std::ifstream status(task.path() / "status");
    const std::string name = "voluntary_ctxt_switches:";
    for (std::string line; std::getline(status, line);) {
      if (line.compare(0, name.size(), name) == 0) sleeps += std::stol(line.substr(name.size()));
    }
  }
  return sleeps;
}

// Who waits at once makes the call by itself: the thread for async calls sleeps on, and takes no core from anybody.
// Calls that nobody waits for are made by it all the same.
TEST(ProgressThread, IsWokenOnlyForCallsThatNobodyWaitsFor) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "under a sanitizer a call takes longer to be waited for than the thread is given";
#endif
  Options options;
  options.transport = TransportKind::shm;
  testing::expect_all_ok(run_processes(
      2,
      [](Communicator& comm) {
        constexpr int kRounds = 300;
        std::vector<float> data(20'000);
        comm.all_reduce_async(data).wait();  // from here on there is a thread
        comm.barrier();
        const long before = sleeps_of_other_threads();
        for (int round = 0; round < kRounds; ++round) comm.all_reduce_async(data).wait();
        const long slept = sleeps_of_other_threads() - before;
        testing::require(slept < kRounds / 3, "woken " + std::to_string(slept) + " times");
        Work work = comm.all_reduce_async(data);
        while (!work.ended()) std::this_thread::yield();  // does not take it further
        work.wait();
      },
      options));
}

// A peer may publish what this rank waits for, and then fail, between a look and the question whether it failed.
TEST(Waiter, TakesWhatCameBeforeTheFailure) {
  transport::MemoryTransport transport(std::move(make_threads_group(1).front()), 1,
                                       Deadline::after(std::chrono::seconds(5)));
  bool failed = false;
  const auto look = [&] { return failed ? Advance::finished : Advance::stuck; };
  const auto hopeless = [&] { return failed = true; };
  EXPECT_EQ(Waiter(transport).until_finished(look, hopeless), Waiter::Outcome::finished);
}

// Ranks whose buffers lie on a device may sleep until all have shown a card of the call: one that has none to show
// rings their bells, once there have been cards at all.
TEST(Track, RingsForThoseWhoMayWaitForItsCard) {
  auto attachments = make_threads_group(2);
  std::array<std::unique_ptr<transport::MemoryTransport>, 2> ranks;
  std::vector<std::thread> meeting;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    meeting.emplace_back([&, rank] {
      ranks[rank] = std::make_unique<transport::MemoryTransport>(std::move(attachments[rank]), 1,
                                                                 Deadline::after(std::chrono::seconds(20)));
    });
  }
  for (std::thread& thread : meeting) thread.join();
  Plans plans(*ranks[1], 1, false);
  const choice::Chooser chooser(2, ranks[1]->offers(), {}, true);
  const PartThreads threads = make_part_threads();
  Track track(*ranks[1], plans, chooser, 0, false, threads);
  std::array<int, 4> values{};
  UnevenChunks chunks;
  for (const std::uint64_t devices : {0, 1}) {
    ranks[0]->device_card(0, 0)->devices = devices;
    track.draft() = call_of({.verb = Verb::broadcast,
                             .input = values.data(),
                             .output = values.data(),
                             .input_count = values.size(),
                             .output_count = values.size(),
                             .element = DType::int32},
                            GroupView{.rank = 1, .size = 2}, chunks);
    track.draft().sequence = devices;
    track.draft().row = schedule::find_algorithm(Verb::broadcast, "binomial");
    const std::uint32_t ticket = ranks[0]->prepare_sleep();
    track.start();
    const bool rung = ranks[0]->prepare_sleep() != ticket;
    EXPECT_EQ(rung, devices != 0);
    ranks[0]->sleep(ticket, std::chrono::nanoseconds(0));
  }
}

}  // namespace
}  // namespace tutti::engine
