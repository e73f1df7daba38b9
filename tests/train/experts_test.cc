// Experts over ranks against the dense computation, capacity and drops, the router's gradient, bytes by formula.
#include "tutti/train/experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <thread>

#include "check.h"
#include "train/one_process.h"
#include "train/ones.h"

namespace tutti {
namespace {

using testing::contains;
using ::testing::ElementsAre;
using testing::error_of;
using testing::on_ranks;
using testing::require;
using train::DropPolicy;
using train::Experts;
using train::route;
using train::RouterOptions;
using train::Routing;
using Floats = std::vector<float>;

constexpr std::size_t kWidth = 5;

Floats numbers(std::uint32_t seed, int rank, std::size_t count) {
  Floats made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = testing::noise(seed, rank, i);
  return made;
}

// An expert that works on rows one by one: y = tanh(scale * x).
struct ToyExpert {
  float scale, gradient = 0;

  explicit ToyExpert(int number) : scale(0.5F + 0.25F * static_cast<float>(number)) {}
  void forward(const float* x, float* y) const {
    for (std::size_t i = 0; i < kWidth; ++i) y[i] = std::tanh(scale * x[i]);
  }
  void backward(const float* x, const float* y, const float* dy, float* dx) {
    for (std::size_t i = 0; i < kWidth; ++i) {
      const float inner = dy[i] * (1 - y[i] * y[i]);
      gradient += inner * x[i];
      dx[i] = inner * scale;
    }
  }
};

// Tokens of a rank: their numbers differ, and one rank has none.
struct RankTokens {
  std::size_t count;
  Floats tokens, logits, result_gradient;

  RankTokens(int rank, int experts)
      : count(rank == 1 ? 0 : 7 + 2 * static_cast<std::size_t>(rank)),
        tokens(numbers(1, rank, count * kWidth)),
        logits(numbers(2, rank, count * static_cast<std::size_t>(experts))),
        result_gradient(numbers(3, rank, count * kWidth)) {}
};

struct Outcome {
  Floats result, token_gradient, weight_gradient;
};

// One process, expert by expert over the tokens of all ranks in order.
std::vector<Outcome> dense(int ranks, const RouterOptions& options, std::vector<ToyExpert>& experts) {
  std::vector<Outcome> outcomes;
  const auto top = static_cast<std::size_t>(options.top_k);
  std::vector<RankTokens> all;
  std::vector<Routing> routings;
  for (int rank = 0; rank < ranks; ++rank) {
    all.emplace_back(rank, options.experts);
    routings.push_back(route(all.back().logits, options));
    const std::size_t count = all.back().count;
    outcomes.push_back({Floats(count * kWidth), Floats(count * kWidth), Floats(count * top)});
  }
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const Routing& routing = routings[rank];
    for (std::size_t choice = 0; choice < routing.experts.size(); ++choice) {
      if (!routing.kept[choice]) continue;
      ToyExpert& expert = experts[static_cast<std::size_t>(routing.experts[choice])];
      const std::size_t at = choice / top * kWidth;
      float y[kWidth], dy[kWidth], dx[kWidth], dot = 0;
      expert.forward(all[rank].tokens.data() + at, y);
      for (std::size_t i = 0; i < kWidth; ++i) {
        outcomes[rank].result[at + i] += routing.weights[choice] * y[i];
        dot += all[rank].result_gradient[at + i] * y[i];
        dy[i] = routing.weights[choice] * all[rank].result_gradient[at + i];
      }
      outcomes[rank].weight_gradient[choice] = dot;
      expert.backward(all[rank].tokens.data() + at, y, dy, dx);
      for (std::size_t i = 0; i < kWidth; ++i) outcomes[rank].token_gradient[at + i] += dx[i];
    }
  }
  return outcomes;
}

void compare_with_dense(Communicator& comm, const RouterOptions& options, const train::ExpertsOptions& with = {}) {
  std::vector<ToyExpert> expected_experts;
  for (int e = 0; e < options.experts; ++e) expected_experts.emplace_back(e);
  const Outcome expected = dense(comm.size(), options, expected_experts)[static_cast<std::size_t>(comm.rank())];

  Experts experts(comm, options.experts, kWidth, with);
  const int first = comm.rank() * experts.local_experts();
  std::vector<ToyExpert> own;
  for (int e = 0; e < experts.local_experts(); ++e) own.emplace_back(first + e);
  const RankTokens mine(comm.rank(), options.experts);
  const Routing routing = route(mine.logits, options);
  const auto over_rows = [&](auto&& call) {
    for (int e = 0; e < experts.local_experts(); ++e) {
      for (std::size_t row = experts.begin_of(e); row < experts.begin_of(e) + experts.rows_of(e); ++row)
        call(own[static_cast<std::size_t>(e)], row * kWidth);
    }
  };
  const std::span<const float> came = experts.dispatch(routing, mine.tokens);
  const Floats x(came.begin(), came.end());
  Floats y(x.size()), dx(x.size()), result(mine.tokens.size()), token_gradient(mine.tokens.size());
  Floats weight_gradient(routing.experts.size());
  over_rows([&](ToyExpert& expert, std::size_t at) { expert.forward(x.data() + at, y.data() + at); });
  experts.combine(y, result);
  const std::span<const float> dy = experts.combine_backward(mine.result_gradient, weight_gradient);
  over_rows([&](ToyExpert& expert, std::size_t at) {
    expert.backward(x.data() + at, y.data() + at, dy.data() + at, dx.data() + at);
  });
  experts.dispatch_backward(dx, token_gradient);

  require(result == expected.result, "results have the bits of the dense computation");
  require(token_gradient == expected.token_gradient, "gradients of tokens");
  require(weight_gradient == expected.weight_gradient, "gradients of weights");
  for (int e = 0; e < experts.local_experts(); ++e)
    require(own[static_cast<std::size_t>(e)].gradient == expected_experts[static_cast<std::size_t>(first + e)].gradient,
            "gradient of expert " + std::to_string(first + e));
  const train::Spoken said = spoken(experts.sentence(), Verb::all_to_all);
  const Counters counted = experts.counters();
  require(counted[Verb::all_to_all].calls == said.calls, "calls");
  require(counted[Verb::all_to_all].bytes == said.bytes,
          std::to_string(counted[Verb::all_to_all].bytes) + " bytes, by formula " + std::to_string(said.bytes));
}

TEST(Experts, AreTheDenseComputation) {
  for (const int ranks : {1, 2, 4}) {
    for (const RouterOptions& options :
         {RouterOptions{.experts = 4, .top_k = 2}, RouterOptions{.experts = 8, .top_k = 1},
          RouterOptions{.experts = 8, .top_k = 3, .capacity_factor = 0.7},
          RouterOptions{.experts = 4, .top_k = 2, .capacity_factor = 0.5, .drop = DropPolicy::probability},
          RouterOptions{.experts = 4, .top_k = 4, .renormalise = false}})
      on_ranks(ranks, [&](Communicator& comm) { compare_with_dense(comm, options); });
  }
}

TEST(Experts, AreSoOverTcpAndAcrossHosts) {
  for (const testing::Ranks kind : {testing::Ranks::tcp, testing::Ranks::mixed})
    testing::expect_all_ok(testing::run_ranks(kind, 4, [](Communicator& comm) {
      compare_with_dense(comm, {.experts = 8, .top_k = 2, .capacity_factor = 1});
    }));
}

// Ranks of a host one behind the other, or in turns; and where hosts differ in size, which leaves one level.
TEST(Experts, AreSoInTwoLevels) {
  const auto in_two_levels = [](int ranks, bool has_two, const std::function<bool(int)>& is_on_second) {
    testing::expect_all_ok(testing::run_mixed(
        ranks,
        [&](Communicator& comm) {
          for (const int experts : {ranks, 3 * ranks})
            compare_with_dense(comm, {.experts = experts, .top_k = 2, .capacity_factor = 1}, {.two_levels = true});
          const auto goes_in_two = [&](const train::ExpertsOptions& options) {
            Experts told(comm, ranks, 2, options);
            const Routing routing = route(Floats(static_cast<std::size_t>(4 * ranks), 1), {.experts = ranks});
            told.dispatch(routing, Floats(8));
            return told.sentence()[1].what == "tokens to experts, rows for each rank";
          };
          require(goes_in_two({.two_levels = true}) == has_two, "two levels where hosts have them");
          require(!goes_in_two({}), "and none unless that is asked for");
        },
        {}, is_on_second));
  };
  in_two_levels(4, true, [](int rank) { return rank >= 2; });
  in_two_levels(6, true, [](int rank) { return rank % 2 == 1; });
  in_two_levels(3, false, [](int rank) { return rank == 1; });
  in_two_levels(2, false, [](int rank) { return rank == 1; });
}

TEST(Router, TakesTheBestAndDropsByPolicy) {
  // Four tokens, two experts; all like expert 0 best, the third most of all.
  const Floats logits{1, 0, 2, 0, 4, 0, 3, 0};
  const Routing all = route(logits, {.experts = 2, .top_k = 1});
  EXPECT_THAT(all.load, ElementsAre(4, 0));
  EXPECT_EQ(all.dropped(), 0u);
  const Routing first = route(logits, {.experts = 2, .top_k = 1, .capacity_factor = 1});
  EXPECT_EQ(first.capacity, 2u);
  EXPECT_THAT(first.kept, ElementsAre(true, true, false, false));
  EXPECT_THAT(first.weights, ElementsAre(1, 1, 0, 0));
  const Routing likely =
      route(logits, {.experts = 2, .top_k = 1, .capacity_factor = 1, .drop = DropPolicy::probability});
  EXPECT_THAT(likely.kept, ElementsAre(false, false, true, true));
  EXPECT_THAT(likely.load, ElementsAre(2, 0));
  EXPECT_THAT(likely.chosen, ElementsAre(4, 0));
  EXPECT_EQ(route(logits, {.experts = 2, .top_k = 2, .capacity_factor = 0.3}).capacity, 2u) << "rounded up";
  EXPECT_THAT(route(Floats{1, 1, 1}, {.experts = 3, .top_k = 2}).experts, ElementsAre(0, 1)) << "of equals the first";
}

TEST(Router, BalanceLossIsOneWhereAllAreEven) {
  EXPECT_NEAR(route(Floats{9, 0, 0, 9}, {.experts = 2, .top_k = 1}).balance_loss, 1, 1e-6);
  EXPECT_NEAR(route(Floats{20, 0, 20, 0}, {.experts = 2, .top_k = 1}).balance_loss, 2, 1e-6) << "all to one of two";
}

// Central differences of sum(weight * g) + 0.3 * balance loss, where no choice changes.
TEST(Router, GradientIsThatOfItsWeights) {
  for (const bool renormalise : {true, false}) {
    const RouterOptions options{.experts = 4, .top_k = 2, .capacity_factor = 0.8, .renormalise = renormalise};
    constexpr std::size_t kTokens = 6;
    Floats logits = numbers(5, 0, kTokens * 4);
    for (float& logit : logits) logit *= 3;
    const Routing routing = route(logits, options);
    ASSERT_GT(routing.dropped(), 0u);
    const Floats g = numbers(6, 0, kTokens * 2);
    Floats gradient(logits.size());
    route_backward(routing, g, 0.3, gradient);
    const auto loss = [&](std::size_t i, float by) {
      Floats moved = logits;
      moved[i] += by;
      const Routing there = route(moved, options);
      EXPECT_EQ(there.experts, routing.experts) << "the test needs a smaller step";
      double sum = 0.3 * there.balance_loss;
      for (std::size_t c = 0; c < g.size(); ++c) sum += static_cast<double>(g[c]) * there.weights[c];
      return sum;
    };
    constexpr float kStep = 0.004F;
    for (std::size_t i = 0; i < logits.size(); ++i)
      EXPECT_NEAR(gradient[i], (loss(i, kStep) - loss(i, -kStep)) / (2 * kStep), 1e-4) << i;
  }
}

// Several plans may be open, of rows of any type, and a dispatch goes on by its own.
TEST(Experts, PlansOutliveEachOther) {
  on_ranks(2, [](Communicator& comm) {
    const RouterOptions options{.experts = 4, .top_k = 2};
    Experts experts(comm, 4, kWidth);
    const auto routed = [&](std::uint32_t seed, std::size_t tokens) {
      return route(numbers(seed, comm.rank(), tokens * 4), options);
    };
    const Routing first = routed(1, 6), second = routed(2, 11), third = routed(3, 3);
    const Floats tokens = numbers(4, comm.rank(), 6 * kWidth);
    const std::span<const float> sent = experts.dispatch(first, tokens);
    const Floats outputs(sent.begin(), sent.end());
    const train::DispatchPlan wide = experts.plan(second), narrow = experts.plan(third);
    for (const train::DispatchPlan* plan : {&wide, &narrow}) {
      std::vector<double> rows(plan->order.size() * kWidth), there(plan->rows() * kWidth), back(rows.size());
      for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = 1e-9 * static_cast<double>(i) + comm.rank();
      experts.to_experts(*plan, rows.data(), there.data(), DType::float64);
      experts.to_tokens(*plan, there.data(), back.data(), DType::float64);
      require(back == rows, "rows that come back");
    }
    Floats result(tokens.size()), right(tokens.size());
    experts.combine(outputs, result);  // experts that change nothing: tokens times their weights
    for (std::size_t choice = 0; choice < first.experts.size(); ++choice)
      for (std::size_t i = 0; i < kWidth; ++i)
        right[choice / 2 * kWidth + i] += first.weights[choice] * tokens[choice / 2 * kWidth + i];
    require(result == right, "the dispatch that was open");
  });
}

TEST(Experts, StatisticsAreOfAllRanks) {
  on_ranks(2, [](Communicator& comm) {
    const Floats logits = comm.rank() == 0 ? Floats{5, 0, 5, 0, 5, 0, 5, 0} : Floats{0, 5, 5, 0};
    const auto found = statistics(comm, route(logits, {.experts = 2, .top_k = 1, .capacity_factor = 1.5}));
    require(found.load == std::vector<std::uint64_t>({4, 1}), "loads, of 3 and 1 + 1");
    require(std::abs(found.dropped_share - 1.0 / 6) < 1e-12, "dropped");
    require(std::abs(found.imbalance - 4 / 2.5) < 1e-12, "imbalance");
  });
}

// ---- Ranks that go while others wait for their rows.

void dispatch_some(Experts& experts, Communicator& comm, std::size_t tokens) {
  const Floats logits = numbers(1, comm.rank(), tokens * 4), rows = numbers(2, comm.rank(), tokens * kWidth);
  const Routing routing = route(logits, {.experts = 4, .top_k = 2});
  experts.dispatch(routing, rows);
  Floats result(tokens * kWidth);
  experts.combine(numbers(3, comm.rank(), experts.rows() * kWidth), result);
}

TEST(ExpertDeaths, InTheMiddleOfADispatchAreNamedByTheOthers) {
  for (const testing::Ranks kind : {testing::Ranks::processes, testing::Ranks::tcp}) {
    const auto ends = testing::run_ranks(kind, 4, [](Communicator& comm) {
      Communicator telling = comm.duplicate();
      Experts experts(comm, 4, kWidth);
      if (comm.rank() == 2) {
        std::thread([&] {
          int token = 0;
          telling.recv(one(token), 0);
          ::raise(SIGKILL);
        }).detach();
      }
      const Error error = error_of([&] {
        for (int step = 0;; ++step) {
          if (comm.rank() == 0 && step == 5) telling.send(one(step), 2);
          dispatch_some(experts, comm, 20'000);
        }
      });
      require(error.code() == ErrorCode::peer_lost && error.peer() == 2, error.what());
    });
    EXPECT_EQ(ends[2].signal, SIGKILL) << ends[2].message;
    for (const std::size_t rank : {0u, 1u, 3u}) EXPECT_TRUE(ends[rank].ok()) << rank << ": " << ends[rank].message;
  }
}

// Its exchange goes with the exception, so that the others do not wait for their timeout.
TEST(ExpertDeaths, ARouterThatRefusesALogitEndsTheDispatchOfAll) {
  for (const testing::Ranks kind : {testing::Ranks::threads, testing::Ranks::tcp}) {
    testing::expect_all_ok(testing::run_ranks(kind, 3, [](Communicator& comm) {
      const Error error = error_of([&] {
        Experts experts(comm, 3, kWidth);
        Floats logits(12 * 3);
        if (comm.rank() == 1) logits[16] = NAN;
        experts.dispatch(route(logits, {.experts = 3}), numbers(2, comm.rank(), 12 * kWidth));
      });
      if (comm.rank() == 1) {
        require(error.code() == ErrorCode::invalid_argument && contains(error.what(), "token 5"), error.what());
      } else {
        require(error.code() != ErrorCode::timeout && error.peer() == 1 && contains(error.what(), "rank 1"),
                error.what());
      }
    }));
  }
}

TEST(ExpertMistakes, AreRefusedInWords) {
  const auto refused = [](const RouterOptions& options, const Floats& logits = Floats(8)) {
    return std::string(error_of([&] { route(logits, options); }).what());
  };
  EXPECT_EQ(refused({.experts = 4, .top_k = 5}), "top_k is 5 of 4 experts; give 1 .. 4");
  EXPECT_EQ(refused({.experts = 4, .top_k = 1, .capacity_factor = 0}),
            "a capacity factor of 0 leaves experts nothing to take; give a number above 0, or none to drop nothing");
  EXPECT_EQ(refused({.experts = 3, .top_k = 1}), "8 logits are no whole number of tokens with 3 experts each");
  EXPECT_EQ(refused({.experts = 2, .top_k = 1}, {1, 2, 3, std::nanf("")}),
            "token 1: a logit of the router is not finite");
  on_ranks(2, [](Communicator& comm) {
    const auto words = [](auto&& call) { return std::string(error_of(call).what()); };
    require(contains(words([&] { Experts(comm, 3, 4); }), "3 experts cannot be cut evenly over 2 ranks"), "even");
    require(contains(words([&] { Experts(comm, 2 + 2 * comm.rank(), 4); }),
                     "rank 1 has 4 experts with rows of 4 where rank 0 has 2 experts with rows of 4"),
            "alike");
    Experts experts(comm, 2, 4);
    Floats few(3);
    const Routing routing = route(Floats(4), {.experts = 2, .top_k = 1});
    require(contains(words([&] { experts.dispatch(routing, few); }), "tokens has 3 numbers, and 2 rows of 4"),
            "length");
    require(contains(words([&] { experts.combine(few, few); }), "nothing was dispatched"), "order");
    require(contains(words([&] { experts.dispatch(route(Floats(4), {.experts = 4}), Floats(4)); }), "4 experts, and"),
            "other experts");
  });
}

}  // namespace
}  // namespace tutti
