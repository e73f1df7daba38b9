// What a communicator counts of its calls: all that the program makes, and nothing that the library does by itself.
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "check.h"

namespace tutti {
namespace {

using testing::require;

class CountersOf : public testing::OverAllRanks {};

void require_counted(const Communicator& comm, Verb verb, std::uint64_t calls, std::uint64_t bytes) {
  const VerbCounters counted = comm.counters()[verb];
  require(counted.calls == calls && counted.bytes == bytes,
          std::string(name_of(verb)) + ": " + std::to_string(counted.calls) + " calls and " +
              std::to_string(counted.bytes) + " bytes, not " + std::to_string(calls) + " and " + std::to_string(bytes));
}

std::uint64_t all_calls(const Communicator& comm) {
  const Counters counters = comm.counters();
  return std::accumulate(counters.verbs.begin(), counters.verbs.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const VerbCounters& verb) { return sum + verb.calls; });
}

TEST_P(CountersOf, EveryVerb) {
  run(3, [](Communicator& comm) {
    require(all_calls(comm) == 0, "the agreement on costs is nobody's call");
    std::vector<float> vector(100), all(300);
    comm.all_reduce(vector, vector);
    comm.all_reduce(vector, vector);
    require_counted(comm, Verb::all_reduce, 2, 800);
    comm.all_gather(vector, all);
    require_counted(comm, Verb::all_gather, 1, 1200);
    comm.reduce_scatter(all, vector);
    require_counted(comm, Verb::reduce_scatter, 1, 1200);
    comm.broadcast(vector, 1);
    require_counted(comm, Verb::broadcast, 1, 400);
    comm.barrier();
    require_counted(comm, Verb::barrier, 1, 0);
    require(all_calls(comm) == 6, "no call was counted for another verb");
  });
}

TEST_P(CountersOf, MessagesAtBothEnds) {
  run(2, [](Communicator& comm) {
    std::vector<int> numbers(50), more(50);
    if (comm.rank() == 0) {
      comm.send(numbers, 1);
    } else {
      comm.recv(numbers, 0);
    }
    require_counted(comm, Verb::send_recv, 1, 200);
    const int other = 1 - comm.rank();
    comm.send_recv(numbers, other, more, other);
    require_counted(comm, Verb::send_recv, 3, 600);
  });
}

TEST_P(CountersOf, AsyncCallsWhenTheyAreSubmitted) {
  run(2, [](Communicator& comm) {
    std::vector<double> vector(10);
    if (comm.rank() == 1) comm.recv(vector, 0);  // so late that rank 0 has counted
    Work work = comm.all_reduce_async(vector, vector);
    require_counted(comm, Verb::all_reduce, 1, 80);
    std::vector<double> sent(10);
    if (comm.rank() == 0) comm.send(sent, 1);
    work.wait();
    require_counted(comm, Verb::all_reduce, 1, 80);
  });
}

TEST_P(CountersOf, NothingThatMakesGroupsOrMemory) {
  run(4, [](Communicator& comm) {
    Communicator half = comm.split(comm.rank() % 2, 0);
    const auto memory = comm.allocate<float>(10);
    require(all_calls(comm) == 0 && all_calls(half) == 0, "of the library's own calls");
    half.barrier();
    require_counted(half, Verb::barrier, 1, 0);
    require_counted(comm, Verb::barrier, 0, 0);
    comm.barrier();
  });
}

// What was waited is part of the time that the call took, and shows where a peer comes late.
TEST_P(CountersOf, TheTimeThatCallsWereHeldUp) {
  run(2, [](Communicator& comm) {
    using Clock = std::chrono::steady_clock;
    std::chrono::nanoseconds most{0};
    int shows = 0;
    // A call may be kept from its core until its peer has come, and then has not waited: once it will have.
    while (shows == 0) {
      if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      const auto begin = Clock::now();
      comm.barrier();
      most += Clock::now() - begin;
      const std::chrono::nanoseconds waited = comm.counters()[Verb::barrier].waited;
      require(waited <= most, "more than the calls took");
      shows = comm.rank() == 0 && waited.count() > 0 ? 1 : 0;
      comm.broadcast(one(shows), 0);
    }
    require(comm.counters()[Verb::scan].waited.count() == 0, "nobody has called it");
  });
}

// Blocking calls are waited for as long as they take, async ones as long as somebody waits.
TEST_P(CountersOf, HowLongCallsAreUnderWayOnceTheyAreTimed) {
  run(2, [](Communicator& comm) {
    std::vector<float> vector(1000), other(1000);
    comm.all_reduce(vector);
    require(comm.counters()[Verb::all_reduce].under_way.count() == 0 && comm.counters().busy.count() == 0, "not asked");
    comm.time_calls();
    const VerbCounters before = comm.counters()[Verb::all_reduce];
    const auto begin = std::chrono::steady_clock::now();
    comm.all_reduce(vector);
    Counters counted = comm.counters();
    require(counted[Verb::all_reduce].under_way.count() > 0, "a blocking call");
    require(counted[Verb::all_reduce].waited - before.waited >= counted[Verb::all_reduce].under_way, "is waited for");
    require(counted.busy == counted[Verb::all_reduce].under_way, "one call is busy as long as it is under way");

    Work first = comm.all_reduce_async(vector), second = comm.all_reduce_async(other);
    first.wait();
    second.wait();
    comm.send_recv(vector, 1 - comm.rank(), other, 1 - comm.rank());
    counted = comm.counters();
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin;
    const auto sum = counted[Verb::all_reduce].under_way + counted[Verb::send_recv].under_way;
    require(counted[Verb::send_recv].under_way.count() > 0, "an exchange");
    require(counted.busy.count() > 0 && counted.busy <= took && counted.busy <= sum, "several at once are busy once");
    require(counted[Verb::all_reduce].waited + counted[Verb::send_recv].waited - before.waited <= took, "waited");

    Communicator child = comm.duplicate();  // by calls of the library's own
    require(comm.counters()[Verb::all_gather].under_way.count() == 0, "which are not timed");
    require(child.counters().busy.count() == 0, "a child is asked for itself");
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, CountersOf, ::testing::ValuesIn(testing::kAllRanks),
                         [](const auto& ranks) { return std::string(testing::name_of(ranks.param)); });

}  // namespace
}  // namespace tutti
