// What a call is predicted to take: worked out by hand for costs that are easy to add up, and the least there is to
// choose from.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <thread>

#include "check.h"
#include "cost_file.h"
#include "schedule/algorithms/table.h"
#include "schedule/verbs.h"
#include "topology/discover/cost_file.h"
#include "topology/rates.h"

namespace tutti {
namespace {

using testing::CostFile;
using testing::Costs;
using testing::error_of;
using testing::Ranks;
using testing::require;

// One microsecond per step, ten per message, and per byte 1 ns to copy, 2 more from a peer, 3 for every further source.
topology::CostTable simple_costs() {
  topology::Rates rates;
  rates.step = 1e-6;
  rates.message = 10e-6;
  rates.copy = 1e-9;
  rates.peer = 2e-9;
  rates.reduce = 3e-9;
  rates.call = 1;  // so that nothing is chosen which asks the system
  rates.cores = 64;
  return {rates, rates, {}, {}};
}

// A call of `bytes` (of the vector, or of all chunks), in the caller's memory.
Request request_of(Verb verb, std::size_t bytes, int ranks, void* input, void* output) {
  const auto p = static_cast<std::size_t>(ranks);
  const bool chunks = schedule::facts_of(verb).cut == schedule::Cut::chunks;
  const std::size_t part = verb == Verb::barrier ? 0 : bytes / 4 / (chunks ? p : 1);
  const auto count_of = [&](schedule::Buffer buffer) {
    const bool all = schedule::holding_of(verb, buffer, ranks, 0, 0) == schedule::Holding::all;
    return chunks && all ? part * p : part;
  };
  return {.verb = verb,
          .input = input,
          .output = output,
          .input_count = count_of(schedule::Buffer::input),
          .output_count = count_of(schedule::Buffer::output)};
}

Request message_of(Direction direction, std::vector<float>& data, int peer) {
  const bool sends = direction == Direction::send;
  return {.verb = Verb::send_recv,
          .input = sends ? data.data() : nullptr,
          .output = sends ? nullptr : data.data(),
          .input_count = sends ? data.size() : 0,
          .output_count = sends ? 0 : data.size(),
          .direction = direction,
          .peer = peer};
}

void require_near(double found, double expected, const std::string& what) {
  require(std::abs(found - expected) <= 1e-6 * expected,
          what + ": " + std::to_string(found) + " us, not " + std::to_string(expected));
}

TEST(Predict, AddsUpWhatTheAlgorithmDoes) {
  const Costs costs(simple_costs());
  Options options;
  options.algorithm = "exchange";
  const auto body = [](Communicator& comm) {
    std::vector<float> in(1000), out(1000);
    const double found = comm.predicted_us(request_of(Verb::all_reduce, 4000, 2, in.data(), out.data()));
    // Copy into the message, its way, and a reduction of the own and the peer's.
    require_near(found, (1 + 4) + 10 + (1 + 4 * (1 + 3 + 2)), "exchange of 4000 bytes");
    require_near(comm.predicted_us(request_of(Verb::all_reduce, 4000, 2, in.data(), in.data())), found, "in place");
  };
  for (const Ranks kind : {Ranks::threads, Ranks::processes})
    testing::expect_all_ok(testing::run_ranks(kind, 2, body, options));
}

TEST(Predict, InPlaceWhatIsNeededAsItWasIsCopied) {
  topology::CostTable table = simple_costs();
  table.memory.call = 0;
  const Costs costs(table);
  Options options;
  options.algorithm = "single_copy";
  const auto body = [](Communicator& comm) {
    std::vector<float> in(30'000), out(30'000);
    const double apart = comm.predicted_us(request_of(Verb::all_to_all, 120'000, 3, in.data(), out.data()));
    const double in_place = comm.predicted_us(request_of(Verb::all_to_all, 120'000, 3, in.data(), in.data()));
    require_near(in_place, apart + 120, "120'000 bytes more at 1 ns each");
  };
  testing::expect_all_ok(testing::run_ranks(Ranks::processes, 3, body, options));
}

TEST(Predict, EveryRankKnowsWhetherItsCostsWereMeasured) {
  const auto body = [](bool expected) {
    return [expected](Communicator& comm) {
      require(comm.tuned() == expected, "in the group");
      require(comm.duplicate().tuned() == expected, "in a group made of it");
    };
  };
  for (const Ranks kind : {Ranks::threads, Ranks::processes}) {
    {
      const Costs costs(simple_costs());
      testing::expect_all_ok(testing::run_ranks(kind, 3, body(true)));
    }
    ::setenv("TUTTI_COSTS", topology::kBuiltIn, 1);
    testing::expect_all_ok(testing::run_ranks(kind, 3, body(false)));
    ::unsetenv("TUTTI_COSTS");
  }
}

// What the others wait for, rank 0 may have to read or measure for longer than calls are to be waited for.
TEST(Predict, CostsThatTakeTheirTimeAreNoCallThatTimesOut) {
  Options options;
  options.timeout = std::chrono::milliseconds(300);
  for (const Ranks kind : {Ranks::threads, Ranks::processes, Ranks::tcp}) {
    const CostFile fifo;
    ASSERT_EQ(::mkfifo(fifo.path().c_str(), 0600), 0);
    std::thread writer([&] {
      std::ofstream file(fifo.path());  // waits for who reads
      std::this_thread::sleep_for(4 * options.timeout);
      file << topology::to_text(simple_costs());
    });
    testing::expect_all_ok(testing::run_ranks(
        kind, 3, [](Communicator& comm) { require(comm.tuned(), "the table came"); }, options));
    writer.join();
  }
}

TEST(Predict, MessagesOneWayBothWaysAndToOneself) {
  const Costs costs(simple_costs());
  const auto body = [](Communicator& comm) {
    const int self = comm.rank(), peer = 1 - self;
    std::vector<float> small(1000), small_too(1000), large(1 << 20), large_too(1 << 20);
    // Of messages in a row, the receiver's part counts: the next is on its way meanwhile. Who waits for an answer each
    // time waits for the way as well.
    const double received = 1 + 4 * (1 + 2), there_and_back = (1 + 4) + 10 + received;
    require_near(comm.predicted_us(message_of(Direction::send, small, peer)), received, "sent");
    require_near(comm.predicted_us(message_of(Direction::receive, small, peer)), received, "received");
    require_near(comm.predicted_us(message_of(Direction::receive, small, kAnySource)), received, "from anybody");
    require_near(comm.predicted_us(message_of(Direction::send, small, self)), 1 + 4, "to oneself");
    require_near(
        comm.predicted_us(message_of(Direction::send, small, peer), message_of(Direction::receive, small_too, peer)),
        there_and_back, "both ways");
    // Where messages follow one another, a rank that sends as well has less time to receive.
    require(
        comm.predicted_us(message_of(Direction::send, large, peer), message_of(Direction::receive, large_too, peer)) >
            1.2 * comm.predicted_us(message_of(Direction::send, large, peer)),
        "both ways takes longer");
  };
  testing::expect_all_ok(run_threads(2, body));
}

TEST(Predict, SymmetricBuffersArePricedByWhatRunsInThem) {
  topology::CostTable table = simple_costs();
  table.memory.enter = 1;  // what only the direct algorithm pays
  const Costs costs(table);
  Options options;
  options.algorithm = "direct";
  const auto body = [](Communicator& comm) {
    const Symmetric<float> in = comm.allocate<float>(1000), out = comm.allocate<float>(1000);
    std::vector<float> ordinary(1000);
    const auto us = [&](Verb verb, void* from, void* to, int root = 0) {
      Request request = request_of(verb, 4000, comm.size(), from, to);
      request.root = root;
      return comm.predicted_us(request);
    };
    require(us(Verb::all_reduce, in.data(), out.data()) >= 1e6, "both symmetric");
    require(us(Verb::all_reduce, ordinary.data(), out.data()) < 1e6, "an ordinary input");
    require(us(Verb::all_reduce, in.data(), ordinary.data()) < 1e6, "an ordinary output");
    const bool root = comm.rank() == 0;
    require(us(Verb::broadcast, root ? in.data() : ordinary.data(), out.data()) >= 1e6,
            "elsewhere than at the root the input of a broadcast is not looked at");
    Request scaled = request_of(Verb::reduce_scatter, 4000, comm.size(), in.data(), out.data());
    require(comm.predicted_us(scaled) >= 1e6, "reduce_scatter");
    scaled.op = Op::premul_sum(2);
    require(comm.predicted_us(scaled) < 1e6, "what is scaled is an ordinary copy");
  };
  testing::expect_all_ok(run_threads(2, body, options));
}

TEST(Predict, FullChecksCostMore) {
  const Costs costs(simple_costs());
  double us[2] = {};
  for (const Check check : {Check::quick, Check::full}) {
    Options options;
    options.check = check;
    const auto body = [&](Communicator& comm) {
      float one = 0;
      const double found = comm.predicted_us(request_of(Verb::all_reduce, 4, 2, &one, &one));
      if (comm.rank() == 0) us[check == Check::full ? 1 : 0] = found;
    };
    testing::expect_all_ok(run_threads(2, body, options));
  }
  EXPECT_GE(us[1], us[0] + 10) << "a message more";
}

// By (verb, bytes), as a communicator with these options sees it.
using Prices = std::map<std::pair<Verb, std::size_t>, double>;

// Of this verb, or of all. Nothing where the transport does not offer what the algorithm needs.
std::optional<Prices> prices_with(const std::string& algorithm, int ranks, std::optional<Verb> only = std::nullopt) {
  Options options;
  options.algorithm = algorithm;
  Prices prices;
  const auto body = [&](Communicator& comm) {
    std::vector<float> in(1 << 18), out(1 << 18);
    for (std::size_t v = 0; v < kVerbs; ++v) {
      const Verb verb = static_cast<Verb>(v);
      if (verb == Verb::send_recv || (only && verb != *only)) continue;
      for (std::size_t bytes = 256; bytes <= 1 << 20; bytes *= 16) {
        const double us = comm.predicted_us(request_of(verb, bytes, ranks, in.data(), out.data()));
        if (comm.rank() == 0) prices[{verb, bytes}] = us;
      }
    }
  };
  const std::vector<RankEnd> ends = run_threads(ranks, body, options);
  if (ends[0].message.find("does not offer") != std::string::npos) return std::nullopt;
  testing::expect_all_ok(ends);
  return prices;
}

TEST(Predict, WhatIsChosenIsTheCheapest) {
  const Costs costs(topology::usual_costs(4));
  for (const int ranks : {2, 4}) {
    const Prices chosen = prices_with("", ranks).value();
    Prices least;
    for (const schedule::Algorithm& row : schedule::algorithms()) {
      const bool elsewhere = row.only_messages || row.user_windows;
      if (row.verb == Verb::send_recv || !row.is_for_even() || elsewhere || !row.canonical()) continue;
      const auto prices = prices_with(std::string(name_of(row.verb)) + "=" + std::string(row.name), ranks, row.verb);
      for (const auto& [cell, us] : prices.value_or(Prices())) {
        const auto found = least.emplace(cell, us).first;
        found->second = std::min(found->second, us);
      }
    }
    ASSERT_EQ(least.size(), chosen.size());
    for (const auto& [cell, us] : chosen) {
      EXPECT_GT(us, 0);
      EXPECT_DOUBLE_EQ(us, least[cell]) << name_of(cell.first) << " of " << cell.second << " bytes, " << ranks;
    }
  }
}

TEST(Predict, UnevenChunksThatAreEvenCostTheSame) {
  const auto body = [](Communicator& comm) {
    const std::vector<std::size_t> counts(3, 500);
    std::vector<float> part(500), all(1500), all_too(1500);
    const auto even_and_uneven = [&](Verb verb, void* in, void* out) {
      Request request = request_of(verb, 6000, 3, in, out);
      const double even = comm.predicted_us(request);
      request.uneven = true;
      request.input_parts = request.output_parts = {counts, {}};
      require_near(comm.predicted_us(request), even, std::string(name_of(verb)));
    };
    even_and_uneven(Verb::all_gather, part.data(), all.data());
    even_and_uneven(Verb::gather, part.data(), all.data());
    even_and_uneven(Verb::scatter, all.data(), part.data());
    even_and_uneven(Verb::reduce_scatter, all.data(), part.data());
    even_and_uneven(Verb::all_to_all, all.data(), all_too.data());
  };
  Options options;
  options.algorithm = "all_gather=ring,gather=linear,scatter=linear,reduce_scatter=pairwise,all_to_all=linear";
  testing::expect_all_ok(run_threads(3, body, options));
}

TEST(Predict, AsksNobodyAndHarmsNothing) {
  const auto body = [](Communicator& comm) {
    std::vector<float> data(100, 1.0f);
    if (comm.rank() == 0) {
      require(comm.predicted_us(request_of(Verb::all_reduce, 400, 2, data.data(), data.data())) > 0, "a price");
      Request wrong = request_of(Verb::all_reduce, 400, 2, data.data(), data.data());
      wrong.output_count = 99;
      require(error_of([&] { comm.predicted_us(wrong); }).code() == ErrorCode::invalid_argument, "it cannot be called");
    }
    comm.all_reduce(data);
    require(data[99] == 2, "calls go on");
  };
  testing::expect_all_ok(run_threads(2, body));
}

}  // namespace
}  // namespace tutti
