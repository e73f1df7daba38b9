// Calls of different verbs under way at once, waited for in an order that differs between ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "check.h"
#include "verbs/model.h"

namespace tutti {
namespace {

using testing::Case;
using testing::Model;
using testing::Ranks;

constexpr std::size_t kMost = 30'000;  // elements of a buffer

// The same on all ranks.
Case draw(std::mt19937& random, int ranks) {
  Case test;
  test.verb = static_cast<Verb>(random() % kVerbs);
  test.type = DType::int32;
  test.op = random() % 2 == 0 ? ReduceOp::sum : ReduceOp::bxor;
  constexpr std::size_t kCounts[] = {0, 1, 300, 4099, kMost};
  test.count = kCounts[random() % std::size(kCounts)];
  if (testing::takes_chunks(test.verb)) test.count /= static_cast<std::size_t>(ranks);
  test.root = static_cast<int>(random() % static_cast<unsigned>(ranks));
  test.in_place = random() % 2 == 0 && test.verb != Verb::send_recv;
  return test;
}

class InFlight : public ::testing::TestWithParam<Ranks> {};

TEST_P(InFlight, CallsOfAllVerbsEndWhateverTheyAreWaitedFor) {
  for (const int ranks : {2, 3, 5}) {
    const auto body = [](Communicator& comm) {
      constexpr int kRounds = 6, kCalls = 40;
      Model model(DType::int32, comm.size(), kMost + kCalls);
      const bool shares = comm.size() < 5;  // with symmetric memory about, entering calls tell where buffers lie
      std::vector<Symmetric<std::byte>> symmetric;
      for (int i = 0; shares && i < 4; ++i)
        symmetric.push_back(comm.allocate<std::byte>(testing::area_bytes(4 * kMost)));
      std::mt19937 random(7), order(100 + static_cast<unsigned>(comm.rank()));
      for (int round = 0; round < kRounds; ++round) {
        std::vector<std::unique_ptr<testing::OrdinaryAreas>> memory;
        std::vector<testing::Trial> trials;
        std::vector<Work> works;
        for (int i = 0; i < kCalls; ++i) {
          memory.push_back(std::make_unique<testing::OrdinaryAreas>(4 * kMost));
          testing::Areas areas = memory.back()->areas();
          if (shares && i < 2)
            areas = {symmetric[2 * static_cast<std::size_t>(i)].span(),
                     symmetric[2 * static_cast<std::size_t>(i) + 1].span()};
          const Case test = draw(random, comm.size());
          trials.emplace_back(comm, model, test, areas, static_cast<std::size_t>(i));
          if (i % 7 == 3) {
            trials.back().run(comm);
            trials.back().check();
          } else {
            for (Work& work : trials.back().start(comm)) works.push_back(std::move(work));
          }
        }
        std::shuffle(works.begin(), works.end(), order);
        for (Work& work : works) {
          if (order() % 3 == 0) work.test();
          work.wait();
        }
        for (const testing::Trial& trial : trials) trial.check();
      }
    };
    testing::expect_all_ok(testing::run_ranks(GetParam(), ranks, body));
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, InFlight, ::testing::ValuesIn(testing::kAllRanks),
                         [](const auto& test) { return testing::name_of(test.param); });

}  // namespace
}  // namespace tutti
