// Quantised sums and gathers against the same made one piece at a time, bit for bit; bytes, residuals, bad input.
#include "tutti/train/quantised.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "check.h"
#include "kernels/kernels.h"
#include "kernels/quantise.h"
#include "train/one_process.h"
#include "train/ones.h"

namespace tutti {
namespace {

using testing::contains;
using testing::error_of;
using testing::noise;
using testing::on_ranks;
using testing::require;
using train::NotFinite;
using train::Quantise;
using train::QuantisedReducer;
using train::QuantisedType;

constexpr QuantisedType kTypes[] = {QuantisedType::int8, QuantisedType::int4, QuantisedType::e4m3, QuantisedType::e5m2,
                                    QuantisedType::e3m0};
constexpr std::size_t kCounts[] = {0, 1, 5, 33, 1000, 9001};

std::vector<float> values_of(int rank, std::size_t count, std::uint32_t seed = 1) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = noise(seed, rank, i) * static_cast<float>(1 + i % 7);
  return values;
}

std::vector<float> through_codes(const Quantise& settings, const std::vector<float>& values) {
  const kernels::CodeFormat format{static_cast<kernels::CodeType>(settings.type), settings.block};
  std::vector<std::byte> codes(kernels::code_bytes(format, values.size()));
  std::vector<float> back(values.size());
  kernels::quantise(format, values.data(), values.size(), codes.data());
  kernels::dequantise(format, codes.data(), values.size(), back.data());
  return back;
}

std::vector<float> part(const std::vector<float>& values, std::size_t first, std::size_t count) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

// What a chunk of all ranks' values adds up to, in the order of ranks.
std::vector<float> sum_of_chunk(const Quantise& settings, int ranks, std::size_t count, std::size_t first,
                                std::size_t length, float divisor) {
  std::vector<float> sum(length);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<float> piece = through_codes(settings, part(values_of(rank, count), first, length));
    for (std::size_t i = 0; i < length; ++i) sum[i] = rank == 0 ? piece[i] : sum[i] + piece[i];
  }
  for (float& value : sum) value /= divisor;
  return sum;
}

std::vector<float> expected_all_reduce(const Quantise& settings, int ranks, std::size_t count, float divisor) {
  const auto p = static_cast<std::size_t>(ranks), chunk = (count + p - 1) / p;
  std::vector<float> expected;
  for (std::size_t first = 0; first < count; first += chunk) {
    const std::vector<float> sum = sum_of_chunk(settings, ranks, count, first, std::min(chunk, count - first), divisor);
    const std::vector<float> back = through_codes(settings, sum);
    expected.insert(expected.end(), back.begin(), back.end());
  }
  return expected;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

TEST(Quantised, AllReduceGivesTheSameBitsEverywhere) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    on_ranks(ranks, [&](Communicator& comm) {
      for (const QuantisedType type : kTypes) {
        const Quantise settings{.type = type, .block = 64};
        QuantisedReducer reducer(comm, settings);
        for (const std::size_t count : kCounts) {
          for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average}) {
            std::vector<float> values = values_of(comm.rank(), count);
            reducer.all_reduce(values, op);
            const float divisor = op == ReduceOp::sum ? 1.0F : static_cast<float>(ranks);
            require(same_bits(values, expected_all_reduce(settings, ranks, count, divisor)), "the expected bits");
          }
        }
      }
    });
  }
}

// So many that they travel in parts: the bits are those of whole pieces.
TEST(Quantised, ManyValuesTravelInPartsToTheSameBits) {
  for (const int ranks : {1, 2, 3}) {
    on_ranks(ranks, [&](Communicator& comm) {
      constexpr std::size_t kCount = 4 * train::kAllReducePartValues + 12'345;
      const std::size_t own = (kCount + static_cast<std::size_t>(ranks) - 1) / static_cast<std::size_t>(ranks);
      const std::size_t parts = train::all_reduce_parts(ranks, own);
      require(parts == 5, std::to_string(parts) + " parts");
      const Quantise settings{.type = ranks == 2 ? QuantisedType::int4 : QuantisedType::int8};
      QuantisedReducer reducer(comm, settings);
      const std::vector<float> given = values_of(comm.rank(), kCount);
      std::vector<float> values = given, residual(kCount);
      const Counters before = comm.counters();
      reducer.all_reduce(values, ReduceOp::average, residual);
      const Counters after = comm.counters();
      require(after[Verb::all_to_all].bytes - before[Verb::all_to_all].bytes ==
                  train::exchanged_bytes(settings, ranks, own, parts),
              "pieces");
      require(
          after[Verb::all_gather].bytes - before[Verb::all_gather].bytes == train::returned_bytes(settings, ranks, own),
          "results");
      require(same_bits(values, expected_all_reduce(settings, ranks, kCount, static_cast<float>(ranks))),
              "the expected bits");
      // What was lost: results and residuals together are what was given, here looked at in one of so many values.
      const std::vector<float> mean = values;
      for (std::size_t i = 0; i < kCount; i += 1001) {
        double sums[] = {residual[i], given[i]};
        comm.all_reduce(std::span(sums));
        require(std::abs(mean[i] * static_cast<float>(ranks) + sums[0] - sums[1]) < 1e-4, "nothing is gone");
      }
      // In the last part of the first piece; an earlier rank's goes before.
      values = given;
      if (comm.rank() == ranks - 1) values[own - 1] = values[3] = std::numeric_limits<float>::infinity();
      if (comm.rank() == 0) values[own - 2] = std::numeric_limits<float>::quiet_NaN();
      const std::vector<float> bad = values;
      const Error error = error_of([&] { reducer.all_reduce(values); });
      const std::string index = std::to_string(ranks == 1 ? 3 : own - 2);
      require(contains(error.what(), "rank 0: value " + index + " is not finite"), error.what());
      require(same_bits(values, bad), "values are left alone");
      values.assign(kCount, 1.0F);
      reducer.all_reduce(values);
      require(std::abs(values[kCount - 1] - static_cast<float>(ranks)) < 0.05F, "the reducer goes on");
    });
  }
}

TEST(Quantised, ReduceScatterAndAllGatherGiveTheExpectedBits) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    on_ranks(ranks, [&](Communicator& comm) {
      const auto p = static_cast<std::size_t>(ranks), own = static_cast<std::size_t>(comm.rank());
      for (const QuantisedType type : kTypes) {
        const Quantise settings{.type = type};
        QuantisedReducer reducer(comm, settings);
        for (const std::size_t chunk : {0, 3, 333, 5001}) {
          std::vector<float> sum(chunk), all(p * chunk), expected;
          reducer.reduce_scatter(values_of(comm.rank(), p * chunk), sum, ReduceOp::average);
          require(same_bits(sum, sum_of_chunk(settings, ranks, p * chunk, own * chunk, chunk, static_cast<float>(p))),
                  "the mean of the own chunk");
          reducer.all_gather(values_of(comm.rank(), chunk), all);
          for (int rank = 0; rank < ranks; ++rank) {
            const std::vector<float> back = through_codes(settings, values_of(rank, chunk));
            expected.insert(expected.end(), back.begin(), back.end());
          }
          require(same_bits(all, expected), "all ranks' chunks");
        }
      }
    });
  }
}

TEST(Quantised, OtherFloatsTravelAsTheSameCodes) {
  on_ranks(3, [](Communicator& comm) {
    QuantisedReducer reducer(comm, {});
    for (const DType type : {DType::bfloat16, DType::float16}) {
      std::vector<std::uint16_t> halves(5000);
      const std::vector<float> values = values_of(comm.rank(), halves.size());
      kernels::find_convert(DType::float32, type)(halves.data(), values.data(), halves.size());
      std::vector<float> wide(halves.size());
      kernels::find_convert(type, DType::float32)(wide.data(), halves.data(), halves.size());
      reducer.all_reduce(wide, ReduceOp::average);
      std::vector<std::uint16_t> expected(halves.size());
      kernels::find_convert(DType::float32, type)(expected.data(), wide.data(), wide.size());
      reducer.all_reduce(halves.data(), halves.size(), type, ReduceOp::average);
      require(halves == expected, "rounded once more at the end");
    }
  });
}

TEST(Quantised, CountedBytesAreTheFormula) {
  for (const int ranks : {1, 3, 4}) {
    on_ranks(ranks, [&](Communicator& comm) {
      const auto p = static_cast<std::size_t>(ranks);
      for (const QuantisedType type : kTypes) {
        const Quantise settings{.type = type, .block = 32};
        QuantisedReducer reducer(comm, settings);
        const auto counted = [&](Verb verb, const auto& call) {
          const Counters before = comm.counters();
          call();
          const Counters after = comm.counters();
          require(after[verb].calls == before[verb].calls + 1, "one call");
          return after[verb].bytes - before[verb].bytes;
        };
        std::vector<float> values = values_of(comm.rank(), 1001), chunk(100), all(100 * p);
        const std::size_t own = (1001 + p - 1) / p;
        const auto reduce = [&] { reducer.all_reduce(values); };
        require(counted(Verb::all_to_all, reduce) == train::exchanged_bytes(settings, ranks, own), "pieces");
        require(counted(Verb::all_gather, reduce) == train::returned_bytes(settings, ranks, own), "results");
        require(counted(Verb::all_to_all, [&] { reducer.reduce_scatter(all, chunk); }) ==
                    train::exchanged_bytes(settings, ranks, 100),
                "reduce_scatter");
        require(counted(Verb::all_gather, [&] { reducer.all_gather(chunk, all); }) ==
                    train::exchanged_bytes(settings, ranks, 100),
                "all_gather");
      }
    });
  }
}

// Whatever a call could not say is in a residual: results and residuals together are the sum of all that was given.
TEST(Quantised, ResidualsHoldExactlyWhatWasLost) {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average}) {
    on_ranks(3, [&](Communicator& comm) {
      constexpr std::size_t kCount = 1000;
      constexpr int kCalls = 20;
      QuantisedReducer reducer(comm, {.type = QuantisedType::int4});
      std::vector<float> residual(kCount);
      std::vector<double> got(kCount), given(kCount);
      for (int call = 0; call < kCalls; ++call) {
        std::vector<float> values = values_of(comm.rank(), kCount, 100 + static_cast<std::uint32_t>(call));
        for (std::size_t i = 0; i < kCount; ++i) given[i] += values[i];
        reducer.all_reduce(values, op, residual);
        for (std::size_t i = 0; i < kCount; ++i) got[i] += values[i];
      }
      std::vector<double> lost(residual.begin(), residual.end());
      comm.all_reduce(lost);
      comm.all_reduce(given);
      double most_lost = 0;
      for (std::size_t i = 0; i < kCount; ++i) {
        const double scale = op == ReduceOp::average ? 3 : 1;
        require(std::abs(got[i] * scale + lost[i] - given[i]) < 1e-4, "nothing is gone");
        most_lost = std::max(most_lost, std::abs(lost[i]));
      }
      require(most_lost > 0.1, "something is lost without residuals");
    });
  }
}

TEST(Quantised, ChanceGivesTheSameBitsAgainAndOthersWithAnotherSeed) {
  const auto reduced = [](Communicator& comm, std::uint64_t seed) {
    QuantisedReducer reducer(comm, {.type = QuantisedType::int4, .stochastic = true, .seed = seed});
    std::vector<float> values = values_of(comm.rank(), 3000);
    reducer.all_reduce(values);
    std::vector<float> all(3 * values.size());
    comm.all_gather(values, all);
    require(same_bits(std::span(all).first(3000), std::span(all).last(3000)), "alike on all ranks");
    return values;
  };
  on_ranks(3, [&](Communicator& comm) {
    const std::vector<float> once = reduced(comm, 1);
    require(same_bits(once, reduced(comm, 1)), "the same again");
    require(!same_bits(once, reduced(comm, 2)), "another seed");
  });
}

TEST(Quantised, NotFiniteValuesAreNamedOnAllRanks) {
  on_ranks(3, [](Communicator& comm) {
    QuantisedReducer reducer(comm, {.block = 32});
    std::vector<float> values = values_of(comm.rank(), 500), residual(500);
    if (comm.rank() == 1) values[333] = std::numeric_limits<float>::infinity();
    if (comm.rank() == 2) values[12] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> before = values;
    const Error error = error_of([&] { reducer.all_reduce(values, ReduceOp::sum, residual); });
    require(error.code() == ErrorCode::invalid_argument && error.peer() == 1, "the first rank that has one");
    require(contains(error.what(), "rank 1: value 333 is not finite"), error.what());
    require(same_bits(values, before), "values are left alone");
    for (const float rest : residual) require(std::isfinite(rest), "residuals are numbers");
    std::vector<float> ones(500, 1.0F), sum(500);
    reducer.all_reduce(ones);
    require(std::abs(ones[0] - 3) < 0.05F, "the reducer goes on");

    QuantisedReducer passing(comm, {.block = 32, .not_finite = NotFinite::pass});
    std::vector<float> passed = before;
    passing.all_reduce(passed);
    std::size_t numbers = 0;
    for (const float value : passed) numbers += std::isfinite(value) ? 1 : 0;
    require(std::isnan(passed[333]) && std::isnan(passed[12]), "NaN where it was");
    require(numbers >= 500 - 64, "and in its block alone");
    const Error gathering = error_of([&] {
      std::vector<float> all(1500);
      reducer.all_gather(before, all);
    });
    require(contains(gathering.what(), "rank 1: value 333"), gathering.what());
  });
}

TEST(Quantised, RanksWithOtherSettingsAreTold) {
  on_ranks(3, [](Communicator& comm) {
    const Error error = error_of([&] {
      const Quantise settings{.type = comm.rank() == 2 ? QuantisedType::int4 : QuantisedType::int8};
      QuantisedReducer reducer(comm, settings);
    });
    require(error.code() == ErrorCode::mismatch, "a mismatch");
    require(contains(error.what(), "rank 2 has int4 in blocks of 128") && contains(error.what(), "rank 0 has int8"),
            error.what());
    // The same words for one op here and another there.
    QuantisedReducer reducer(comm, {});
    std::vector<float> values(100);
    const ReduceOp op = comm.rank() == 1 ? ReduceOp::sum : ReduceOp::average;
    require(error_of([&] { reducer.all_reduce(values, op); }).code() == ErrorCode::mismatch, "other operators");
  });
}

TEST(Quantised, BadInputGetsASentence) {
  on_ranks(2, [](Communicator& comm) {
    for (const std::size_t block : {0, 1, 16, 100, 8192}) {
      const Error error = error_of([&] { QuantisedReducer(comm, {.block = block}); });
      require(contains(error.what(), "a block of " + std::to_string(block) + " values; give a power of two from 32"),
              error.what());
    }
    QuantisedReducer reducer(comm, {});
    std::vector<float> values(10), shorter(9);
    std::vector<int> integers(10);
    const auto words = [](const auto& call) { return std::string(error_of(call).what()); };
    require(contains(words([&] { reducer.all_reduce(integers.data(), 10, DType::int32); }),
                     "int32 cannot be quantised; only float32"),
            "types");
    require(contains(words([&] { reducer.all_reduce(values, ReduceOp::maximum); }), "summed and averaged"), "ops");
    require(contains(words([&] { reducer.all_reduce(values, ReduceOp::sum, shorter); }), "the residual has 9 values"),
            "residuals");
    require(contains(words([&] { reducer.reduce_scatter(shorter, values); }), "has 9 values; it must have 20"), "in");
    require(contains(words([&] { reducer.all_gather(values, shorter); }), "has 9 values; it must have 20"), "out");
    require(
        contains(words([&] { QuantisedReducer(comm, {.type = static_cast<QuantisedType>(9)}); }), "there is no type 9"),
        "no such type");
    train::quantised_all_reduce(comm, values);
    std::vector<float> twice(20);
    train::quantised_all_gather(comm, values, twice);
    train::quantised_reduce_scatter(comm, twice, values);
  });
}

}  // namespace
}  // namespace tutti
