// Communicators over two hosts, memory inside and TCP across: every algorithm that runs there by name, messages of all
// sizes to both kinds of peers, and what is predicted for them. Even ranks are one host, odd ranks the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "check.h"
#include "effort.h"
#include "engine/all_pairs.h"
#include "engine/engine.h"
#include "schedule/algorithms/lower_row.h"
#include "transport/harness.h"
#include "verbs/model.h"

namespace tutti {
namespace {

using schedule::Algorithm;
using testing::Case;
using testing::Kind;
using testing::Model;
using testing::require;

class SeveralHosts : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (const std::string why = testing::why_missing(GetParam()); !why.empty()) GTEST_SKIP() << why;
  }

  static void run(int ranks, const RankFunction& body, Options options = {}) {
    options.timeout = std::chrono::seconds(20);
    const auto make = [&](std::unique_ptr<transport::Transport> transport) {
      auto engine = std::make_unique<engine::Engine>(std::move(transport), options, Log(), engine::Origin{});
      engine->agree_on(choice::agreed_costs(topology::usual_costs(2), ranks, 2, false));
      Communicator comm(std::move(engine));
      body(comm);
    };
    const auto words =
        testing::run_transport(GetParam(), ranks, engine::Engine::kChannels, make, engine::Engine::kPerChannel);
    for (std::size_t rank = 0; rank < words.size(); ++rank) EXPECT_EQ(words[rank], "") << "rank " << rank;
  }
};

bool runs_across(const Algorithm& row) {
  return !row.user_windows && !row.scratch_windows && row.verb != Verb::send_recv;
}

// The rows of one order, dealt out into lists with at most one per verb.
std::vector<std::vector<const Algorithm*>> deal(bool canonical, int ranks) {
  std::vector<int> hosts;  // as the kinds of transports here have them
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back(rank % 2);
  std::vector<std::vector<const Algorithm*>> sets;
  for (const Algorithm& row : schedule::algorithms()) {
    if (!runs_across(row) || !schedule::fits(row, ranks) ||
        schedule::is_canonical(row, Hosts(hosts), ranks) != canonical)
      continue;
    const auto lacks = [&](const auto& set) {
      return std::none_of(set.begin(), set.end(), [&](const Algorithm* other) { return other->verb == row.verb; });
    };
    auto set = std::find_if(sets.begin(), sets.end(), lacks);
    if (set == sets.end()) set = sets.insert(set, std::vector<const Algorithm*>{});
    set->push_back(&row);
  }
  return sets;
}

void run_set(Communicator& comm, const std::vector<const Algorithm*>& set, DType type) {
  Model model(type, comm.size(), 70'000);
  testing::OrdinaryAreas areas(testing::area_bytes(70'000 * size_of(type)));
  int number = 0;
  for (const Algorithm* row : set) {
    for (const std::size_t count : {0, 1, 1009, 13'001}) {
      for (const bool in_place : {false, true}) {
        if (in_place && (!row->in_place || row->verb == Verb::barrier)) continue;
        const Case test{row->verb, type, ReduceOp::sum, count, ++number % comm.size(), in_place};
        testing::run_case(comm, model, test, areas.areas(), 0);
        require(comm.last_algorithm() == row->name, words_of(test) + " by " + std::string(row->name));
      }
    }
  }
}

TEST_P(SeveralHosts, EveryAlgorithmGivesWhatItsVerbPromises) {
  for (const int ranks : {3, 2, 5}) {
    if (testing::kSanitized && ranks != 3) continue;
    for (const bool canonical : {true, false}) {
      for (const auto& set : deal(canonical, ranks)) {
        Options options;
        options.deterministic = canonical;
        for (const Algorithm* row : set)
          options.algorithm +=
              (options.algorithm.empty() ? "" : ",") + std::string(name_of(row->verb)) + "=" + std::string(row->name);
        const DType type = canonical ? DType::float32 : DType::int32;
        run(
            ranks, [&](Communicator& comm) { run_set(comm, set, type); }, options);
      }
    }
  }
}

TEST_P(SeveralHosts, MessagesTakeTheWayOfTheirEdge) {
  run(5, [](Communicator& comm) {
    const std::size_t counts[] = {1, 0, 2'000, 20'000, 3, 300'000};
    testing::exchange_between_all_pairs(comm, counts);
  });
}

TEST_P(SeveralHosts, MessagesInsideAreExpectedSooner) {
  run(3, [](Communicator& comm) {
    std::vector<float> data(1 << 20);
    const auto message = [&](int peer) {
      return comm.predicted_us({.verb = Verb::send_recv,
                                .input = data.data(),
                                .input_count = data.size(),
                                .element = DType::float32,
                                .direction = Direction::send,
                                .peer = peer});
    };
    if (comm.rank() == 0) require(message(2) < message(1), "memory is quicker than TCP");
    comm.barrier();
  });
}

// A call that rank 1 makes and nobody else: what ranks of its host and of the other say about it.
TEST_P(SeveralHosts, RanksInDifferentCallsAreTold) {
  run(4, [](Communicator& comm) {
    std::vector<int> data(5, 1);
    const Error error = testing::error_of([&] {
      if (comm.rank() == 1) {
        comm.broadcast(std::span(data), 1);
        comm.barrier();
        comm.barrier();
      } else {
        comm.all_reduce(std::span(data));
        comm.barrier();
        comm.barrier();
      }
    });
    require(error.code() == ErrorCode::mismatch, error.what());
    require(std::string(error.what()).find("broadcast") != std::string::npos, error.what());
  });
}

std::vector<Kind> several_hosts() {
  std::vector<Kind> kinds;
  for (const testing::KindFacts& facts : testing::kKinds) {
    if (facts.sharers == testing::Sharers::of_two_hosts) kinds.push_back(facts.kind);
  }
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Mixed, SeveralHosts, ::testing::ValuesIn(several_hosts()),
                         [](const auto& test) { return testing::name_of(test.param); });

}  // namespace
}  // namespace tutti
