// The ratio of communication to computation: the tables by their formulas, break-evens that are roots of them.
#include "plan/gamma.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "base/formatted.h"
#include "tutti/error.h"

namespace tutti::plan {
namespace {

std::string line_of(const GammaRow& row) {
  return formatted("%.0f %.0f %.2f %.2f %.3f%s", row.workers, row.local_batch, row.compute_s * 1e3,
                   row.all_reduce_s * 1e3, row.gamma(), row.comm_bound() ? " comm-bound" : "");
}

TEST(Gamma, OfStrongScalingIsTheTableToItsLastDigit) {
  const char* const lines[] = {"1 2048 275.69 0.00 0.000",
                               "4 512 68.92 35.00 0.508",
                               "16 128 17.23 43.75 2.539 comm-bound",
                               "64 32 4.31 45.94 10.664 comm-bound",
                               "256 8 1.08 46.48 43.164 comm-bound",
                               "1024 2 0.27 46.62 173.164 comm-bound"};
  double workers = 1;
  for (const char* line : lines) {
    EXPECT_EQ(line_of(strong_scaling({}, workers)), line);
    workers *= 4;
  }
}

TEST(Gamma, DoesNotDependOnTheModelWithoutLatency) {
  const struct {
    double parameters;
    const char* line;
  } rows[] = {
      {1e8, "0.06 0.66 10.66"}, {7e8, "0.43 4.59 10.66"}, {7e9, "4.31 45.94 10.66"}, {7e10, "43.08 459.38 10.66"}};
  for (const auto& [parameters, line] : rows) {
    const GammaRow row = model_of({}, 64, parameters);
    EXPECT_EQ(formatted("%.2f %.2f %.2f", row.compute_s * 1e3, row.all_reduce_s * 1e3, row.gamma()), line);
  }
  const GammaSettings late{.latency_s = 5e-6};
  EXPECT_GT(model_of(late, 64, 1e8).gamma(), 1.9 * model_of(late, 64, 7e10).gamma());
}

TEST(Gamma, IsOneAtTheBreakEven) {
  for (const double latency_s : {0.0, 5e-6, 1e-3}) {
    for (const double tokens : {1.0, 4.0, 2048.0}) {
      const GammaSettings settings{.tokens_per_example = tokens, .latency_s = latency_s};
      const auto strong = break_even_strong(settings);
      ASSERT_TRUE(strong);
      EXPECT_NEAR(strong_scaling(settings, *strong).gamma(), 1, 1e-9) << latency_s << " " << tokens;
      const auto weak = break_even_weak(settings);
      if (weak) {
        EXPECT_NEAR(weak_scaling(settings, *weak).gamma(), 1, 1e-9) << latency_s << " " << tokens;
      }
    }
  }
  EXPECT_NEAR(*break_even_strong({}), 6.908, 5e-4);
  EXPECT_NEAR(*break_even_strong({.parameters = 1e6}), *break_even_strong({.parameters = 1e12}), 1e-12)
      << "P does not enter";
}

TEST(Gamma, OfWeakScalingMayStayBelowOne) {
  const GammaSettings long_sequences{.tokens_per_example = 2048};
  EXPECT_FALSE(break_even_weak(long_sequences));
  EXPECT_LT(weak_scaling(long_sequences, 1e6).gamma(), 1);
  EXPECT_TRUE(break_even_weak({.tokens_per_example = 2048, .latency_s = 5e-6})) << "rounds add up without end";
}

TEST(Gamma, ExposedIsWhatNothingHides) {
  const GammaRow alone = strong_scaling({.overlap = 0}, 64);
  EXPECT_DOUBLE_EQ(alone.exposed_s, alone.all_reduce_s);
  const GammaRow hidden = strong_scaling({}, 64);
  EXPECT_DOUBLE_EQ(hidden.exposed_s, hidden.all_reduce_s - hidden.compute_s * 2 / 3);
  EXPECT_EQ(strong_scaling({}, 4).exposed_s, 0);
  const GammaRow small = strong_scaling({.overlap = 0, .compress = 4, .every = 100}, 64);
  EXPECT_DOUBLE_EQ(small.exposed_s, alone.all_reduce_s / 400);
  EXPECT_EQ(small.all_reduce_s, alone.all_reduce_s) << "raw is raw";
  const GammaRow rare = strong_scaling({.every = 16}, 64);
  EXPECT_DOUBLE_EQ(rare.exposed_s, hidden.exposed_s / 16) << "one step's backward hides what all 16 wait for";
}

TEST(Gamma, KnowsWhereLatencyMatters) {
  const GammaSettings late{.latency_s = 5e-6};
  for (const double share : {0.5, 0.1}) {
    GammaSettings at = late;
    at.parameters = parameters_where_latency_is(late, 1024, share);
    GammaSettings without = at;
    without.latency_s = 0;
    const double all = strong_scaling(at, 1024).all_reduce_s, bandwidth = strong_scaling(without, 1024).all_reduce_s;
    EXPECT_NEAR((all - bandwidth) / all, share, 1e-12);
  }
}

TEST(Gamma, RefusesWhatIsNoNumberThere) {
  EXPECT_THROW(require_possible({.parameters = 0}), Error);
  EXPECT_THROW(require_possible({.overlap = 1.5}), Error);
  EXPECT_THROW(require_possible({.latency_s = -1}), Error);
  EXPECT_THROW(require_possible({.parameters = 1e308}), Error);
  EXPECT_THROW(require_possible({.bytes_per_s = 1e-300}), Error);
  EXPECT_THROW(require_possible({.every = 1e300}), Error);
  try {
    require_possible({.global_batch = -2});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "--global-batch is -2; give a number above 0");
  }
  require_possible({});
}

// However large what it is made of: as long as that is possible, it is a number.
TEST(Gamma, IsANumber) {
  for (const double large : {1e-30, 1.0, 1e30}) {
    for (const double small : {1e-30, 1.0, 1e30}) {
      const GammaSettings settings{.parameters = large,
                                   .global_batch = large,
                                   .local_batch = large,
                                   .tokens_per_example = large,
                                   .flops_per_s = small,
                                   .bytes_per_s = small,
                                   .latency_s = small};
      require_possible(settings);
      EXPECT_TRUE(std::isfinite(strong_scaling(settings, 64).gamma()));
      EXPECT_TRUE(std::isfinite(weak_scaling(settings, 64).gamma_exposed()));
      for (const auto& workers : {break_even_strong(settings), break_even_weak(settings)})
        EXPECT_TRUE(!workers || std::isfinite(*workers)) << large << " " << small;
    }
  }
}

}  // namespace
}  // namespace tutti::plan
