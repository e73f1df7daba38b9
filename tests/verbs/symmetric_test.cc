// Symmetric memory, ordinary memory and any mixture of the two: the same results, and no copies where all of it is
// symmetric.
#include <gtest/gtest.h>

#include "check.h"
#include "schedule/verbs.h"
#include "verbs/model.h"

namespace tutti {
namespace {

using testing::Areas;
using testing::Case;
using testing::Model;
using testing::Ranks;
using testing::require;

// Which buffers of which ranks are symmetric.
struct Mixture {
  const char* name;
  bool (*input)(int rank, int ranks, int root);
  bool (*output)(int rank, int ranks, int root);
};

bool yes(int, int, int) { return true; }
bool no(int, int, int) { return false; }
bool even(int rank, int, int) { return rank % 2 == 0; }
bool odd(int rank, int, int) { return rank % 2 == 1; }
bool root_only(int rank, int, int root) { return rank == root; }
bool not_root(int rank, int, int root) { return rank != root; }
bool not_last(int rank, int ranks, int) { return rank != ranks - 1; }

constexpr Mixture kMixtures[] = {
    {"all", yes, yes},
    {"none", no, no},
    {"inputs", yes, no},
    {"outputs", no, yes},
    {"even ranks", even, even},
    {"even inputs, odd outputs", even, odd},
    {"the root", root_only, root_only},
    {"all but the root", not_root, not_root},
    {"the root's output", no, root_only},
    {"all but the last rank's output", yes, not_last},
    {"the root's input and others' output", root_only, not_root},
};

bool has_direct(Verb verb) { return verb != Verb::barrier && verb != Verb::send_recv; }

// Peers would load what is being overwritten.
bool never_direct_in_place(Verb verb) { return verb == Verb::all_to_all || verb == Verb::exclusive_scan; }

// Whether every rank's buffers are symmetric, as far as the verb uses them.
bool runs_direct(const Case& test, const Mixture& mixture, int ranks) {
  if (!has_direct(test.verb) || test.count == 0) return false;
  if (never_direct_in_place(test.verb) && test.in_place) return false;
  const bool scaled = test.op == ReduceOp::premul_sum;  // elsewhere than in an output, the scaled input is a copy
  if (scaled && test.verb != Verb::all_reduce) return false;
  for (int rank = 0; rank < ranks; ++rank) {
    const bool in = test.in_place ? mixture.output(rank, ranks, test.root) : mixture.input(rank, ranks, test.root);
    if (testing::input_count(test, ranks, rank) != 0 && !scaled && !in) return false;
    if (testing::output_count(test, ranks, rank) != 0 && !mixture.output(rank, ranks, test.root)) return false;
  }
  return true;
}

class SymmetricMemory : public ::testing::TestWithParam<Ranks> {};

TEST_P(SymmetricMemory, GivesTheSameResultInAnyMixture) {
  // Asked for by name, it runs wherever the buffers allow it; otherwise its price decides, and only the result counts.
  for (const auto& [ranks, asked] : {std::pair{2, true}, {3, true}, {4, true}, {8, true}, {2, false}, {5, false}}) {
    const auto body = [asked = asked](Communicator& comm) {
      constexpr std::size_t kLarge = 70'001;
      const auto p = static_cast<std::size_t>(comm.size());
      const std::size_t bytes = testing::area_bytes(std::max(kLarge, 1009 * p) * 4);
      const auto in = comm.allocate<std::byte>(bytes), out = comm.allocate<std::byte>(bytes);
      std::vector<std::byte> ordinary_in(bytes), ordinary_out(bytes);
      Model floats(DType::float32, comm.size(), kLarge + 1009 * p), halves(DType::float16, comm.size(), 1009 * p + 9);
      std::size_t number = 0;
      const auto check = [&](Case test) {
        test.root = static_cast<int>(number++) % comm.size();
        for (const Mixture& mixture : kMixtures) {
          const bool in_is = mixture.input(comm.rank(), comm.size(), test.root);
          const bool out_is = mixture.output(comm.rank(), comm.size(), test.root);
          const Areas areas{in_is ? in.span() : std::span(ordinary_in), out_is ? out.span() : std::span(ordinary_out)};
          testing::run_case(comm, test.type == DType::float32 ? floats : halves, test, areas, number % 7);
          if (test.verb == Verb::send_recv || !asked) continue;
          const bool direct = runs_direct(test, mixture, comm.size());
          require((comm.last_algorithm() == "direct") == direct,
                  words_of(test) + ", symmetric are " + mixture.name + ": ran " + std::string(comm.last_algorithm()));
        }
      };
      for (std::size_t v = 0; v < kVerbs; ++v) {
        const auto verb = static_cast<Verb>(v);
        const std::size_t large = testing::takes_chunks(verb) ? kLarge / p : kLarge;
        for (const bool in_place : {false, true}) {
          if (in_place && (verb == Verb::barrier || verb == Verb::send_recv)) continue;
          for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{128}, std::size_t{129}, large})
            check({verb, DType::float32, ReduceOp::sum, count, 0, in_place});
          for (const ReduceOp op : {ReduceOp::average, ReduceOp::premul_sum}) {
            if (testing::has_operator(verb, DType::float16, op)) check({verb, DType::float16, op, 1009, 0, in_place});
          }
        }
      }
    };
    Options options;
    if (asked) options.algorithm = "direct";
    testing::expect_all_ok(testing::run_ranks(GetParam(), ranks, body, options));
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, SymmetricMemory, ::testing::Values(Ranks::threads, Ranks::processes),
                         [](const auto& test) { return testing::name_of(test.param); });

}  // namespace
}  // namespace tutti
