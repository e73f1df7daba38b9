// Chunks of different counts, bound to the same programs: what the v-verbs will call. And what becomes of the output
// where one of many senders is in another call.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>

#include "engine/executor.h"
#include "schedule/readers/firing.h"
#include "schedule/verbs.h"

namespace tutti {
namespace {

using schedule::Algorithm;
using schedule::Buffer;
using testing::Executor;
using testing::require;
using testing::Way;

using Counts = std::vector<std::uint64_t>;
using Numbers = std::vector<std::int32_t>;

constexpr std::uint64_t kSegmentBytes = 4096;

// Elements that rank `from` has for rank `to`: none, few, or several segments of them.
std::uint64_t elements(int from, int to) {
  constexpr std::uint64_t kSome[] = {0, 1, 700, 33, 5001};
  return kSome[static_cast<std::size_t>(3 * from + 2 * to) % std::size(kSome)];
}

std::int32_t number(int from, int to, std::size_t i) {
  return from * 1'000'003 + to * 10'007 + static_cast<std::int32_t>(i);
}

// One buffer: its chunks lie in descending order, with gaps between them.
struct Chunked {
  Counts counts, displacements;
  Numbers numbers;

  explicit Chunked(Counts chunk_counts) : counts(std::move(chunk_counts)), displacements(counts.size()) {
    std::uint64_t at = 3;
    for (std::size_t block = counts.size(); block-- > 0;) {
      displacements[block] = at;
      at += counts[block] + 5;
    }
    numbers.assign(at, -1);
  }
  schedule::Chunks chunks() const { return {counts.data(), displacements.data()}; }
  std::int32_t* chunk(std::size_t block, bool alone) { return numbers.data() + (alone ? 0 : displacements[block]); }
};

// How many elements block `block` has, in a buffer of `rank`.
std::uint64_t count_of(Verb verb, Buffer buffer, int rank, int block, int root) {
  switch (verb) {
    case Verb::all_to_all: return buffer == Buffer::input ? elements(rank, block) : elements(block, rank);
    case Verb::gather: return rank == root || rank == block ? elements(block, root) : 0;
    case Verb::scatter: return rank == root || rank == block ? elements(root, block) : 0;
    default: return elements(block, block + 1);
  }
}

Counts counts_of(Verb verb, Buffer buffer, int ranks, int rank, int root) {
  Counts counts;
  for (int block = 0; block < ranks; ++block) counts.push_back(count_of(verb, buffer, rank, block, root));
  return counts;
}

std::int32_t expected(Verb verb, int ranks, int rank, int block, int root, std::size_t i) {
  if (verb == Verb::all_to_all) return number(block, rank, i);
  if (verb == Verb::scatter) return number(root, rank, i);
  if (verb != Verb::reduce_scatter) return number(block, block, i);
  std::int32_t sum = 0;
  for (int from = 0; from < ranks; ++from) sum += number(from, rank, i);
  return sum;
}

void run_uneven(Executor& executor, const Offers& offers, const Algorithm& row, int root) {
  const int ranks = executor.size(), rank = executor.rank();
  Chunked input(counts_of(row.verb, Buffer::input, ranks, rank, root));
  Chunked output(counts_of(row.verb, Buffer::output, ranks, rank, root));
  const auto held = [&](Buffer buffer, int block) {
    const schedule::Holding holding = schedule::holding_of(row.verb, buffer, ranks, rank, root);
    return holding == schedule::Holding::all || (holding == schedule::Holding::own && block == rank);
  };
  const auto alone = [&](Buffer buffer) {
    return schedule::holding_of(row.verb, buffer, ranks, rank, root) == schedule::Holding::own;
  };
  for (int block = 0; block < ranks; ++block) {
    const auto b = static_cast<std::size_t>(block);
    for (std::size_t i = 0; held(Buffer::input, block) && i < input.counts[b]; ++i)
      input.chunk(b, alone(Buffer::input))[i] = number(rank, block, i);
  }
  engine::Binding binding;
  binding.input = reinterpret_cast<const std::byte*>(input.numbers.data());
  binding.output = reinterpret_cast<std::byte*>(output.numbers.data());
  binding.input_chunks = input.chunks();
  binding.output_chunks = output.chunks();
  binding.element_bytes = 4;
  binding.reduce = kernels::find_reduce(DType::int32, ReduceOp::sum);
  executor.run(row, offers, root, binding);

  const std::string what = std::string(name_of(row.verb)) + " by " + std::string(row.name);
  std::uint64_t written = 0;
  bool right = true;
  for (int block = 0; block < ranks; ++block) {
    const auto b = static_cast<std::size_t>(block);
    for (std::size_t i = 0; held(Buffer::output, block) && i < output.counts[b]; ++i, ++written) {
      right = right && output.chunk(b, alone(Buffer::output))[i] == expected(row.verb, ranks, rank, block, root, i);
    }
  }
  require(right, what + ": the output");
  const auto untouched = static_cast<std::uint64_t>(std::count(output.numbers.begin(), output.numbers.end(), -1));
  require(untouched == output.numbers.size() - written, what + ": wrote between its chunks");
}

class Uneven : public ::testing::TestWithParam<std::tuple<Way, int>> {};

TEST_P(Uneven, ChunksArriveWhole) {
  const auto [way, ranks] = GetParam();
  testing::execute(way, ranks, [way = way, ranks = ranks](Executor& executor) {
    const Offers offers = testing::offers_over(way, executor.transport(), kSegmentBytes);
    int rows = 0;
    for (const Algorithm& row : schedule::algorithms()) {
      if (!takes_uneven(row) || !testing::runs_over(row, way, ranks)) continue;
      for (int root = 0; root < ranks; ++root) run_uneven(executor, offers, row, root);
      ++rows;
    }
    require(rows >= 8, "too few rows were tried");
  });
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Uneven,
                         ::testing::Combine(::testing::ValuesIn(testing::kEveryWay),
                                            ::testing::Values(1, 2, 3, 4, 5, 8)),
                         [](const auto& test) {
                           return testing::name_of(std::get<0>(test.param)) + "_" +
                                  std::to_string(std::get<1>(test.param));
                         });

// Whether no rank has to receive anything before it has sent to everybody that it sends to: else one may stop at the
// stranger's message, and others are told by it and not by what they hear.
bool sends_first(const Algorithm& row, int ranks, int root, const Hosts& hosts) {
  for (int rank = 0; rank < ranks; ++rank) {
    for (const schedule::Lane& lane : row.generate({ranks, rank, root, hosts}).lanes) {
      bool received = false;
      for (const schedule::Step& step : lane.steps) {
        received =
            received || !step.waits.empty() || std::any_of(step.sources.begin(), step.sources.end(), schedule::is_slot);
        if (received && std::any_of(step.destinations.begin(), step.destinations.end(), schedule::is_slot))
          return false;
      }
    }
  }
  return true;
}

class Hearing : public ::testing::TestWithParam<Way> {};

// Rank 2 is in another call: whoever hears from it finds out before a byte of the output is written.
TEST_P(Hearing, LeavesTheOutputIntactWhereOneSenderIsInAnotherCall) {
  constexpr int kRanks = 4, kStranger = 2, kRoot = 1;
  int tried = 0;
  for (const Algorithm& row : schedule::algorithms()) {
    if (!row.generate({kRanks, 0, kRoot}).hears_first) continue;
    ++tried;
    std::atomic<int> found = 0;
    testing::execute(GetParam(), kRanks, [&](Executor& executor) {
      const Offers offers = testing::offers_over(GetParam(), executor.transport(), 0);
      Numbers input(100 * kRanks, executor.rank()), output(100 * kRanks, -1);
      engine::Binding binding;
      binding.input = reinterpret_cast<const std::byte*>(input.data());
      binding.output = reinterpret_cast<std::byte*>(output.data());
      binding.count = 100;
      binding.element_bytes = 4;
      binding.fingerprint = executor.rank() == kStranger ? 2 : 1;
      executor.start(row, offers, kRoot, binding);
      const auto hears_stranger = [&](int rank) {
        return rank != kStranger &&
               schedule::senders_to(row.generate({kRanks, rank, kRoot, offers.hosts})).contains(kStranger);
      };
      const bool hears = hears_stranger(executor.rank()), all_find = sends_first(row, kRanks, kRoot, offers.hosts);
      const bool finds = hears && all_find;
      int finders = 0;
      for (int rank = 0; rank < kRanks; ++rank) finders += all_find && hears_stranger(rank) ? 1 : 0;
      // All go on until whoever has to has found it: what a rank has sent may leave only while it goes on, over UCX,
      // and may be on its way for long.
      const Deadline longest = Deadline::after(std::chrono::seconds(20)),
                     shortest = Deadline::after(std::chrono::milliseconds(200));
      engine::Operation& operation = executor.operation();
      bool over = false;
      int whom = -1;
      while (!longest.passed() && !(found == finders && shortest.passed())) {
        if (!over) over = operation.advance() == engine::Advance::finished;
        if (whom >= 0 || operation.mismatched_peer() < 0) continue;
        whom = operation.mismatched_peer();
        if (finds) ++found;
      }
      if (!hears) return;
      const std::string what = std::string(name_of(row.verb)) + " by " + std::string(row.name);
      require(!finds || whom == kStranger, what + ": the stranger is found");
      require(!operation.touched_output() && output == Numbers(100 * kRanks, -1), what + ": the output is intact");
    });
  }
  EXPECT_GE(tried, 4);
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Hearing, ::testing::ValuesIn(testing::kEveryWay),
                         [](const auto& test) { return testing::name_of(test.param); });

}  // namespace
}  // namespace tutti
