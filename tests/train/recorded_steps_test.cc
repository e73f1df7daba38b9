// What a strategy tells a trace: its steps by number, and each step's buckets, from when they were ready to their end.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "check.h"
#include "trace/folder.h"
#include "train/one_process.h"
#include "train/ones.h"

namespace tutti {
namespace {

using Json = nlohmann::json;
using testing::Folder;
using testing::kStages;
using testing::make;
using testing::on_ranks;
using testing::require;
using testing::ToyModel;

constexpr int kRanks = 2, kSteps = 4, kFirst = 1;  // nobody records the step before
constexpr double kRounding_us = 0.0015;

struct Time {
  double begin = 0, end = 0;
};
Time time_of(const Json& event) {
  const double begin = event.at("ts");
  return {begin, begin + event.at("dur").get<double>()};
}

Json trace_of_training(int stage) {
  const Folder folder;
  const std::string file = folder.path() + "/run.json";
  const ToyModel model;
  on_ranks(kRanks, [&](Communicator& comm) {
    train::Strategy strategy = make(stage, comm, model.parameters, {.bucket_bytes = 10'000});
    for (int step = 0; step < kSteps; ++step) {
      if (step == kFirst) comm.trace().start(file);
      testing::train_step(strategy, model, comm.rank(), step);
    }
    comm.trace().stop();
    testing::train_step(strategy, model, comm.rank(), kSteps);
  });
  std::ifstream stream(file);
  return Json::parse(stream).at("traceEvents");
}

TEST(RecordedSteps, HaveTheirNumbersAndTheirBuckets) {
  for (const int stage : kStages) {
    std::map<std::pair<int, int>, Time> steps;  // by rank and number
    std::map<std::pair<int, int>, std::set<int>> buckets;
    const Json events = trace_of_training(stage);
    for (const Json& event : events) {
      if (event.at("ph") != "X" || event.at("cat") != "train") continue;
      const int number = event.at("args").at("step");
      EXPECT_EQ(event.at("name"), "step " + std::to_string(number));
      const bool is_new = steps.emplace(std::pair(event.at("tid").get<int>() % kRanks, number), time_of(event)).second;
      EXPECT_TRUE(is_new) << number;
    }
    ASSERT_EQ(steps.size(), static_cast<std::size_t>(kRanks * (kSteps - kFirst))) << "stage " << stage;
    for (const Json& event : events) {
      if (event.at("ph") != "X" || event.at("cat") != "bucket") continue;
      const Json& arguments = event.at("args");
      const std::pair step(event.at("tid").get<int>() % kRanks, arguments.at("step").get<int>());
      ASSERT_TRUE(steps.contains(step)) << "stage " << stage << ": " << event;
      EXPECT_TRUE(buckets[step].insert(arguments.at("bucket").get<int>()).second) << "each once";
      EXPECT_GT(arguments.at("bytes"), 0);
      const Time time = time_of(event), whole = steps[step];
      const double start = arguments.at("start_us");
      EXPECT_GE(time.begin + kRounding_us, whole.begin);
      EXPECT_LE(time.begin, start + kRounding_us) << "it is ready before it sets out";
      EXPECT_LE(start, time.end + kRounding_us);
      EXPECT_LE(time.end, whole.end + kRounding_us);
    }
    for (const auto& [step, time] : steps) {
      EXPECT_LT(time.begin, time.end);
      EXPECT_GT(buckets[step].size(), 1u) << "stage " << stage;
      EXPECT_EQ(*buckets[step].rbegin() + 1, static_cast<int>(buckets[step].size())) << "all of them";
      EXPECT_TRUE(step.second >= kFirst && step.second < kSteps) << step.second;
      const auto next = steps.find({step.first, step.second + 1});
      if (next != steps.end()) {
        EXPECT_LE(time.end, next->second.begin + kRounding_us);
      }
    }
  }
}

}  // namespace
}  // namespace tutti
