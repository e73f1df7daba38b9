// Ranks of different builds: what could make them run different programs is compared when they meet and at every call.
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "base/mix.h"
#include "check.h"
#include "engine/engine.h"
#include "engine/factory.h"
#include "rendezvous/handshake.h"
#include "schedule/algorithms/lower_row.h"
#include "schedule/algorithms/table.h"
#include "schedule/json.h"

namespace tutti::engine {
namespace {

using testing::require;

TEST(Builds, TheTablesAreComparedWhenRanksMeet) {
  const std::vector<std::string> compared = settings(Options());
  EXPECT_EQ(
      std::count(compared.begin(), compared.end(), rendezvous::kBuild + std::to_string(schedule::hash_of_table())), 1);
}

const schedule::Algorithm& row_of(Verb verb, const char* name) { return *schedule::find_algorithm(verb, name); }

// Two ranks that make the same call and would run different programs, as two builds, or prices of two builds, may.
template <class Call>
void run_two(const Call& call, Check check = Check::quick) {
  auto mappers = make_threads_group(2);
  std::vector<std::thread> threads;
  std::vector<std::string> failures(2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        Options options;
        options.timeout = std::chrono::seconds(20);
        options.check = check;
        const auto engine = make_engine(std::move(mappers[rank]), options, Deadline::after(options.timeout));
        call(*engine);
      } catch (const std::exception& error) {
        failures[rank] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& failure : failures) EXPECT_EQ(failure, "");
}

TEST(Builds, RanksThatChooseDifferentAlgorithmsAreTold) {
  const std::map<const char*, const char*> kPairs{
      {"recursive_doubling", "exchange"}, {"one_shot", "staged"}, {"recursive_halving", "one_shot"}};
  for (const Check check : {Check::quick, Check::full}) {
    for (const auto& [one, other] : kPairs) {
      SCOPED_TRACE(std::string(one) + " and " + other);
      run_two(
          [&, a = one, b = other](Engine& engine) {
            std::vector<float> data(64, 1.0f);
            const std::vector<float> before = data;
            const auto& row = row_of(Verb::all_reduce, engine.rank() == 0 ? a : b);
            const Error error = testing::error_of([&] {
              engine.run(testing::all_reduce_of(data.data(), data.data(), data.size(), DType::float32), &row);
            });
            const std::string words = error.what();
            require(error.code() == ErrorCode::mismatch && error.peer() == 1 - engine.rank(), words);
            for (const std::string name : {a, b}) {
              const std::string called = "called all_reduce #0 of 64 float32, sum by '" + name + "'";
              require(words.find(called) != std::string::npos, words);
            }
            require(data == before, "the output is as it was");
          },
          check);
    }
  }
}

TEST(Builds, EndsOfAMessageThatChooseDifferentAlgorithmsAreTold) {
  run_two([](Engine& engine) {
    std::vector<float> data(200'000, 1.0f);
    const bool sends = engine.rank() == 0;
    Request request{.verb = Verb::send_recv, .element = DType::float32, .peer = 1 - engine.rank()};
    request.direction = sends ? Direction::send : Direction::receive;
    request.input = request.output = data.data();
    request.input_count = request.output_count = data.size();
    const auto& row = row_of(Verb::send_recv, sends ? "message" : "single_copy");
    const Error error = testing::error_of([&] { engine.run(request, &row); });
    require(error.code() == ErrorCode::mismatch, error.what());
  });
}

}  // namespace
}  // namespace tutti::engine
