// Data parallel and ZeRO train to the bits of one process that adds the ranks' gradients in canonical order, say what
// their formulas say, and hold what the table of ZeRO says.
#include <gtest/gtest.h>

#include <array>
#include <tuple>

#include "check.h"
#include "cost_file.h"
#include "effort.h"
#include "strategy/bucket_cap.h"
#include "strategy/sentence.h"
#include "topology/rates.h"
#include "train/one_process.h"

namespace tutti {
namespace {

using testing::OneProcess;
using testing::Ranks;
using testing::require;
using testing::ToyModel;

constexpr int kSteps = static_cast<int>(testing::tries(50));

train::Strategy make(int stage, Communicator& comm, const ToyModel& model, const train::StrategyOptions& options) {
  const train::Optimizer optimizer = train::AdamW{.learning_rate = 1e-2};
  return stage == 0 ? train::data_parallel(comm, model.parameters, optimizer, options)
                    : train::zero(stage, comm, model.parameters, optimizer, options);
}

void trains_alike(Ranks kind, int ranks, int stage, const ToyModel& model, std::optional<double> clip) {
  OneProcess reference(model, train::AdamW{.learning_rate = 1e-2}, clip);
  std::vector<double> norms;
  for (int step = 0; step < kSteps; ++step) {
    reference.step_of_means(ranks, step);
    norms.push_back(reference.norm());
  }
  testing::expect_all_ok(testing::run_ranks(kind, ranks, [&](Communicator& comm) {
    train::Strategy strategy = make(stage, comm, model, {.bucket_bytes = 10'000, .clip_norm = clip});
    for (int step = 0; step < kSteps; ++step) {
      const train::StepResult result = testing::train_step(strategy, model, comm.rank(), step);
      if (clip) require(result.gradient_norm == norms[static_cast<std::size_t>(step)], "the norm");
    }
    require(testing::values_of(strategy, model) == reference.values(), "the values of one process");
    strategy.verify();
  }));
}

class Bits : public ::testing::TestWithParam<std::tuple<int, int, DType>> {};

TEST_P(Bits, AreThoseOfOneProcess) {
  const auto [ranks, stage, type] = GetParam();
  trains_alike(Ranks::threads, ranks, stage, ToyModel(type), std::nullopt);
}

TEST_P(Bits, AreThoseOfOneProcessWhenGradientsAreClipped) {
  const auto [ranks, stage, type] = GetParam();
  trains_alike(Ranks::threads, ranks, stage, ToyModel(type), 2.0);
}

// A bucket has one type, and the norm is over all.
TEST(BitsOfSeveralTypes, AreThoseOfOneProcessWhenGradientsAreClipped) {
  const ToyModel model(DType::float32, DType::bfloat16);
  for (const int ranks : {2, 3})
    for (const int stage : {0, 1, 2, 3}) trains_alike(Ranks::threads, ranks, stage, model, 2.0);
}

std::string named(const ::testing::TestParamInfo<std::tuple<int, int, DType>>& test) {
  const auto [ranks, stage, type] = test.param;
  return std::to_string(ranks) + "_ranks_stage_" + std::to_string(stage) + "_" + std::string(name_of(type));
}
INSTANTIATE_TEST_SUITE_P(All, Bits,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4, 8), ::testing::Values(0, 1, 2, 3),
                                            ::testing::Values(DType::float32, DType::bfloat16)),
                         named);

// Ranks that are processes: over shared memory, and over TCP.
class BitsOfProcesses : public ::testing::TestWithParam<std::tuple<Ranks, int, DType>> {};

TEST_P(BitsOfProcesses, AreThoseOfOneProcess) {
  const auto [kind, ranks, type] = GetParam();
  for (const int stage : {0, 1, 2, 3}) trains_alike(kind, ranks, stage, ToyModel(type), std::nullopt);
}

TEST_P(BitsOfProcesses, AreThoseOfOneProcessWhenGradientsAreClipped) {
  const auto [kind, ranks, type] = GetParam();
  for (const int stage : {0, 1, 2, 3}) trains_alike(kind, ranks, stage, ToyModel(type), 2.0);
}

std::string named_by_kind(const ::testing::TestParamInfo<std::tuple<Ranks, int, DType>>& test) {
  const auto [kind, ranks, type] = test.param;
  return testing::name_of(kind) + "_" + std::to_string(ranks) + "_ranks_" + std::string(name_of(type));
}
INSTANTIATE_TEST_SUITE_P(All, BitsOfProcesses,
                         ::testing::Combine(::testing::Values(Ranks::processes, Ranks::tcp),
                                            ::testing::Values(1, 2, 3, 4, 8),
                                            ::testing::Values(DType::float32, DType::bfloat16)),
                         named_by_kind);

// What was called is what the formulas say, verb by verb.
void says_its_sentence(Communicator& comm, const ToyModel& model, int stage, bool all_options) {
  train::StrategyOptions options;
  options.bucket_bytes = 10'000;
  if (all_options) {
    options.clip_norm = 1;
    options.unused_parameters = true;
    options.measure_noise = true;
  }
  train::Strategy strategy = make(stage, comm, model, options);
  constexpr std::uint64_t kCounted = 4;
  for (std::uint64_t step = 0; step < kCounted; ++step) {
    if (all_options) strategy.weight(comm.rank() + 1);
    testing::train_step(strategy, model, comm.rank(), static_cast<int>(step));
  }
  const train::Report report = strategy.report();
  const Counters counted = strategy.counters();
  for (std::size_t v = 0; v < kVerbs; ++v) {
    const auto verb = static_cast<Verb>(v);
    const train::Spoken once = spoken(report.once, verb), each = spoken(report.each_step, verb);
    require(counted[verb].calls == once.calls + kCounted * each.calls, std::string(name_of(verb)) + ": calls");
    require(counted[verb].bytes == once.bytes + kCounted * each.bytes,
            std::string(name_of(verb)) + ": bytes " + std::to_string(counted[verb].bytes) + ", said " +
                std::to_string(once.bytes + kCounted * each.bytes));
  }
}

TEST(CountedCalls, EqualTheSentence) {
  const ToyModel model;
  for (const int ranks : {1, 2, 3})
    for (const int stage : {0, 1, 2, 3})
      for (const bool all_options : {false, true})
        testing::expect_all_ok(testing::run_ranks(
            Ranks::threads, ranks, [&](Communicator& comm) { says_its_sentence(comm, model, stage, all_options); }));
}

TEST(StatesOf8Bits, GiveTheBitsOfOneProcess) {
  const train::Optimizer optimizer = train::AdamW{.learning_rate = 1e-2, .state = train::StateType::eight_bits};
  for (const DType type : {DType::float32, DType::bfloat16}) {
    const ToyModel model(type);
    OneProcess reference(model, optimizer, std::nullopt);
    for (int step = 0; step < 5; ++step) reference.step_of_means(3, step);
    for (const int stage : {0, 1, 2, 3}) {
      testing::expect_all_ok(testing::run_ranks(Ranks::threads, 3, [&](Communicator& comm) {
        const train::StrategyOptions options{.bucket_bytes = 10'000};
        train::Strategy strategy = stage == 0 ? train::data_parallel(comm, model.parameters, optimizer, options)
                                              : train::zero(stage, comm, model.parameters, optimizer, options);
        for (int step = 0; step < 5; ++step) testing::train_step(strategy, model, comm.rank(), step);
        require(testing::values_of(strategy, model) == reference.values(), "the values of one process");
      }));
    }
  }
}

// A byte and a scale of 4 for 256 of them, for each state and each part of a parameter.
TEST(StatesOf8Bits, AreCountedByThePart) {
  const ToyModel model;
  for (const int stage : {0, 1, 2, 3}) {
    testing::expect_all_ok(testing::run_ranks(Ranks::threads, 2, [&](Communicator& comm) {
      const train::Optimizer optimizer = train::AdamW{.state = train::StateType::eight_bits};
      train::Strategy strategy = stage == 0 ? train::data_parallel(comm, model.parameters, optimizer)
                                            : train::zero(stage, comm, model.parameters, optimizer);
      testing::train_step(strategy, model, comm.rank(), 0);
      std::uint64_t bytes = 0;
      for (const train::OwnedPart& part : strategy.owned()) bytes += 2 * (part.count + (part.count + 255) / 256 * 4);
      require(strategy.report().bytes.optimizer == bytes, std::to_string(bytes));
    }));
  }
}

// Who writes them and asks once more finds what was written.
TEST(StatesOf8Bits, MayBeAskedForTwiceAndWritten) {
  const ToyModel model;
  testing::expect_all_ok(testing::run_ranks(Ranks::threads, 2, [&](Communicator& comm) {
    train::Strategy strategy =
        train::zero(1, comm, model.parameters, train::AdamW{.state = train::StateType::eight_bits});
    testing::train_step(strategy, model, comm.rank(), 0);
    for (const train::OwnedPart& part : strategy.owned()) std::fill_n(part.shard.states[0], part.count, 0.5F);
    for (const train::OwnedPart& part : strategy.owned())
      require(part.count == 0 || part.shard.states[0][0] == 0.5F, "what was written");
    strategy.restored(1);
    for (const train::OwnedPart& part : strategy.owned())
      require(part.count == 0 || part.shard.states[0][part.count - 1] == 0.5F, "what was restored");
  }));
}

// Two passes over four units gather twice, but for those that are still there.
TEST(CountedCalls, OfUnitsAreTwiceTheUnitsLessTheLimit) {
  const ToyModel model;
  for (const std::size_t limit : {1, 2, 3, 9}) {
    testing::expect_all_ok(testing::run_ranks(Ranks::threads, 2, [&](Communicator& comm) {
      train::StrategyOptions options;
      options.gathered_units = limit;
      train::Strategy strategy = make(3, comm, model, options);
      const std::uint64_t before = strategy.counters()[Verb::all_gather].calls;
      for (int step = 0; step < 3; ++step) testing::train_step(strategy, model, comm.rank(), step);
      const std::uint64_t each = 2 * ToyModel::kUnitCount - std::min(limit, ToyModel::kUnitCount);
      require(strategy.counters()[Verb::all_gather].calls - before == 3 * each, "gathers");
    }));
  }
}

TEST(BucketCap, IsChosenByPriceAndAlikeWhereNoneIsGiven) {
  const ToyModel model;
  testing::expect_all_ok(testing::run_ranks(Ranks::threads, 4, [&](Communicator& comm) {
    train::Strategy strategy = make(0, comm, model, {});
    std::vector<std::uint64_t> caps(4);
    const std::uint64_t own = strategy.report().bucket_bytes;
    comm.all_gather(std::span(&own, 1), caps);
    require(own >= 1 << 20 && caps == std::vector<std::uint64_t>(4, own), "one cap");
  }));
}

// The cap of a model of 33 tensors of 1 MB, and the one that costs least by what the communicator itself predicts. A
// byte takes 1 ns or so, a bucket of whatever size three times what it takes until peers see that there is something.
std::array<std::size_t, 2> caps_where_peers_see_after(double progress_s) {
  topology::Rates rates;
  rates.step = rates.message = rates.call = 1e-9;
  rates.copy = rates.peer = rates.reduce = 1e-9;
  rates.progress = rates.enter = rates.line = progress_s;
  rates.cores = 64;
  const testing::Costs costs({rates, rates, {}, {}});
  constexpr std::size_t kTensors = 33, kBytes = kTensors << 20;
  std::array<std::size_t, 2> caps{};
  testing::expect_all_ok(testing::run_ranks(Ranks::threads, 2, [&](Communicator& comm) {
    std::vector<float> values(kBytes / sizeof(float));
    constexpr std::size_t kEach = kBytes / sizeof(float) / kTensors;
    train::Parameters parameters;
    for (std::size_t i = 0; i < kTensors; ++i)
      parameters.push_back(
          {.name = "w" + std::to_string(i), .shape = {kEach / 1024, 1024}, .values = values.data() + i * kEach});
    const std::vector<strategy::TensorSize> sizes(kTensors, {.elements = kEach});
    const std::size_t chosen = train::data_parallel(comm, parameters, train::Sgd{}).report().bucket_bytes;
    const std::shared_ptr<void> memory = comm.allocate_bytes(kBytes);
    const std::size_t cheapest = strategy::cheapest_cap(sizes, comm.size(), [&](const strategy::Bucket& bucket) {
      return comm.predicted_us(testing::all_reduce_of(memory.get(), memory.get(), bucket.filled, DType::float32));
    });
    train::StrategyOptions given;
    given.bucket_bytes = 3 << 20;
    require(train::data_parallel(comm, parameters, train::Sgd{}, given).report().bucket_bytes == 3 << 20,
            "one that is given is kept");
    if (comm.rank() == 0) caps = {chosen, cheapest};
  }));
  return caps;
}

TEST(BucketCap, IsTheCheapestByThePricesOfTheCommunicator) {
  const auto quick = caps_where_peers_see_after(1e-9), usual = caps_where_peers_see_after(7e-4),
             slow = caps_where_peers_see_after(1);
  for (const auto& [chosen, cheapest] : {quick, usual, slow}) EXPECT_EQ(chosen, cheapest);
  EXPECT_EQ(quick[0], 1U << 20) << "pieces: what nothing hides is the last one alone";
  EXPECT_GT(usual[0], quick[0]);
  EXPECT_LT(usual[0], slow[0]);
  EXPECT_EQ(slow[0], 32U << 20) << "all at once";
}

// ---- What a rank holds.

// The table of ZeRO, for a model in one bucket (each unit, in stage 3) and AdamW. Numbers fill blocks of 1024: a
// parameter that does not fit into what is left of one begins at the next, and every shard has whole ones.
train::StateBytes by_the_table(const ToyModel& model, int stage, int ranks, std::uint64_t e) {
  const auto whole_blocks = [](std::uint64_t numbers, std::uint64_t blocks) {
    return (numbers + 1024 * blocks - 1) / (1024 * blocks) * 1024 * blocks;
  };
  std::vector<std::uint64_t> buckets(stage == 3 ? ToyModel::kUnitCount : 1);
  const std::size_t count = model.parameters.size();
  for (std::size_t turn = 0; turn < count; ++turn) {
    const train::Parameter& parameter = model.parameters[stage == 3 ? turn : count - 1 - turn];
    std::uint64_t& filled = buckets[stage == 3 ? parameter.unit : 0];
    if (filled % 1024 + parameter.elements() > 1024) filled = whole_blocks(filled, 1);
    filled += parameter.elements();
  }
  const auto shards = static_cast<std::uint64_t>(stage == 0 ? 1 : ranks);
  std::uint64_t whole = 0, largest = 0;
  for (const std::uint64_t filled : buckets) {
    const std::uint64_t bucket = whole_blocks(filled, static_cast<std::uint64_t>(ranks));
    whole += bucket;
    largest = std::max(largest, bucket);
  }
  const std::uint64_t own = whole / shards, buffers = std::min<std::uint64_t>(3, buckets.size());
  train::StateBytes bytes;
  bytes.values = e * (stage == 3 ? own : whole);
  bytes.gradients = e * (stage >= 2 ? own : whole);
  bytes.master = e == 4 ? 0 : 4 * own;
  bytes.optimizer = 8 * own;
  if (stage >= 2) bytes.in_flight = e * largest * (stage == 3 ? 2 * buffers : buffers);
  return bytes;
}

std::string in_words(const train::StateBytes& bytes) {
  std::string words;
  for (const std::uint64_t part : {bytes.values, bytes.gradients, bytes.master, bytes.optimizer, bytes.in_flight})
    words += std::to_string(part) + " ";
  return words;
}

TEST(StatesOfAModel, TakeTheMemoryOfTheTableAndNoMore) {
  for (const DType type : {DType::float32, DType::bfloat16}) {
    const ToyModel model(type);
    for (const int ranks : {1, 2, 3}) {
      for (const int stage : {0, 1, 2, 3}) {
        testing::expect_all_ok(testing::run_ranks(Ranks::threads, ranks, [&](Communicator& comm) {
          train::Strategy strategy = make(stage, comm, model, {.bucket_bytes = 1 << 20});
          for (int step = 0; step < 2; ++step) testing::train_step(strategy, model, comm.rank(), step);
          const std::string table = in_words(by_the_table(model, stage, ranks, size_of(type)));
          const std::string said = in_words(strategy.report().bytes), allocated = in_words(strategy.allocated());
          const std::string where = "stage " + std::to_string(stage) + ", " + std::to_string(ranks) + " ranks: ";
          require(said == table, where + said + "are not " + table);
          require(allocated == table, where + allocated + "were allocated and not " + table);
        }));
      }
    }
  }
}

}  // namespace
}  // namespace tutti
