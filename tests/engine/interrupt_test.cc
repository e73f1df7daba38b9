// A program that wants to stop is asked by calls that wait, and only by those.
#include "tutti/interrupt.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "check.h"
#include "tutti/local.h"

namespace tutti {
namespace {

// Says true from the third time on that it is asked.
struct Impatient {
  int asked = 0;
  static bool ask(void* context) { return ++static_cast<Impatient*>(context)->asked >= 3; }
};

using testing::error_of;
using testing::expect_all_ok;

TEST(Interrupt, EndsABlockingCallAndTellsTheOthers) {
  expect_all_ok(run_threads(2, [](Communicator& comm) {
    std::array<int, 4> x{};
    if (comm.rank() == 0) {
      Impatient impatient;
      const InterruptCheck check(Impatient::ask, &impatient);
      const Error error = error_of([&] { comm.all_reduce(x); });
      if (error.code() != ErrorCode::aborted) throw error;
      EXPECT_NE(std::string(error.what()).find("interrupted by the program"), std::string::npos) << error.what();
      EXPECT_EQ(error_of([&] { comm.barrier(); }).code(), ErrorCode::aborted);
    } else {
      EXPECT_EQ(error_of([&] { comm.recv(x, 0); }).code(), ErrorCode::peer_failed);
    }
  }));
}

TEST(Interrupt, LeavesAnAsyncCallUnderWay) {
  expect_all_ok(run_threads(2, [](Communicator& comm) {
    std::array<int, 4> x{};
    if (comm.rank() == 0) {
      Work work = comm.recv_async(x, 1);
      {
        Impatient impatient;
        const InterruptCheck check(Impatient::ask, &impatient);
        EXPECT_EQ(error_of([&] { work.wait(); }).code(), ErrorCode::aborted);
      }
      comm.send(x, 1, 5);
      work.wait();
      EXPECT_EQ(x[0], 7);
    } else {
      comm.recv(x, 0, 5);
      x[0] = 7;
      comm.send(x, 0);
    }
  }));
}

// The blocking call has to follow the first async one, which rank 1 has yet to make.
TEST(Interrupt, LeavesABlockingCallUnmadeThatWaitsForItsTurn) {
  expect_all_ok(run_threads(2, [](Communicator& comm) {
    std::array<std::array<int, 1>, 4> started{};
    std::array<int, 1> token{}, x{};
    std::vector<Work> works;
    const auto start = [&] {
      for (auto& one : started) works.push_back(comm.all_reduce_async(one));
    };
    if (comm.rank() == 0) {
      start();
      {
        Impatient impatient;
        const InterruptCheck check(Impatient::ask, &impatient);
        EXPECT_EQ(error_of([&] { comm.all_reduce(x); }).code(), ErrorCode::aborted);
      }
      comm.send(token, 1);
    } else {
      comm.recv(token, 0);
      start();
    }
    for (int round = 1; round <= 8; ++round) {
      x[0] = round;
      comm.all_reduce(x);
      EXPECT_EQ(x[0], 2 * round);
    }
    wait_all(works);
  }));
}

TEST(Interrupt, IsNotAskedByCallsThatNeedNotWait) {
  expect_all_ok(run_threads(1, [](Communicator& comm) {
    Impatient impatient;
    const InterruptCheck check(Impatient::ask, &impatient);
    std::array<int, 4> x{};
    for (int i = 0; i < 100; ++i) comm.all_reduce(x);
    EXPECT_EQ(impatient.asked, 0);
  }));
}

TEST(Interrupt, CountsForItsOwnTimeOnly) {
  expect_all_ok(run_threads(2, [](Communicator& comm) {
    std::array<int, 1> x{};
    if (comm.rank() == 0) {
      Impatient outer, inner;
      const InterruptCheck check(Impatient::ask, &outer);
      { const InterruptCheck another(Impatient::ask, &inner); }
      EXPECT_EQ(error_of([&] { comm.recv(x, 1, 9); }).code(), ErrorCode::aborted);
      EXPECT_EQ(outer.asked, 3);
      EXPECT_EQ(inner.asked, 0);
    } else {  // asked by nobody: only rank 0 may be the first to give up
      EXPECT_EQ(error_of([&] { comm.recv(x, 0, 9); }).code(), ErrorCode::peer_failed);
    }
  }));
}

}  // namespace
}  // namespace tutti
