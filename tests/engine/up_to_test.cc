// Receives that have more room than their message needs: what came, from whom, and what does not fit.
#include <gtest/gtest.h>

#include <numeric>

#include "check.h"
#include "tutti/batch.h"

namespace tutti {
namespace {

using testing::error_of;
using testing::require;

class UpTo : public testing::OverAllRanks {};

std::vector<int> filled(std::size_t count, int first) {
  std::vector<int> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

void require_received(const Received& received, int source, int tag, std::size_t count) {
  require(received.source == source && received.tag == tag && received.count == count,
          "received " + std::to_string(received.count) + " with tag " + std::to_string(received.tag) + " from rank " +
              std::to_string(received.source));
}

// `count` numbers from `first` on, and nothing has been written behind them.
void require_only(const std::vector<int>& data, std::size_t count, int first) {
  const auto end = data.begin() + static_cast<std::ptrdiff_t>(count);
  require(std::equal(data.begin(), end, filled(count, first).begin()), "what was sent");
  require(std::all_of(end, data.end(), [](int value) { return value == -1; }), "the rest of the buffer is left alone");
}

// From nothing to many segments; as long as the buffer, and shorter.
const std::size_t kCounts[] = {0, 1, 3, 17, 2'048, 2'049, 16'385, 700'000};
constexpr std::size_t kRoom = 700'000;

TEST_P(UpTo, ShorterMessagesAreTakenAndTold) {
  run(2, [](Communicator& comm) {
    int tag = 0;
    for (const std::size_t count : kCounts) {
      ++tag;
      if (comm.rank() == 0) {
        comm.send(filled(count, tag), 1, tag);
        continue;
      }
      std::vector<int> data(kRoom, -1);
      const Received received = comm.recv_up_to(data, tag % 2 == 0 ? 0 : kAnySource, tag % 3 == 0 ? tag : kAnyTag);
      require_received(received, 0, tag, count);
      require_only(data, count, tag);
    }
  });
}

// The same request again, whose check is remembered, and the strict one in between.
TEST_P(UpTo, TheSameReceiveAgainTakesAnotherLength) {
  run(2, [](Communicator& comm) {
    std::vector<int> data(8, -1);
    for (std::size_t count = 0; count <= 8; ++count) {
      if (comm.rank() == 0) {
        comm.send(filled(count, 5), 1);
        comm.send(filled(8, 6), 1);
      } else {
        std::fill(data.begin(), data.end(), -1);
        require_received(comm.recv_up_to(data, 0), 0, 0, count);
        require_only(data, count, 5);
        require_received(comm.recv(data, 0), 0, 0, 8);
      }
    }
  });
}

TEST_P(UpTo, AsyncInBatchesUnexpectedAndToOneself) {
  run(2, [](Communicator& comm) {
    const int me = comm.rank(), other = 1 - me;
    for (const std::size_t count : kCounts) {
      const std::vector<int> sent = filled(count, me);
      std::vector<int> first(kRoom, -1), second(kRoom, -1), own(kRoom, -1);
      Work work = comm.recv_up_to_async(first, other, 1);
      Batch batch(comm);
      batch.recv_up_to(second, kAnySource, 2).send(sent, other, 2).send(sent, other, 1).send(sent, me, 3);
      const std::vector<Received> received = batch.recv_up_to(own, me, 3).run();
      require(received.size() == 5, "one for each message");
      require_received(received[0], other, 2, count);
      require_received(received[1], -1, 0, 0);
      require_received(received[4], me, 3, count);
      work.wait();
      require_received(work.received(), other, 1, count);
      for (const auto* data : {&first, &second}) require_only(*data, count, other);
      require_only(own, count, me);
      // Out of the order they were sent in: the first is unexpected.
      Work sends[] = {comm.send_async(sent, other, 4), comm.send_async(sent, other, 5)};
      for (const int tag : {5, 4}) {
        std::fill(first.begin(), first.end(), -1);
        require_received(comm.recv_up_to(first, other, tag), other, tag, count);
        require_only(first, count, other);
      }
      wait_all(sends);
    }
  });
}

struct Point {
  short x, y, z;
};

TEST_P(UpTo, CountsElementsOfOnesOwnType) {
  run(2, [](Communicator& comm) {
    std::vector<Point> points(5, Point{1, 2, 3});
    if (comm.rank() == 0) return comm.send(std::span(points).first(3), 1);
    std::fill(points.begin(), points.end(), Point{});
    require_received(comm.recv_up_to(points, 0), 0, 0, 3);
    require(points[2].z == 3 && points[3].z == 0, "three of them");
  });
}

TEST_P(UpTo, WhatDoesNotFitNamesBothCounts) {
  for (const std::size_t count : {std::size_t{5}, std::size_t{500'000}}) {
    run(2, [&](Communicator& comm) {
      std::vector<int> data(count, comm.rank());
      const Error error = error_of([&] {
        if (comm.rank() == 1) comm.recv_up_to(std::span(data).first(4), kAnySource, 7);
        comm.send(data, 1, 7);
        comm.barrier();  // the send may have ended before its receiver looked at it
      });
      require(error.code() == ErrorCode::mismatch && error.peer() == 1 - comm.rank(), error.what());
      for (const std::string& words : {"rank 0 called send_recv #0 of " + std::to_string(count) + " int32",
                                       std::string("rank 1 called send_recv #0 of up to 4 int32")}) {
        require(std::string(error.what()).find(words) != std::string::npos, error.what());
      }
      require(data.front() == comm.rank(), "nothing has been written");
    });
  }
}

TEST_P(UpTo, AnotherTypeIsADifferenceHoweverShort) {
  run(2, [](Communicator& comm) {
    std::vector<int> integers(4, 1);
    std::vector<float> floats(8, 2.0f);
    const Error error = error_of([&] {
      if (comm.rank() == 1) comm.recv_up_to(floats, 0);
      comm.send(integers, 1);
      comm.barrier();
    });
    require(error.code() == ErrorCode::mismatch, error.what());
    require(std::string(error.what()).find("of up to 8 float32") != std::string::npos, error.what());
  });
}

TEST_P(UpTo, ASendHasOneLength) {
  run(1, [](Communicator& comm) {
    int value = 1;
    const Request request{.verb = Verb::send_recv,
                          .input = &value,
                          .input_count = 1,
                          .element = DType::int32,
                          .direction = Direction::send,
                          .up_to = true,
                          .peer = 0};
    require(error_of([&] { comm.run(request); }).code() == ErrorCode::invalid_argument, "refused");
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, UpTo, ::testing::ValuesIn(testing::kAllRanks),
                         [](const auto& test) { return testing::name_of(test.param); });

}  // namespace
}  // namespace tutti
