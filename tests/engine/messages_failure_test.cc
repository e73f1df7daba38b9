// What goes wrong with messages: ends that differ, sources that die or leave, receives that nobody serves.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "check.h"

namespace tutti {
namespace {

using testing::error_of;
using testing::Ranks;
using testing::require;

void require_words(const Error& error, std::initializer_list<const char*> all) {
  for (const char* words : all) {
    require(std::string(error.what()).find(words) != std::string::npos,
            "'" + std::string(words) + "' is missing: " + error.what());
  }
}

class MessageFailures : public ::testing::TestWithParam<Ranks> {
 protected:
  void run(int ranks, const RankFunction& body, int timeout_ms = 20'000) {
    Options options;
    options.timeout = std::chrono::milliseconds(timeout_ms);
    const auto started = std::chrono::steady_clock::now();
    testing::expect_all_ok(testing::run_ranks(GetParam(), ranks, body, options));
    EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(15)) << "waited out";
  }
};

// The send may have ended when its receiver finds the difference; the next call tells the sender then.
void differ(Communicator& comm, const std::function<void()>& send, const std::function<void()>& receive) {
  if (comm.rank() == 0) {
    send();
    float token = 0;
    comm.recv(one(token), 1, 99);
  } else {
    receive();
  }
}

TEST_P(MessageFailures, ADifferentCountIsToldByBothEnds) {
  for (const std::size_t count : {std::size_t{2}, std::size_t{8}, std::size_t{500'000}}) {
    run(2, [&](Communicator& comm) {
      std::vector<float> data(count, static_cast<float>(comm.rank()));
      const std::vector<float> before = data;
      float agreed = 0;
      if (comm.rank() == 0) comm.send(one(agreed), 1, 5);
      if (comm.rank() == 1) comm.recv(one(agreed), 0, 5);
      const Error error = error_of([&] {
        differ(
            comm, [&] { comm.send(data, 1, 5); }, [&] { comm.recv(std::span(data).first(1), kAnySource, kAnyTag); });
      });
      require(error.code() == ErrorCode::mismatch && error.peer() == 1 - comm.rank(), error.what());
      const std::string theirs = "rank 0 called send_recv #1 of " + std::to_string(count) + " float32";
      require_words(error, {theirs.c_str(), "rank 1 called send_recv #1 of 1 float32", "tag 5"});
      if (comm.rank() == 1) require_words(error, {"is as it was"});
      require(data == before, "the output");
      require(error_of([&] { comm.barrier(); }).code() == ErrorCode::aborted, "later calls");
    });
  }
}

TEST_P(MessageFailures, ADifferentTypeIsToldByBothEnds) {
  run(2, [](Communicator& comm) {
    std::vector<float> floats(6, 1.0f);
    std::vector<int> integers(6, 2);
    const Error error = error_of([&] {
      differ(
          comm, [&] { comm.send(floats, 1, 3); }, [&] { comm.recv(integers, 0, 3); });
    });
    require(error.code() == ErrorCode::mismatch, error.what());
    require_words(error, {"of 6 float32 from rank 0 to rank 1, tag 3", "of 6 int32 from rank 0 to rank 1, tag 3"});
    require(integers[0] == 2, "the output");
  });
}

// The sender has sent other things since, and the receiver met the one that differs among the unexpected.
TEST_P(MessageFailures, ADifferenceInAnEarlierMessageIsToldByBothEnds) {
  run(3, [](Communicator& comm) {
    std::vector<float> data(12, 1.0f);
    float token = 0;
    const Error error = error_of([&] {
      if (comm.rank() == 0) {
        comm.send(std::span(data).first(3), 1, 1);
        comm.send(std::span(data).first(4), 2, 1);
        comm.send(std::span(data).first(2), 1, 2);
        comm.recv(one(token), 2, 99);
      } else if (comm.rank() == 1) {
        comm.recv(std::span(data).first(2), 0, 2);
        comm.recv(std::span(data).first(1), 0, 1);
      } else {
        comm.recv(std::span(data).first(4), 0, 1);
        comm.recv(one(token), 1, 99);
      }
    });
    require(error.code() == ErrorCode::mismatch, error.what());
    require_words(error, {"rank 0 called send_recv #0 of 3 float32", "rank 1 called send_recv #0 of 1 float32"});
  });
}

TEST_P(MessageFailures, ADifferenceWithOneselfIsToldAtOnce) {
  run(1, [](Communicator& comm) {
    std::vector<float> data(4, 1.0f);
    comm.send(std::span(data).first(3), 0, 1);
    const Error error = error_of([&] { comm.recv(std::span(data).first(2), 0, 1); });
    require(error.code() == ErrorCode::mismatch, error.what());
    require_words(error, {"of 3 float32 from rank 0 to rank 0", "of 2 float32 from rank 0 to rank 0"});
  });
}

TEST_P(MessageFailures, AnAsyncReceiveThatDiffersFailsWithItsOwnWords) {
  run(2, [](Communicator& comm) {
    std::vector<float> data(8, 1.0f), other(1);
    if (comm.rank() == 0) {
      Work sent = comm.send_async(data, 1, 6);
      const Error error = error_of([&] {
        sent.wait();
        comm.recv(one(other[0]), 1);
      });
      require(error.code() == ErrorCode::mismatch, error.what());
    } else {
      Work never = comm.recv_async(other, 0, 7);
      Work received = comm.recv_async(std::span(data).first(4), 0, 6);
      const Error error = error_of([&] { received.wait(); });
      require(error.code() == ErrorCode::mismatch && std::string(error.what()).starts_with("rank 1, send_recv #0 of 4"),
              error.what());
      const Error beside = error_of([&] { never.wait(); });
      require(
          std::string(beside.what()).starts_with("send_recv of 1 float32 from rank 0 to rank 1, tag 7 was given up"),
          beside.what());
    }
  });
}

TEST_P(MessageFailures, ADeadRankIsNamedWhileAnySourceIsWaitedFor) {
  if (GetParam() == Ranks::threads) GTEST_SKIP() << "a thread cannot be killed";
  for (const int ranks : {2, 4}) {
    Options options;
    options.timeout = std::chrono::milliseconds(30'000);
    const auto ends = testing::run_ranks(
        GetParam(), ranks,
        [](Communicator& comm) {
          std::vector<int> data(1);
          if (comm.rank() == 1) {
            // Not before all are in the group.
            for (int others = 1; others < comm.size(); ++others) comm.recv(data, kAnySource, kAnyTag);
            ::kill(::getpid(), SIGKILL);
          }
          comm.send(data, 1);
          const Error error = error_of([&] { comm.recv(data, kAnySource, kAnyTag); });
          require(error.code() == ErrorCode::peer_lost && error.peer() == 1, error.what());
          require_words(error, {"rank 1 has ended"});
          // It may be dead before this rank has begun to wait.
          const std::string words = error.what();
          require(words.find("waits for a message from any rank") != std::string::npos ||
                      words.find("the call was not begun") != std::string::npos,
                  words);
        },
        options);
    for (std::size_t rank = 0; rank < ends.size(); ++rank) {
      if (rank != 1) {
        EXPECT_TRUE(ends[rank].ok()) << ends[rank].message;
      }
    }
  }
}

TEST_P(MessageFailures, AnySourceGoesOnWithoutThoseWhoLeft) {
  run(3, [](Communicator& comm) {
    std::vector<int> data(1, comm.rank());
    if (comm.rank() == 2) {
      comm.send(data, 0, 4);
      return;  // leaves
    }
    if (comm.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));  // rank 2 has left, and rank 0 has noticed
      comm.send(data, 0, 5);
      return;
    }
    comm.recv(data, kAnySource, 5);
    require(data[0] == 1, "from the one who stayed");
    comm.recv(data, kAnySource, 4);
    require(data[0] == 2, "what the other sent before it left");
    const Error error = error_of([&] { comm.recv(data, kAnySource, kAnyTag); });
    require(error.code() == ErrorCode::peer_lost && error.peer() == -1, error.what());
    require_words(error, {"all other ranks have left the group"});
  });
}

TEST_P(MessageFailures, AReceiveThatNobodyServesSaysWhatWasThere) {
  run(
      3,
      [](Communicator& comm) {
        std::vector<int> data(4, comm.rank());
        if (comm.rank() == 0) {
          const Error error = error_of([&] { comm.recv(data, kAnySource, 7); });
          require(error.code() == ErrorCode::timeout, error.what());
          require_words(error, {"send_recv of 4 int32 from any rank to rank 0, tag 7",
                                "waits for a message from any rank", "tag 3 from rank 1", "has any rank sent it?"});
          require(data[0] == 0, "the output is as it was");
        } else {
          comm.set_timeout(std::chrono::seconds(20));
          if (comm.rank() == 1) comm.send(data, 0, 3);
          const Error error = error_of([&] { comm.barrier(); });
          require(error.code() == ErrorCode::peer_failed && error.peer() == 0, error.what());
        }
      },
      500);
}

TEST_P(MessageFailures, AProbeEndsAtTheDeadlineAndNamesTheSource) {
  run(
      2,
      [](Communicator& comm) {
        if (comm.rank() == 1) {
          comm.set_timeout(std::chrono::seconds(20));
          error_of([&] { comm.barrier(); });
          return;
        }
        const Error error = error_of([&] { comm.probe(1, 2); });
        require(error.code() == ErrorCode::timeout && error.peer() == 1, error.what());
        require_words(error, {"probe for a message from rank 1, tag 2", "waits for a message from rank 1"});
      },
      400);
}

// Each receive has its time once it is the first in line; those behind it do not time out while messages come.
TEST_P(MessageFailures, ReceivesInLineHaveTheirTimeOneAfterTheOther) {
  run(
      2,
      [](Communicator& comm) {
        constexpr int kMany = 8;
        std::vector<std::vector<int>> data(kMany, std::vector<int>(1000, 1));
        if (comm.rank() == 0) {
          std::vector<Work> works;
          for (auto& buffer : data) works.push_back(comm.recv_async(buffer, 1));
          wait_all(works);
        } else {
          for (auto& buffer : data) {
            std::this_thread::sleep_for(std::chrono::milliseconds(250));
            comm.send(buffer, 0);
          }
        }
      },
      1000);
}

INSTANTIATE_TEST_SUITE_P(Transports, MessageFailures, ::testing::ValuesIn(testing::kAllRanks),
                         [](const auto& test) { return testing::name_of(test.param); });

}  // namespace
}  // namespace tutti
