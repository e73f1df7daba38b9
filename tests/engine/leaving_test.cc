// Communicators that go while their calls are under way: these go on, and the group is left with the last of them.
#include <gtest/gtest.h>

#include <numeric>

#include "check.h"

namespace tutti {
namespace {

using testing::error_of;
using testing::require;

class Leaving : public testing::OverAllRanks {};

// Rank 1 sends only when rank 0 has closed its end: who closed and waited in it would wait in vain.
TEST_P(Leaving, AReceiveUnderWayTakesWhatIsSentAfterwards) {
  for (const std::size_t count : {std::size_t{3}, std::size_t{500'000}}) {
    run(2, [&](Communicator& comm) {
      Communicator twin = comm.duplicate();
      std::vector<int> data(count, comm.rank());
      int token = 0;
      if (comm.rank() == 1) {
        comm.recv(one(token), 0);
        return twin.send(data, 0, 4);
      }
      Work work = twin.recv_async(data, 1, 4);
      twin.close();
      require(!twin.valid() && !work.test(), "closed, and under way");
      comm.send(one(token), 1);
      work.wait();
      require(data.front() == 1 && data.back() == 1 && work.received().tag == 4, "what was sent");
    });
  }
}

TEST_P(Leaving, CollectivesUnderWayEnd) {
  run(3, [](Communicator& comm) {
    std::vector<std::vector<float>> data(12, std::vector<float>(20'000, 1.0f));
    std::vector<Work> works;
    {
      Communicator twin = comm.duplicate();
      for (auto& vector : data) works.push_back(twin.all_reduce_async(vector));
    }
    wait_all(works);
    for (const auto& vector : data) require(vector.front() == 3.0f && vector.back() == 3.0f, "sum");
  });
}

TEST_P(Leaving, TheGroupIsLeftWithTheLastOfThem) {
  run(2, [](Communicator& comm) {
    Communicator twin = comm.duplicate();
    int first = 0, second = 0;
    if (comm.rank() == 1) {
      twin.send(one(first), 0, 1);
      twin.send(one(second), 0, 2);
      const Error error = error_of([&] { twin.recv(one(first), 0); });
      require(error.code() == ErrorCode::peer_lost && error.peer() == 0, error.what());
      require(std::string(error.what()).find("has left the group") != std::string::npos, error.what());
      return comm.send(one(first), 0);
    }
    Work works[] = {twin.recv_async(one(first), 1, 1), twin.recv_async(one(second), 1, 2)};
    twin.close();
    works[0].wait();
    while (!works[1].test()) continue;  // which is as good
    comm.recv(one(first), 1);           // rank 1 has seen it, while the Works are still there
  });
}

TEST_P(Leaving, AWorkThatIsDroppedLaterIsWaitedFor) {
  run(2, [](Communicator& comm) {
    std::vector<int> data(800'000);
    Communicator twin = comm.duplicate();
    if (comm.rank() == 0) {
      std::iota(data.begin(), data.end(), 3);
      const Work sent = twin.send_async(data, 1);
      twin.close();
    } else {
      twin.recv(data, 0);
      require(data.front() == 3 && data.back() == 800'002, "what was sent");
    }
  });
}

TEST_P(Leaving, CallsUnderWayHaveTheirDeadlinesAndFailures) {
  run(2, [](Communicator& comm) {
    Communicator twin = comm.duplicate();
    std::vector<int> data(4);
    if (comm.rank() == 0) {
      twin.set_timeout(std::chrono::milliseconds(200));
      Work never = twin.recv_async(data, 1);
      twin.close();
      require(error_of([&] { never.wait(std::chrono::milliseconds(1)); }).code() == ErrorCode::timeout, "not yet");
      const Error error = error_of([&] { never.wait(); });
      require(error.code() == ErrorCode::timeout && error.peer() == 1, error.what());
      require(error_of([&] { never.wait(); }).code() == ErrorCode::timeout, "and again");
    } else {
      const Error error = error_of([&] { twin.barrier(); });
      require(error.code() == ErrorCode::peer_failed && error.peer() == 0, error.what());
    }
    comm.barrier();
  });
}

// Where calls shall not go on.
TEST_P(Leaving, AnAbortEndsThemAtOnce) {
  run(2, [](Communicator& comm) {
    Communicator twin = comm.duplicate();
    std::vector<int> data(4);
    Work never = twin.recv_async(data, 1 - comm.rank());
    comm.barrier();  // who aborts before the other has begun refuses it the receive
    twin.abort();
    twin.close();
    const Error error = error_of([&] { never.wait(); });
    require(error.code() != ErrorCode::timeout, error.what());
    comm.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, Leaving, ::testing::ValuesIn(testing::kAllRanks),
                         [](const auto& test) { return testing::name_of(test.param); });

}  // namespace
}  // namespace tutti
