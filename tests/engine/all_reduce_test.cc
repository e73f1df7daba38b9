// all_reduce end to end: every algorithm, both transports, against a naive reference, bit for bit.
#include <gtest/gtest.h>

#include <numeric>

#include "check.h"
#include "effort.h"
#include "engine/reference.h"
#include "schedule/algorithms/table.h"

namespace tutti {
namespace {

using testing::Ranks;
using testing::require;

constexpr std::size_t kCounts[] = {0, 1, 2, 3, 17, 255, 1000, 4099, 70'001, 400'003};

std::vector<std::byte> hostile(DType type, std::size_t count, int rank, std::uint32_t seed = 1) {
  std::vector<std::byte> data(count * size_of(type));
  testing::fill_hostile(type, data.data(), count, seed, rank);
  return data;
}

std::vector<std::byte> expected(DType type, ReduceOp op, std::size_t count, int ranks, std::uint32_t seed = 1) {
  std::vector<std::vector<std::byte>> inputs;
  for (int rank = 0; rank < ranks; ++rank) inputs.push_back(hostile(type, count, rank, seed));
  return testing::reduce_naively(type, op, std::move(inputs), count);
}

struct Case {
  Ranks kind;
  std::string algorithm;  // empty: chosen
  int ranks;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.ranks << " " << testing::name_of(c.kind) << ", " << (c.algorithm.empty() ? "chosen" : c.algorithm);
}

class AllReduce : public ::testing::TestWithParam<Case> {};

// Canonical programs give the reference's bits; others the same bits on all ranks, and exact sums of integers.
TEST_P(AllReduce, AgreesWithTheReferenceBitForBit) {
  const Case& c = GetParam();
  const schedule::Algorithm* const row = schedule::find_algorithm(Verb::all_reduce, c.algorithm);
  const bool in_order = row == nullptr || row->canonical(), canonical = in_order || c.ranks < 3;
  const auto body = [&](Communicator& comm) {
    for (const DType type : {DType::float32, DType::float16, DType::bfloat16}) {
      for (const std::size_t count : kCounts) {
        for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average}) {
          const bool many_segments = count > 50'000;
          if (testing::kSanitized && count > 100'000) continue;
          if (many_segments && (type != DType::float32 || op != ReduceOp::sum)) continue;
          const auto input = hostile(type, count, comm.rank());
          std::vector<std::byte> output(input.size());
          comm.run(testing::all_reduce_of(input.data(), output.data(), count, type, op));
          const std::string what =
              std::string(name_of(type)) + " " + std::string(name_of(op)) + " count " + std::to_string(count);
          if (canonical) require(output == expected(type, op, count, comm.size()), what);
          require(input == hostile(type, count, comm.rank()), what + ": input is intact");
          auto in_place = input;
          comm.run(testing::all_reduce_of(in_place.data(), in_place.data(), count, type, op));
          require(in_place == output, what + " in place");
        }
      }
    }
    std::vector<std::int64_t> numbers(5001);
    std::iota(numbers.begin(), numbers.end(), comm.rank());
    comm.all_reduce(std::span(numbers));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const auto p = static_cast<std::int64_t>(comm.size());
      require(numbers[i] == p * static_cast<std::int64_t>(i) + p * (p - 1) / 2, "int64 sum at " + std::to_string(i));
    }
  };
  Options options;
  options.algorithm = c.algorithm;
  options.deterministic = in_order;
  testing::expect_all_ok(testing::run_ranks(c.kind, c.ranks, body, options));
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Ranks kind : testing::kAllRanks) {
    for (const int ranks : {1, 2, 3, 4, 5, 7, 8}) {
      if (testing::kSanitized && ranks != 2 && ranks != 5) continue;
      all.push_back({kind, "", ranks});
      for (const schedule::Algorithm& row : schedule::algorithms()) {
        const bool shared = row.user_windows || row.hierarchical || (kind == Ranks::tcp && row.scratch_windows);
        const bool runs =
            schedule::fits(row, ranks) && (kind == Ranks::tcp || row.generate({ranks, 0, 0}).channels == 1);
        if (row.verb == Verb::all_reduce && !shared && runs) all.push_back({kind, std::string(row.name), ranks});
      }
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Everywhere, AllReduce, ::testing::ValuesIn(cases()), [](const auto& test) {
  const Case& c = test.param;
  return testing::name_of(c.kind) + "_" + (c.algorithm.empty() ? "chosen" : c.algorithm) + "_" +
         std::to_string(c.ranks);
});

class Memory : public ::testing::TestWithParam<Ranks> {};

// Every mixture of ordinary and symmetric buffers across ranks gives the same bits; all symmetric goes direct.
TEST_P(Memory, AnyMixtureOfOrdinaryAndSymmetricBuffers) {
  constexpr int kRanks = 3;
  const auto body = [&](Communicator& comm) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{1001}, std::size_t{40'003}, std::size_t{300'001}}) {
      if (testing::kSanitized && count > 100'000) continue;
      const auto input = hostile(DType::float32, count, comm.rank());
      const auto reference = expected(DType::float32, ReduceOp::sum, count, kRanks);
      const Symmetric<float> from = comm.allocate<float>(count), to = comm.allocate<float>(count);
      std::memcpy(from.data(), input.data(), input.size());
      std::vector<std::byte> output(input.size());
      // Bit 2r: rank r's input is symmetric; bit 2r+1: its output is.
      for (int mixture = 0; mixture < 64; ++mixture) {
        const bool in = (mixture >> (2 * comm.rank()) & 1) != 0, out = (mixture >> (2 * comm.rank() + 1) & 1) != 0;
        void* destination = out ? static_cast<void*>(to.data()) : output.data();
        std::memset(destination, 0xee, input.size());
        comm.run(testing::all_reduce_of(in ? static_cast<const void*>(from.data()) : input.data(), destination, count,
                                        DType::float32));
        require(std::memcmp(destination, reference.data(), reference.size()) == 0,
                "mixture " + std::to_string(mixture));
        if (count > 10'000)
          require(comm.last_algorithm() == (mixture == 63 ? "direct" : "staged"),
                  "algorithm of mixture " + std::to_string(mixture));
      }
      comm.all_reduce(from.span());  // in place, direct
      require(std::memcmp(from.data(), reference.data(), reference.size()) == 0, "symmetric in place");
    }
  };
  testing::expect_all_ok(testing::run_ranks(GetParam(), kRanks, body));
}

// Parts of one allocation, at different offsets on different ranks.
TEST_P(Memory, SymmetricBuffersMayLieAtDifferentOffsets) {
  const auto body = [](Communicator& comm) {
    const Symmetric<float> memory = comm.allocate<float>(200'000);
    const std::size_t offset = static_cast<std::size_t>(comm.rank()) * 1001;
    const std::span<float> input = memory.span().subspan(offset, 50'000),
                           output = memory.span().subspan(100'000 + offset, 50'000);
    std::fill(input.begin(), input.end(), static_cast<float>(comm.rank() + 1));
    comm.all_reduce(std::span<const float>(input), output);
    require(comm.last_algorithm() == "direct", "direct");
    for (const float value : output) require(value == 6.0f, "value");
    require(memory[100'000 + offset - 1] == 0.0f && memory[100'000 + offset + 50'000] == 0.0f,
            "nothing beside the output is touched");
  };
  testing::expect_all_ok(testing::run_ranks(GetParam(), 3, body));
}

TEST_P(Memory, MoreMemoryThanDevShmHolds) {
  const auto body = [](Communicator& comm) {
    const Symmetric<std::uint8_t> memory = comm.allocate<std::uint8_t>(std::size_t{96} << 20);
    for (std::size_t i = 0; i < memory.size(); i += 4096) memory[i] = 1;
    comm.all_reduce(memory.span());
    for (std::size_t i = 0; i < memory.size(); i += 4096) require(memory[i] == 2, "sum");
  };
  testing::expect_all_ok(testing::run_ranks(GetParam(), 2, body));
}

INSTANTIATE_TEST_SUITE_P(Transports, Memory, ::testing::Values(Ranks::threads, Ranks::processes),
                         [](const auto& test) { return testing::name_of(test.param); });

// Where ranks share no memory, "symmetric" memory is ordinary.
TEST(MemoryOverTcp, CanBeAllocatedAndReduced) {
  const auto body = [](Communicator& comm) {
    const Symmetric<float> memory = comm.allocate<float>(100'003);
    require(memory[100'002] == 0.0f, "zeroed");
    for (float& value : memory.span()) value = static_cast<float>(comm.rank() + 1);
    comm.all_reduce(memory.span());
    for (const float value : memory.span()) require(value == 6.0f, "sum");
  };
  testing::expect_all_ok(testing::run_ranks(Ranks::tcp, 3, body));
}

TEST(NamedAlgorithm, ThatTheTransportCannotRunIsRefusedWhenTheGroupIsMade) {
  Options options;
  options.algorithm = "staged";
  for (const RankEnd& end : testing::run_ranks(
           Ranks::tcp, 2, [](Communicator&) {}, options)) {
    EXPECT_NE(end.message.find("'staged' needs windows"), std::string::npos) << end.message;
  }
}

// Calls one behind the other on every track. A rank that is ahead compares its next call with the others' while a slow
// one still reads what it left in scratch for the last.
TEST(FullCheck, LeavesAloneWhatPeersStillRead) {
  Options options;
  options.check = Check::full;
  testing::expect_all_ok(run_threads(
      3,
      [](Communicator& comm) {
        const std::vector<float> input(5000, 1.0f / static_cast<float>(comm.rank() + 3));
        std::vector<float> sum = input;
        comm.all_reduce(sum);
        for (std::uint64_t round = 0; round < testing::tries(300); ++round) {
          std::vector<std::vector<float>> data(12, input);
          std::vector<Work> works;
          for (auto& vector : data) works.push_back(comm.all_reduce_async(vector));
          wait_all(works);
          for (const auto& vector : data) require(vector == sum, "sum in round " + std::to_string(round));
        }
      },
      options));
}

TEST(PremulSum, ScalesEachRanksInput) {
  const auto body = [](Communicator& comm) {
    std::vector<float> input(3000, 2.0f), output(3000);
    comm.all_reduce(input, output, Op::premul_sum(comm.rank() + 0.5));
    for (const float value : output) require(value == 2.0f * (0.5f + 1.5f + 2.5f), "value");
    for (const float value : input) require(value == 2.0f, "input is intact");
  };
  testing::expect_all_ok(run_threads(3, body));
}

}  // namespace
}  // namespace tutti
