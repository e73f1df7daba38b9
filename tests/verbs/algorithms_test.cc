// Every algorithm of the table, asked for by name, over every transport that can run it; and what the canonical order
// promises: the same bits whichever of them runs, however long the vector, wherever it lies.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "check.h"
#include "schedule/algorithms/table.h"
#include "verbs/model.h"

namespace tutti {
namespace {

using schedule::Algorithm;
using testing::Areas;
using testing::Case;
using testing::Model;
using testing::Ranks;
using testing::require;

// The verbs' algorithms of one kind, dealt out into lists with at most one per verb.
std::vector<std::vector<const Algorithm*>> deal(int ranks, bool canonical, bool over_memory) {
  std::vector<std::vector<const Algorithm*>> sets;
  for (const Algorithm& row : schedule::algorithms()) {
    if (row.canonical() != canonical || row.verb == Verb::send_recv || row.hierarchical) continue;
    if (!schedule::fits(row, ranks) || (over_memory && row.generate({ranks, 0, 0}).channels > 1)) continue;
    if (!over_memory && (row.user_windows || row.scratch_windows || row.single_copy)) continue;
    const auto lacks = [&](const std::vector<const Algorithm*>& set) {
      return std::none_of(set.begin(), set.end(), [&](const Algorithm* other) { return other->verb == row.verb; });
    };
    auto set = std::find_if(sets.begin(), sets.end(), lacks);
    if (set == sets.end()) set = sets.insert(set, std::vector<const Algorithm*>{});
    set->push_back(&row);
  }
  return sets;
}

Options options_for(const std::vector<const Algorithm*>& set, bool deterministic) {
  Options options;
  options.deterministic = deterministic;
  for (const Algorithm* row : set) {
    options.algorithm +=
        (options.algorithm.empty() ? "" : ",") + std::string(name_of(row->verb)) + "=" + std::string(row->name);
  }
  return options;
}

constexpr std::size_t kLargeBytes = 600 << 10;

// Of up to seven ranks; made once for all groups, before the first starts.
std::shared_ptr<const Model::Inputs> inputs_of(DType type) {
  static const auto kInputs = [] {
    std::vector<std::shared_ptr<const Model::Inputs>> inputs;
    for (std::size_t t = 0; t < kDTypes; ++t) {
      const auto each = static_cast<DType>(t);
      const std::size_t count = std::max(kLargeBytes / size_of(each), std::size_t{7 * 1009}) + 16;
      inputs.push_back(Model::make_inputs(each, 7, count));
    }
    return inputs;
  }();
  return kInputs[static_cast<std::size_t>(type)];
}

// Runs the verbs of `set` on `types`, all of them in symmetric memory where the algorithm wants it.
void run_set(Communicator& comm, const std::vector<const Algorithm*>& set, std::span<const DType> types,
             std::span<const ReduceOp> ops) {
  const auto p = static_cast<std::size_t>(comm.size());
  const std::size_t bytes = testing::area_bytes(std::max(kLargeBytes, 1009 * 8 * p) + 16 * p);
  const auto in = comm.allocate<std::byte>(bytes), out = comm.allocate<std::byte>(bytes);
  testing::OrdinaryAreas ordinary(bytes);
  std::size_t number = 0;
  for (const DType type : types) {
    Model model(type, comm.size(), inputs_of(type));
    for (const Algorithm* row : set) {
      const std::size_t large = kLargeBytes / size_of(type) / (testing::takes_chunks(row->verb) ? p : 1) | 1;
      for (const ReduceOp op : ops) {
        if (testing::reduces(row->verb) ? !testing::has_operator(row->verb, type, op) : op != ops.front()) continue;
        for (const std::size_t count : {std::size_t{1}, std::size_t{1009}, large}) {
          for (const bool in_place : {false, true}) {
            if (in_place && (!row->in_place || row->verb == Verb::barrier)) continue;
            const Case test{row->verb, type, op, count, static_cast<int>(++number) % comm.size(), in_place};
            testing::run_case(comm, model, test, row->user_windows ? Areas{in.span(), out.span()} : ordinary.areas(),
                              number % 8);
            require(comm.last_algorithm() == row->name, words_of(test) + ": '" + std::string(row->name) +
                                                            "' was asked for, but '" +
                                                            std::string(comm.last_algorithm()) + "' ran");
          }
        }
      }
    }
  }
}

class Algorithms : public ::testing::TestWithParam<Ranks> {};

TEST_P(Algorithms, InCanonicalOrderGiveTheSameBits) {
  inputs_of(DType::int8);
  for (const int ranks : {1, 2, 3, 4, 7}) {
    for (const auto& set : deal(ranks, true, GetParam() != Ranks::tcp)) {
      const auto body = [&](Communicator& comm) {
        constexpr DType kTypes[] = {DType::float32, DType::float16, DType::bfloat16, DType::complex64};
        constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::average};
        if (comm.size() == 1 && set.front()->user_windows) return;  // a rank alone has nobody to look at
        run_set(comm, set, kTypes, kOps);
      };
      testing::expect_all_ok(testing::run_ranks(GetParam(), ranks, body, options_for(set, true)));
    }
  }
}

// Integers do not mind the order; floats do, but all ranks must end with the same bits.
TEST_P(Algorithms, InOtherOrdersGiveWhatIntegersGive) {
  inputs_of(DType::int8);
  for (const int ranks : {2, 3, 4, 7}) {
    for (const auto& set : deal(ranks, false, true)) {
      const auto body = [&](Communicator& comm) {
        constexpr DType kTypes[] = {DType::int32, DType::uint64};
        constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::product, ReduceOp::maximum};
        run_set(comm, set, kTypes, kOps);
        Model model(DType::float32, comm.size(), 70'001);
        std::vector<float> sum(70'001), sums(70'001 * static_cast<std::size_t>(comm.size()));
        std::memcpy(sum.data(), model.input(comm.rank(), 0), sum.size() * sizeof(float));
        comm.all_reduce(sum);
        comm.all_gather(sum, sums);
        for (int rank = 0; rank < comm.size(); ++rank) {
          require(std::memcmp(sum.data(), sums.data() + static_cast<std::size_t>(rank) * sum.size(),
                              sum.size() * sizeof(float)) == 0,
                  "all ranks have the same bits");
        }
      };
      testing::expect_all_ok(testing::run_ranks(GetParam(), ranks, body, options_for(set, false)));
    }
  }
}

// Said in the verbs alone, without a reference: what follows from one order for all.
TEST_P(Algorithms, VerbsThatReduceAgreeWithEachOther) {
  for (const int ranks : {3, 6, 8}) {
    const auto body = [&](Communicator& comm) {
      const auto p = static_cast<std::size_t>(comm.size());
      const std::size_t chunk = 9'001, count = p * chunk;
      for (const DType type : {DType::float32, DType::float16, DType::bfloat16, DType::complex64}) {
        for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average}) {
          const std::size_t bytes = size_of(type);
          Model model(type, comm.size(), count);
          const auto call = [&](Verb verb, const void* in, std::size_t ins, void* out, std::size_t outs, int root = 0) {
            comm.run({.verb = verb,
                      .input = in,
                      .output = out,
                      .input_count = ins,
                      .output_count = outs,
                      .element = type,
                      .op = op,
                      .root = root});
          };
          const std::byte* const input = model.input(comm.rank(), 0);
          Model::Bytes whole(count * bytes), parts(count * bytes), part(chunk * bytes), at_root(count * bytes);
          call(Verb::all_reduce, input, count, whole.data(), count);
          call(Verb::reduce_scatter, input, count, part.data(), chunk);
          call(Verb::all_gather, part.data(), chunk, parts.data(), count);
          require(parts == whole, "reduce_scatter then all_gather is all_reduce");
          const int root = comm.size() - 1;
          call(Verb::reduce, input, count, at_root.data(), count, root);
          require(comm.rank() != root || at_root == whole, "reduce is all_reduce at the root");
          for (std::size_t i = 0; i < count; i += 6151) {
            Model::Bytes alone(bytes);
            call(Verb::all_reduce, input + i * bytes, 1, alone.data(), 1);
            require(std::memcmp(alone.data(), whole.data() + i * bytes, bytes) == 0, "an element alone");
          }
          const auto memory = comm.allocate<std::byte>(count * bytes);
          std::memcpy(memory.data(), input, count * bytes);
          call(Verb::all_reduce, memory.data(), count, memory.data(), count);
          require(std::memcmp(memory.data(), whole.data(), count * bytes) == 0, "in symmetric memory");
        }
      }
    };
    testing::expect_all_ok(testing::run_ranks(GetParam(), ranks, body));
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, Algorithms, ::testing::ValuesIn(testing::kAllRanks),
                         [](const auto& test) { return testing::name_of(test.param); });

}  // namespace
}  // namespace tutti
