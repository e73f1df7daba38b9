// Messages between ranks: tags, any source, any tag, oneself, probes and batches, over every transport.
#include <gtest/gtest.h>

#include <numeric>

#include "check.h"
#include "tutti/batch.h"

namespace tutti {
namespace {

using testing::require;

class Messages : public testing::OverAllRanks {};

std::vector<int> filled(std::size_t count, int first) {
  std::vector<int> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

void expect_received(const Received& received, int source, int tag, std::size_t count) {
  require(received.source == source && received.tag == tag && received.count == count,
          "received " + std::to_string(received.count) + " with tag " + std::to_string(received.tag) + " from rank " +
              std::to_string(received.source));
}

// From what travels beside its label to many segments.
const std::size_t kCounts[] = {1, 0, 2, 3, 16, 17, 2'048, 2'049, 9'000, 16'384, 16'385, 2'000'000};

TEST_P(Messages, ComeByTagWhateverTheOrderTheyWereSentIn) {
  run(2, [](Communicator& comm) {
    const int many = static_cast<int>(std::size(kCounts));
    if (comm.rank() == 0) {
      for (int tag = 0; tag < many; ++tag) comm.send(filled(kCounts[tag], tag), 1, tag);
    } else {
      for (int tag = many; tag-- > 0;) {
        std::vector<int> data(kCounts[tag], -1);
        expect_received(comm.recv(data, 0, tag), 0, tag, data.size());
        require(data == filled(data.size(), tag), "tag " + std::to_string(tag));
      }
    }
  });
}

TEST_P(Messages, OfOneSourceAndTagKeepTheirOrder) {
  run(3, [](Communicator& comm) {
    constexpr int kRounds = 200, kTags = 3;
    if (comm.rank() != 0) {
      for (int i = 0; i < kRounds; ++i) {
        const std::vector<int> data(i % 7 == 0 ? 3000 : 2, i);
        comm.send(data, 0, i % kTags);
      }
      return;
    }
    // The tags in another order than they were sent in, the ranks in turn.
    for (int tag = kTags; tag-- > 0;) {
      for (int i = tag; i < kRounds; i += kTags) {
        for (const int source : {2, 1}) {
          std::vector<int> data(i % 7 == 0 ? 3000 : 2, -1);
          comm.recv(data, source, tag);
          require(data.front() == i && data.back() == i, "message " + std::to_string(i));
        }
      }
    }
  });
}

TEST_P(Messages, FromAnySourceComeFromAllOfThem) {
  run(5, [](Communicator& comm) {
    constexpr int kEach = 60;
    if (comm.rank() != 0) {
      for (int i = 0; i < kEach; ++i) comm.send(filled(i % 5 == 0 ? 5000 : 3, comm.rank() * 1000 + i), 0, i);
      return;
    }
    std::vector<int> next(5, 0);
    for (int i = 0; i < 4 * kEach; ++i) {
      const Received found = comm.probe(kAnySource, kAnyTag, DType::int32);
      std::vector<int> data(found.count, -1);
      const Received received = comm.recv(data, found.source, kAnyTag);
      int& expected = next[static_cast<std::size_t>(received.source)];
      expect_received(received, found.source, expected, expected % 5 == 0 ? 5000 : 3);
      require(data == filled(data.size(), received.source * 1000 + expected), "what it says");
      ++expected;
    }
    require(next == std::vector<int>{0, kEach, kEach, kEach, kEach}, "all of them");
  });
}

// Once all messages are here, the sources take turns.
TEST_P(Messages, FromAnySourceAreServedInTurn) {
  run(4, [](Communicator& comm) {
    constexpr int kEach = 50;
    int value = comm.rank();
    if (comm.rank() != 0) {
      for (int i = 0; i < kEach; ++i) comm.send(one(value), 0, 1);
      comm.send(one(value), 0, 2);
      return;
    }
    for (int source = 1; source < 4; ++source) comm.probe(source, 2);  // lies behind all others
    std::vector<int> served;
    for (int i = 0; i < 3 * kEach; ++i) {
      const Received received = comm.recv(one(value), kAnySource, 1);
      require(value == received.source, "whose it is");
      served.push_back(received.source);
    }
    for (int i = 0; i < 3 * kEach; ++i)
      require(served[static_cast<std::size_t>(i)] == i % 3 + 1, "turn " + std::to_string(i));
    for (int source = 1; source < 4; ++source) comm.recv(one(value), source, 2);
  });
}

TEST_P(Messages, PostedReceivesTakeThemInTheOrderOfPosting) {
  run(3, [](Communicator& comm) {
    float token = 0;
    if (comm.rank() == 0) {
      std::vector<int> exact(2), any_tag(2), any(2);
      Work first = comm.recv_async(exact, 1, 7);
      Work second = comm.recv_async(any_tag, 1, kAnyTag);
      Work third = comm.recv_async(any, kAnySource, kAnyTag);
      for (const int peer : {1, 2}) comm.send(one(token), peer, 100);
      for (Work* work : {&third, &second, &first}) work->wait();
      expect_received(first.received(), 1, 7, 2);
      expect_received(second.received(), 1, 3, 2);
      expect_received(third.received(), 2, 9, 2);
      require(exact[0] == 7 && any_tag[0] == 3 && any[0] == 9, "each its own");
    } else {
      comm.recv(one(token), 0, 100);
      if (comm.rank() == 1) {
        comm.send(filled(2, 3), 0, 3);
        comm.send(filled(2, 7), 0, 7);
      } else {
        comm.send(filled(2, 9), 0, 9);
      }
    }
  });
}

// A receive for another tag may come while the unexpected message before it is still on its way, and one for that, too.
TEST_P(Messages, AreKeptWholeHoweverLarge) {
  run(2, [](Communicator& comm) {
    constexpr std::size_t kMany = 3 << 20;
    const std::vector<int> large = filled(kMany, 1), larger = filled(kMany + 77, 2);
    if (comm.rank() == 0) {
      comm.send(large, 1, 1);
      comm.send(larger, 1, 2);
      comm.send(filled(3, 3), 1, 3);
    } else {
      std::vector<int> first(kMany), second(kMany + 77), third(3);
      Work last = comm.recv_async(third, 0, 3);
      while (!last.test() && first[0] == 0) {
        Work early = comm.recv_async(first, 0, 1);
        early.wait();
      }
      last.wait();
      require(third == filled(3, 3) && first == large, "the first and the last");
      comm.recv(second, 0, 2);
      require(second == larger, "the one that was in the way");
    }
  });
}

TEST_P(Messages, MayLieInSymmetricMemoryAtEitherEnd) {
  run(2, [](Communicator& comm) {
    constexpr std::size_t kCount = 500'000;
    const Symmetric<int> shared = comm.allocate<int>(kCount);
    std::vector<int> own(kCount);
    for (int round = 0; round < 4; ++round) {
      const std::span<int> data = (round + comm.rank()) % 2 == 0 || round >= 2 ? std::span<int>(shared) : own;
      const std::span<int> part = data.subspan(static_cast<std::size_t>(round) * 1000, kCount - 5000);
      if (comm.rank() == 0) {
        std::iota(part.begin(), part.end(), round);
        comm.send(part, 1);
      } else {
        std::fill(data.begin(), data.end(), -1);
        comm.recv(part, 0);
        require(std::equal(part.begin(), part.end(), filled(part.size(), round).begin()), "what was sent");
        require(round == 0 || data[0] == -1, "nothing beside it");
      }
      comm.barrier();
    }
  });
}

TEST_P(Messages, ToOneself) {
  run(2, [](Communicator& comm) {
    const int me = comm.rank();
    for (const std::size_t count : kCounts) {
      std::vector<int> data(count, -1);
      comm.send(filled(count, 5), me, 1);  // ends at once
      comm.send(filled(count, 6), me, 2);
      expect_received(comm.recv(data, me, 2), me, 2, count);
      require(data == filled(count, 6), "the second");
      expect_received(comm.probe(kAnySource, kAnyTag, DType::int32), me, 1, count);
      expect_received(comm.recv(data, kAnySource, kAnyTag), me, 1, count);
      require(data == filled(count, 5), "the first");
      std::vector<int> later(count, -1);
      Work work = comm.recv_async(later, me, 3);
      comm.send(filled(count, 7), me, 3);
      work.wait();
      expect_received(work.received(), me, 3, count);
      require(later == filled(count, 7), "a receive that waited");
    }
    comm.barrier();
  });
}

TEST_P(Messages, AreFoundByAProbeAndStay) {
  run(2, [](Communicator& comm) {
    for (const std::size_t count : kCounts) {
      std::vector<int> data(count, -1);
      if (comm.rank() == 0) {
        comm.send(filled(3, 0), 1, 8);
        comm.send(filled(count, 4), 1, 9);
      } else {
        for (int i = 0; i < 2; ++i) expect_received(comm.probe(0, 9, DType::int32), 0, 9, count);
        expect_received(comm.probe(0, 9), 0, 9, 4 * count);
        std::vector<int> before(3);
        comm.recv(before, 0, 8);
        expect_received(comm.recv(data, 0, 9), 0, 9, count);
        require(data == filled(count, 4), "what was found");
      }
    }
  });
}

TEST_P(Messages, AProbeForElementsThatDoNotFitSaysSoAndBreaksNothing) {
  run(2, [](Communicator& comm) {
    std::vector<int> data(3, 1);
    if (comm.rank() == 0) {
      comm.send(data, 1);
    } else {
      try {
        comm.probe(0, 0, DType::float64);
        require(false, "12 bytes are no doubles");
      } catch (const Error& error) {
        require(error.code() == ErrorCode::invalid_argument, error.what());
        require(std::string(error.what()).find("12 bytes") != std::string::npos, error.what());
      }
      comm.recv(data, 0);
    }
  });
}

TEST_P(Messages, InABatchMayAllBeSentFirst) {
  for (const int ranks : {1, 2, 5}) {
    run(ranks, [](Communicator& comm) {
      for (const std::size_t count : {std::size_t{3}, std::size_t{400'000}}) {
        std::vector<std::vector<int>> sent, received(static_cast<std::size_t>(comm.size()));
        for (int peer = 0; peer < comm.size(); ++peer) sent.push_back(filled(count, comm.rank() * 100 + peer));
        Batch batch(comm);
        for (int peer = 0; peer < comm.size(); ++peer) batch.send(sent[static_cast<std::size_t>(peer)], peer, peer);
        for (auto& buffer : received) {
          buffer.assign(count, -1);
          batch.recv(buffer, static_cast<int>(&buffer - received.data()), comm.rank());
        }
        std::vector<Work> works = batch.start();
        wait_all(works);
        for (int peer = 0; peer < comm.size(); ++peer) {
          expect_received(works[static_cast<std::size_t>(comm.size() + peer)].received(), peer, comm.rank(), count);
          require(received[static_cast<std::size_t>(peer)] == filled(count, peer * 100 + comm.rank()), "all pairs");
        }
      }
    });
  }
}

TEST_P(Messages, InABatchAreAllCheckedBeforeAnyIsSent) {
  run(2, [](Communicator& comm) {
    std::vector<int> good(4, comm.rank()), answer(4);
    Batch batch(comm);
    batch.send(good, 1 - comm.rank(), 5).recv(answer, 7);
    try {
      batch.run();
      require(false, "there is no rank 7");
    } catch (const Error& error) {
      require(error.code() == ErrorCode::invalid_argument, error.what());
    }
    // Had the first been sent, it would be received here.
    std::vector<int> other(2, comm.rank() + 10), received(2, -1);
    comm.send_recv(other, 1 - comm.rank(), received, 1 - comm.rank(), 5);
    require(received[0] == 11 - comm.rank(), "only what was sent");
  });
}

TEST_P(Messages, AnExchangeIsASendAndAReceive) {
  run(2, [](Communicator& comm) {
    std::vector<float> out(4, 1.0f), in(4);
    const auto message = [&](Direction direction) {
      const bool sends = direction == Direction::send;
      return Request{.verb = Verb::send_recv,
                     .input = sends ? out.data() : nullptr,
                     .output = sends ? nullptr : in.data(),
                     .input_count = sends ? out.size() : 0,
                     .output_count = sends ? 0 : in.size(),
                     .direction = direction,
                     .peer = 1 - comm.rank()};
    };
    const Request sent = message(Direction::send), received = message(Direction::receive);
    const Request collective = testing::all_reduce_of(out.data(), in.data(), 4, DType::float32);
    for (const auto& [first, second] :
         {std::pair(received, sent), {sent, sent}, {collective, received}, {sent, collective}}) {
      require(testing::error_of([&] { comm.exchange(first, second); }).code() == ErrorCode::invalid_argument,
              "not a send and a receive");
      require(testing::error_of([&] { comm.predicted_us(first, second); }).code() == ErrorCode::invalid_argument,
              "nor is it priced as one");
    }
    comm.exchange(sent, received);
    require(in == out, "the group goes on");
  });
}

TEST_P(Messages, AndCollectivesMayShareABatch) {
  run(3, [](Communicator& comm) {
    const int right = (comm.rank() + 1) % 3, left = (comm.rank() + 2) % 3;
    std::vector<float> sum(1000, 1.0f), product(20, 3.0f);
    std::vector<int> sent = filled(50'000, comm.rank()), received(50'000);
    const Request reduce = testing::all_reduce_of(sum.data(), sum.data(), sum.size(), DType::float32);
    const Request multiply =
        testing::all_reduce_of(product.data(), product.data(), product.size(), DType::float32, ReduceOp::product);
    Request send{.verb = Verb::send_recv, .input = sent.data(), .input_count = sent.size()};
    send.element = DType::int32;
    send.direction = Direction::send;
    send.peer = right;
    Request receive{.verb = Verb::send_recv, .output = received.data(), .output_count = received.size()};
    receive.element = DType::int32;
    receive.direction = Direction::receive;
    receive.peer = left;
    const Request requests[] = {send, reduce, receive, multiply};
    std::vector<Work> works = comm.submit_all(requests);
    wait_all(works);
    require(sum[999] == 3.0f && product[19] == 27.0f && received == filled(50'000, left), "both");
  });
}

TEST_P(Messages, ARingOfSendRecvNeverDeadlocks) {
  run(4, [](Communicator& comm) {
    const int right = (comm.rank() + 1) % 4, left = (comm.rank() + 3) % 4;
    for (const std::size_t count : kCounts) {
      const std::vector<int> sent = filled(count, comm.rank());
      std::vector<int> received(count, -1);
      for (int i = 0; i < 5; ++i) {
        expect_received(comm.send_recv(sent, right, received, left, i), left, i, count);
        require(received == filled(count, left), "from the left");
        expect_received(comm.send_recv(sent, comm.rank(), received, kAnySource, i), comm.rank(), i, count);
      }
    }
  });
}

TEST_P(Messages, InterleaveWithCollectivesAndAsyncOnes) {
  run(3, [](Communicator& comm) {
    const int right = (comm.rank() + 1) % 3, left = (comm.rank() + 2) % 3;
    for (int round = 0; round < 30; ++round) {
      std::vector<float> sum(round % 2 == 0 ? 5 : 20'000, 1.0f);
      std::vector<int> large = filled(round % 3 == 0 ? 40'000 : 6, comm.rank()), halo(large.size()), token(1), got(1);
      Work reduce = comm.all_reduce_async(sum);
      Work sent = comm.send_async(large, right, 1);
      token[0] = round;
      comm.send_recv(token, left, got, right, 2);  // blocking, beside what is under way
      require(got[0] == round, "token");
      comm.barrier();
      Work received = comm.recv_async(halo, left, 1);
      if (comm.rank() == 0) comm.send(token, 2, 3);
      if (comm.rank() == 2) comm.recv(got, kAnySource, 3);
      reduce.wait();
      received.wait();
      sent.wait();
      require(halo == filled(halo.size(), left) && sum.back() == 3.0f, "round " + std::to_string(round));
    }
  });
}

struct Particle {
  double place[3];
  char kind;
};

TEST_P(Messages, MoveTypesOfTheCallers) {
  run(2, [](Communicator& comm) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{3}, std::size_t{30'000}}) {
      std::vector<Particle> sent(count, {{1.0, 2.0, 3.0}, 'a'}), received(count);
      sent.back().kind = 'z';
      if (comm.rank() == 0) {
        comm.send(sent, 1, 4);
        comm.send(sent, 1, 5);
      } else {
        comm.recv(received, 0, 5);
        require(received.front().place[2] == 3.0 && received.back().kind == 'z', "moved");
        expect_received(comm.probe(0, 4, Element::of<Particle>()), 0, 4, count);
        expect_received(comm.recv(received, 0, kAnyTag), 0, 4, count);
      }
    }
  });
}

TEST_P(Messages, TagsReachToTheLargest) {
  run(2, [](Communicator& comm) {
    constexpr int kLargest = 0x7fffffff;
    int value = comm.rank();
    if (comm.rank() == 0) comm.send(one(value), 1, kLargest);
    if (comm.rank() == 1) expect_received(comm.recv(one(value), kAnySource, kAnyTag), 0, kLargest, 1);
    require(value == 0, "arrived");
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, Messages, ::testing::ValuesIn(testing::kAllRanks),
                         [](const auto& test) { return testing::name_of(test.param); });

}  // namespace
}  // namespace tutti
