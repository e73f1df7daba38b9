// The v-variants: chunks of random lengths, none at all among them, with gaps between them and in any order; and what
// becomes of calls whose counts do not fit each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "check.h"

namespace tutti {
namespace {

using testing::Ranks;
using testing::require;
using Counts = std::vector<std::size_t>;

// What rank `from` has for rank `to`, the same on every rank; `round` makes them differ between calls.
std::size_t length(int round, int from, int to) {
  std::mt19937 random(static_cast<unsigned>(round * 10'000 + from * 100 + to));
  random.discard(3);
  constexpr std::size_t kSome[] = {0, 1, 5, 700, 3001, 70'001};
  return kSome[random() % (round % 4 == 0 ? 6 : 5)];
}

std::int32_t value(int from, int to, std::size_t i) {
  return from * 1'000'003 + to * 10'007 + static_cast<std::int32_t>(i % 9973);
}

// A buffer of chunks, one behind the other or strewn about; what lies between them keeps kGap.
struct Strewn {
  static constexpr std::int32_t kGap = -7;

  Counts counts, displacements;
  std::vector<std::int32_t> data;
  bool dense;

  Strewn(Counts lengths, bool in_a_row, unsigned seed)
      : counts(std::move(lengths)), displacements(counts.size()), dense(in_a_row) {
    std::vector<std::size_t> order(counts.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::mt19937 random(seed);
    if (!dense) std::shuffle(order.begin(), order.end(), random);
    std::size_t at = 0;
    for (const std::size_t i : order) {
      if (!dense) at += random() % 4;
      displacements[i] = at;
      at += counts[i];
    }
    if (!dense) at += random() % 4;
    data.assign(at, kGap);
  }
  Parts parts() const { return dense ? Parts{counts} : Parts{counts, displacements}; }
  std::span<std::int32_t> chunk(int rank) {
    const auto r = static_cast<std::size_t>(rank);
    return std::span(data).subspan(displacements[r], counts[r]);
  }
  // Chunk `rank` must hold what `from` has for `to`.
  void expect(int rank, int from, int to, int times = 1) {
    const auto part = chunk(rank);
    for (std::size_t i = 0; i < part.size(); ++i)
      if (part[i] != times * value(from, to, i))
        require(false, "element " + std::to_string(i) + " of chunk " + std::to_string(rank));
    std::fill(part.begin(), part.end(), kGap);
  }
  void expect_gaps() const {
    require(std::all_of(data.begin(), data.end(), [](std::int32_t v) { return v == kGap; }), "nothing between chunks");
  }
};

Counts lengths(int ranks, const std::function<std::size_t(int)>& of) {
  Counts counts;
  for (int rank = 0; rank < ranks; ++rank) counts.push_back(of(rank));
  return counts;
}

void fill(std::span<std::int32_t> chunk, int from, int to) {
  for (std::size_t i = 0; i < chunk.size(); ++i) chunk[i] = value(from, to, i);
}

class PartsOfVerbs : public ::testing::TestWithParam<Ranks> {
 protected:
  void run(std::initializer_list<int> groups, const std::function<void(Communicator&, int, bool, unsigned)>& body) {
    for (const int ranks : groups) {
      testing::expect_all_ok(testing::run_ranks(GetParam(), ranks, [&](Communicator& comm) {
        for (int round = 0; round < 24; ++round)
          body(comm, round, round % 3 == 0, static_cast<unsigned>(round * 64 + comm.rank()));
      }));
    }
  }
};

TEST_P(PartsOfVerbs, AllGather) {
  run({1, 2, 3, 5, 8}, [](Communicator& comm, int round, bool dense, unsigned seed) {
    const int me = comm.rank();
    Strewn out(lengths(comm.size(), [&](int r) { return length(round, r, r); }), dense, seed);
    std::vector<std::int32_t> in(length(round, me, me));
    fill(in, me, me);
    const bool in_place = (round + me) % 2 == 0;  // some ranks, others not
    if (in_place) fill(out.chunk(me), me, me);
    comm.all_gather_v(in_place ? out.chunk(me) : std::span(in), out.data, out.parts());
    for (int r = 0; r < comm.size(); ++r) out.expect(r, r, r);
    out.expect_gaps();
  });
}

TEST_P(PartsOfVerbs, Gather) {
  run({1, 2, 3, 5, 8}, [](Communicator& comm, int round, bool dense, unsigned seed) {
    const int me = comm.rank(), root = round % comm.size();
    Strewn out(lengths(comm.size(), [&](int r) { return length(round, r, root); }), dense, seed);
    std::vector<std::int32_t> in(length(round, me, root));
    fill(in, me, root);
    if (me != root) {
      comm.gather_v(in, round % 2 == 0 ? std::span(out.data) : std::span<std::int32_t>{}, {}, root);
      return out.expect_gaps();
    }
    const bool in_place = round % 4 < 2;
    if (in_place) fill(out.chunk(me), me, root);
    comm.gather_v(in_place ? out.chunk(me) : std::span(in), out.data, out.parts(), root);
    for (int r = 0; r < comm.size(); ++r) out.expect(r, r, root);
    out.expect_gaps();
  });
}

TEST_P(PartsOfVerbs, Scatter) {
  run({1, 2, 3, 5, 8}, [](Communicator& comm, int round, bool dense, unsigned seed) {
    const int me = comm.rank(), root = round % comm.size();
    Strewn in(lengths(comm.size(), [&](int r) { return length(round, root, r); }), dense, seed);
    std::vector<std::int32_t> out(length(round, root, me), -1);
    if (me != root) {
      comm.scatter_v(std::span<std::int32_t>{}, {}, out, root);
    } else {
      for (int r = 0; r < comm.size(); ++r) fill(in.chunk(r), root, r);
      const bool in_place = round % 4 < 2;
      comm.scatter_v(in.data, in.parts(), in_place ? in.chunk(me) : std::span(out), root);
      if (in_place) out.assign(in.chunk(me).begin(), in.chunk(me).end());
      for (int r = 0; r < comm.size(); ++r) in.expect(r, root, r);
      in.expect_gaps();
    }
    for (std::size_t i = 0; i < out.size(); ++i) require(out[i] == value(root, me, i), "element " + std::to_string(i));
  });
}

TEST_P(PartsOfVerbs, ReduceScatter) {
  run({1, 2, 3, 5, 8}, [](Communicator& comm, int round, bool dense, unsigned seed) {
    const int me = comm.rank();
    Strewn in(lengths(comm.size(), [&](int r) { return length(round, r, r); }), dense, seed);
    for (int r = 0; r < comm.size(); ++r) fill(in.chunk(r), r, r);
    std::vector<std::int32_t> out(length(round, me, me), -1);
    const bool in_place = (round + me) % 2 == 0;
    comm.reduce_scatter_v(in.data, in.parts(), in_place ? in.chunk(me) : std::span(out));
    if (in_place) out.assign(in.chunk(me).begin(), in.chunk(me).end());
    for (std::size_t i = 0; i < out.size(); ++i)
      require(out[i] == comm.size() * value(me, me, i), "element " + std::to_string(i));
    for (int r = 0; r < comm.size(); ++r) in.expect(r, r, r, in_place && r == me ? comm.size() : 1);
    in.expect_gaps();
  });
}

TEST_P(PartsOfVerbs, AllToAll) {
  run({1, 2, 3, 5, 8}, [](Communicator& comm, int round, bool dense, unsigned seed) {
    const int me = comm.rank();
    Strewn in(lengths(comm.size(), [&](int r) { return length(round, me, r); }), dense, seed);
    Strewn out(lengths(comm.size(), [&](int r) { return length(round, r, me); }), !dense, seed + 1);
    for (int r = 0; r < comm.size(); ++r) fill(in.chunk(r), me, r);
    comm.all_to_all_v(in.data, in.parts(), out.data, out.parts());
    for (int r = 0; r < comm.size(); ++r) {
      out.expect(r, r, me);
      in.expect(r, me, r);
    }
    out.expect_gaps();
    in.expect_gaps();
  });
}

// What is sent may be sent twice.
TEST_P(PartsOfVerbs, SentPartsMayOverlap) {
  run({3}, [](Communicator& comm, int, bool, unsigned) {
    std::vector<std::int32_t> in(10), out(12, -1);
    std::iota(in.begin(), in.end(), 100 * comm.rank());
    const Counts fours(3, 4), at = {0, 3, 6};
    comm.all_to_all_v(in, Parts{fours, at}, out, Parts{fours});
    for (int from = 0; from < 3; ++from)
      for (int i = 0; i < 4; ++i)
        require(out[static_cast<std::size_t>(4 * from + i)] == 100 * from + 3 * comm.rank() + i, "element");
  });
}

// Each makes one call that does not fit the others'. Every rank that the difference touches must hear of it; no rank
// may get what nobody sent; and nothing may hang: the time limit is far beyond what it takes.
class UnfitParts : public ::testing::TestWithParam<Ranks> {
 protected:
  using Body = std::function<void(Communicator&)>;

  // All ranks must fail, at the latest in the barrier that follows; `told`, if any, says that the lengths differ.
  void expect_mismatch(int ranks, const Body& call, int told = -1) {
    Options options;
    options.timeout = std::chrono::milliseconds(8000);
    const auto body = [&](Communicator& comm) {
      const auto begin = std::chrono::steady_clock::now();
      bool failed = false;
      try {
        call(comm);
        comm.barrier();
      } catch (const Error& error) {
        failed = true;
        require(error.code() == ErrorCode::mismatch || error.code() == ErrorCode::peer_failed, error.what());
        const bool says = std::string(error.what()).find("is not as long as this rank expects") != std::string::npos;
        require(says == (comm.rank() == told), error.what());
      }
      require(failed, "the call must not pass");
      require(std::chrono::steady_clock::now() - begin < std::chrono::seconds(7), "it was told, not waited for");
    };
    testing::expect_all_ok(testing::run_ranks(GetParam(), ranks, body, options));
  }
};

// A segment is 256 KB: lengths that agree in their first segment, or in all of the shorter one's, are told as well.
constexpr std::pair<std::size_t, std::size_t> kUnfit[] = {{3, 4}, {0, 4}, {4, 0}, {65'536, 131'072}, {131'072, 65'536}};

TEST_P(UnfitParts, AllGatherWithOtherCountsOnOneRank) {
  for (const auto& [usual, odd] : kUnfit) {
    expect_mismatch(3, [&, usual = usual, odd = odd](Communicator& comm) {
      Counts counts = {7, usual, 7};
      if (comm.rank() == 2) counts[1] = odd;
      std::vector<std::int32_t> in(counts[static_cast<std::size_t>(comm.rank())]);
      std::vector<std::int32_t> out(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
      comm.all_gather_v(in, out, Parts{counts});
    });
  }
}

TEST_P(UnfitParts, ReduceScatterWithOtherCountsOnOneRank) {
  for (const auto& [usual, odd] : kUnfit) {
    expect_mismatch(3, [&, usual = usual, odd = odd](Communicator& comm) {
      Counts counts = {7, usual, 7};
      if (comm.rank() == 0) counts[1] = odd;
      std::vector<std::int32_t> in(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
      std::vector<std::int32_t> out(counts[static_cast<std::size_t>(comm.rank())]);
      comm.reduce_scatter_v(in, Parts{counts}, out);
    });
  }
}

TEST_P(UnfitParts, AllToAllWhereOneSendsWhatAnotherDoesNotExpect) {
  for (const auto& [sent, expected] : kUnfit) {
    expect_mismatch(
        3,
        [&, sent = sent, expected = expected](Communicator& comm) {
          Counts sends = {2, 2, 2}, receives = {2, 2, 2};
          if (comm.rank() == 0) sends[1] = sent;
          if (comm.rank() == 1) receives[0] = expected;
          std::vector<std::int32_t> in(std::accumulate(sends.begin(), sends.end(), std::size_t{0}));
          std::vector<std::int32_t> out(std::accumulate(receives.begin(), receives.end(), std::size_t{0}));
          comm.all_to_all_v(in, Parts{sends}, out, Parts{receives});
        },
        1);
  }
}

TEST_P(UnfitParts, GatherWhereTheRootExpectsAnotherLength) {
  for (const auto& [sent, expected] : kUnfit) {
    expect_mismatch(
        3,
        [&, sent = sent, expected = expected](Communicator& comm) {
          std::vector<std::int32_t> in(comm.rank() == 1 ? sent : 2);
          const Counts counts = {2, expected, 2};
          std::vector<std::int32_t> out(comm.rank() == 0 ? expected + 4 : 0);
          comm.gather_v(in, out, comm.rank() == 0 ? Parts{counts} : Parts{}, 0);
        },
        0);
  }
}

TEST_P(UnfitParts, ScatterWhereOneExpectsAnotherLength) {
  for (const auto& [sent, expected] : kUnfit) {
    expect_mismatch(
        3,
        [&, sent = sent, expected = expected](Communicator& comm) {
          const Counts counts = {2, sent, 2};
          std::vector<std::int32_t> in(comm.rank() == 0 ? sent + 4 : 0);
          std::vector<std::int32_t> out(comm.rank() == 1 ? expected : 2);
          comm.scatter_v(in, comm.rank() == 0 ? Parts{counts} : Parts{}, out, 0);
        },
        1);
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, PartsOfVerbs, ::testing::ValuesIn(testing::kAllRanks),
                         [](const auto& test) { return testing::name_of(test.param); });
INSTANTIATE_TEST_SUITE_P(Transports, UnfitParts, ::testing::ValuesIn(testing::kAllRanks),
                         [](const auto& test) { return testing::name_of(test.param); });

}  // namespace
}  // namespace tutti
