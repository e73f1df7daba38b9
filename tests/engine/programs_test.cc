// Every program of the table, run by the executor and held against a naive reference, bit for bit: over slots, over
// streams through memory and over TCP; all roots, odd counts, many segments, in place and not.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/executor.h"
#include "engine/reference.h"
#include "schedule/verbs.h"

namespace tutti {
namespace {

using schedule::Algorithm;
using schedule::Buffer;
using schedule::Cut;
using schedule::Holding;
using testing::Executor;
using testing::require;
using testing::Way;

using Bytes = std::vector<std::byte>;

constexpr std::size_t kGuard = 64;  // bytes around a buffer that nobody may touch
constexpr std::byte kUntouched{0xA5};

struct Case {
  const Algorithm& row;
  int ranks, root;
  std::size_t count;
  bool in_place;

  // Orders that are not the canonical one are compared in integers.
  DType type() const { return row.canonical ? DType::float32 : DType::int32; }
  ReduceOp op() const { return row.canonical && !schedule::is_prefix(row.verb) ? ReduceOp::average : ReduceOp::sum; }
  bool chunks() const { return schedule::facts_of(row.verb).cut == Cut::chunks; }

  // Bytes of a buffer of `rank`.
  std::size_t bytes(Buffer buffer, int rank) const {
    const Holding holding = schedule::holding_of(row.verb, buffer, ranks, rank, root);
    const std::size_t one = count * size_of(type());
    if (holding == Holding::nothing) return 0;
    return holding == Holding::all && chunks() ? one * static_cast<std::size_t>(ranks) : one;
  }
  Bytes input_of(int rank) const {
    Bytes data(bytes(Buffer::input, rank));
    testing::fill_hostile(DType::float32, data.data(), data.size() / 4, 7, rank);
    return data;
  }
  // The chunk of rank `chunk` in what `rank` gives.
  Bytes chunk_of(int rank, int chunk) const {
    const Bytes data = input_of(rank);
    const auto one = static_cast<std::ptrdiff_t>(count * size_of(type()));
    return {data.begin() + chunk * one, data.begin() + (chunk + 1) * one};
  }
  std::string words() const {
    return std::string(name_of(row.verb)) + " by " + std::string(row.name) + ", root " + std::to_string(root) +
           ", count " + std::to_string(count) + (in_place ? ", in place" : "");
  }
};

Bytes fold_prefix(const Case& c, int ranks) {
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < ranks; ++rank) inputs.push_back(c.input_of(rank));
  return prefix_fold(std::span<const Bytes>(inputs), [&](const Bytes& left, const Bytes& right) {
    Bytes sum(left.size());
    void* const destination = sum.data();
    const void* const sources[] = {left.data(), right.data()};
    kernels::find_reduce(c.type(), c.op())(&destination, 1, sources, 2, c.count, 1);
    return sum;
  });
}

Bytes reduced(const Case& c, int chunk) {
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < c.ranks; ++rank) inputs.push_back(chunk < 0 ? c.input_of(rank) : c.chunk_of(rank, chunk));
  return testing::reduce_naively(c.type(), c.op(), std::move(inputs), c.count);
}

// What the verbs mean, written down without the library's tables.
Bytes expected_of(const Case& c, int rank) {
  Bytes result;
  const auto append = [&](const Bytes& more) { result.insert(result.end(), more.begin(), more.end()); };
  switch (c.row.verb) {
    case Verb::all_reduce: return reduced(c, -1);
    case Verb::reduce: return rank == c.root ? reduced(c, -1) : Bytes{};
    case Verb::reduce_scatter: return reduced(c, rank);
    case Verb::broadcast: return c.input_of(c.root);
    case Verb::send_recv: return rank == c.root ? Bytes{} : c.input_of(c.root);
    case Verb::scatter: return c.chunk_of(c.root, rank);
    case Verb::gather:
    case Verb::all_gather:
      for (int from = 0; from < c.ranks && (c.row.verb == Verb::all_gather || rank == c.root); ++from)
        append(c.input_of(from));
      return result;
    case Verb::all_to_all:
      for (int from = 0; from < c.ranks; ++from) append(c.chunk_of(from, rank));
      return result;
    case Verb::scan: return fold_prefix(c, rank + 1);
    case Verb::exclusive_scan: return rank == 0 ? Bytes{} : fold_prefix(c, rank);
    case Verb::barrier: break;
  }
  return result;
}

// Memory for one buffer, or for both in place, with guards around.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : bytes_(bytes), memory_(bytes + 2 * kGuard, kUntouched) {}
  std::byte* data() { return memory_.data() + kGuard; }
  bool guards_intact() const {
    const auto is = [](std::byte byte) { return byte == kUntouched; };
    const auto end = static_cast<std::ptrdiff_t>(kGuard + bytes_);
    return std::all_of(memory_.begin(), memory_.begin() + kGuard, is) &&
           std::all_of(memory_.begin() + end, memory_.end(), is);
  }

 private:
  std::size_t bytes_;
  Bytes memory_;
};

void run_case(Executor& executor, const Offers& offers, const Case& c) {
  const int rank = executor.rank();
  const Bytes given = c.input_of(rank), expected = expected_of(c, rank);
  const std::size_t in_bytes = given.size(), out_bytes = c.bytes(Buffer::output, rank);
  require(expected.size() == out_bytes, c.words() + ": the table and the test disagree about the output");
  const bool shared = c.in_place && in_bytes != 0 && out_bytes != 0;
  Memory first(shared ? std::max(in_bytes, out_bytes) : in_bytes), second(shared ? 0 : out_bytes);
  // The smaller one is the own chunk inside the larger one.
  const std::size_t own = static_cast<std::size_t>(rank) * c.count * size_of(c.type());
  std::byte* const input = first.data() + (shared && in_bytes < out_bytes ? own : 0);
  std::byte* const output = shared ? first.data() + (out_bytes < in_bytes ? own : 0) : second.data();
  std::copy(given.begin(), given.end(), input);

  engine::Binding binding;
  binding.input = input;
  binding.output = output;
  binding.count = c.row.verb == Verb::barrier ? 0 : c.count;
  binding.element_bytes = static_cast<std::uint32_t>(size_of(c.type()));
  binding.reduce = kernels::find_reduce(c.type(), c.op());
  binding.divisor = c.op() == ReduceOp::average ? static_cast<std::uint32_t>(c.ranks) : 1;
  executor.run(c.row, offers, c.root, binding);

  require(std::equal(expected.begin(), expected.end(), output), c.words() + ": the output");
  require(first.guards_intact() && second.guards_intact(), c.words() + ": writes outside its buffers");
  bool intact = true;
  for (std::size_t i = 0; i < in_bytes; ++i) {
    const bool overwritten = shared && input + i >= output && input + i < output + out_bytes;
    intact = intact && (overwritten || input[i] == given[i]);
  }
  require(intact, c.words() + ": the input is not intact");
}

std::vector<int> roots_of(const Algorithm& row, int ranks) {
  if (!schedule::facts_of(row.verb).rooted) return {0};
  if (ranks > 5) return {0, ranks - 2};
  std::vector<int> roots;
  for (int root = 0; root < ranks; ++root) roots.push_back(root);
  return roots;
}

class Programs : public ::testing::TestWithParam<std::tuple<Way, int>> {};

TEST_P(Programs, AgreeWithTheReferenceBitForBit) {
  const auto [way, ranks] = GetParam();
  testing::execute(way, ranks, [way = way, ranks = ranks](Executor& executor) {
    for (const std::uint64_t segment_bytes : {4096u, 256u << 10}) {
      const Offers offers = testing::offers_over(way, executor.transport(), segment_bytes);
      for (const Algorithm& row : schedule::algorithms()) {
        if (!testing::runs_over(row, way, ranks)) continue;
        for (const int root : roots_of(row, ranks)) {
          for (const std::size_t count : {0u, 1u, 17u, 1003u, 9001u}) {
            run_case(executor, offers, {row, ranks, root, count, false});
            if (row.in_place) run_case(executor, offers, {row, ranks, root, count, true});
          }
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Programs,
                         ::testing::Combine(::testing::Values(Way::slots, Way::streams, Way::tcp),
                                            ::testing::Values(1, 2, 3, 4, 5, 7, 8)),
                         [](const auto& test) {
                           return testing::name_of(std::get<0>(test.param)) + "_" +
                                  std::to_string(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace tutti
