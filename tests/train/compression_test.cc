// Strategies whose gradients travel in fewer bytes: bits, bytes, what is lost and kept, and what users are told.
#include "tutti/train/compression.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "engine/reference.h"
#include "kernels/kernels.h"
#include "train/one_matrix.h"
#include "train/one_process.h"
#include "train/ones.h"
#include "tutti/train/quantised.h"
#include "tutti/train/strategy.h"

namespace tutti {
namespace {

using testing::Bytes;
using testing::contains;
using testing::error_of;
using testing::fill;
using testing::gradient_of;
using testing::kStages;
using testing::make;
using testing::noise;
using testing::on_ranks;
using testing::OneMatrix;
using testing::OneProcess;
using testing::reduce_naively;
using testing::require;
using testing::ToyModel;
using testing::train_step;
using testing::values_of;
using train::Cast;
using train::NotFinite;
using train::Quantise;
using train::QuantisedType;
using train::Strategy;
using train::StrategyOptions;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

Bytes converted(DType from, DType to, const Bytes& bytes) {
  Bytes result(bytes.size() / size_of(from) * size_of(to));
  kernels::find_convert(from, to)(result.data(), bytes.data(), bytes.size() / size_of(from));
  return result;
}

// Matrices are averaged in 16 bits, everything else as it is: the bits of one process that does so.
TEST(CastHook, GivesTheBitsOfOneProcess) {
  for (const DType type : {DType::bfloat16, DType::float16}) {
    for (const int stage : kStages) {
      for (const int ranks : {1, 3}) {
        const ToyModel model;
        OneProcess expected(model, train::AdamW{}, {});
        for (int step = 0; step < 3; ++step) {
          expected.step([&](std::size_t i, const void* values) {
            const train::Parameter& parameter = model.parameters[i];
            const bool is_cast = parameter.shape.size() >= 2;
            const DType travels = is_cast ? type : DType::float32;
            std::vector<Bytes> partial;
            for (int rank = 0; rank < ranks; ++rank) {
              partial.push_back(gradient_of(parameter, i, values, rank, step));
              if (is_cast) partial.back() = converted(DType::float32, type, partial.back());
            }
            Bytes mean = reduce_naively(travels, ReduceOp::average, std::move(partial), parameter.elements());
            return is_cast ? converted(type, DType::float32, mean) : mean;
          });
        }
        on_ranks(ranks, [&](Communicator& comm) {
          Strategy strategy = make(stage, comm, model.parameters, {.compression = Cast{type}});
          for (int step = 0; step < 3; ++step) train_step(strategy, model, comm.rank(), step);
          require(values_of(strategy, model) == expected.values(), "the bits of one process");
        });
      }
    }
  }
}

TEST(QuantiseHook, GivesTheBitsOfAReducerInEveryStage) {
  for (const int stage : kStages) {
    for (const bool feedback : {true, false}) {
      for (const int ranks : {1, 2, 3}) {
        on_ranks(ranks, [&](Communicator& comm) {
          const Quantise settings{.type = feedback ? QuantisedType::int4 : QuantisedType::int8};
          const OneMatrix one;
          Strategy strategy = make(stage, comm, one.parameters, {.compression = settings, .error_feedback = feedback},
                                   train::Sgd{.learning_rate = 1});
          train::QuantisedReducer reducer(comm, settings);
          // Shards are whole blocks; where nothing is cut, nothing is filled up.
          const std::size_t shard = (one.kElements + 1024 * ranks - 1) / (1024 * ranks) * 1024;
          const std::size_t all = stage == 0 ? one.kElements : shard * ranks;
          std::vector<float> expected(one.values), residual(feedback ? all : 0);
          for (int step = 0; step < 4; ++step) {
            std::vector<float> gradient = one.gradient(comm.rank(), step);
            one.step(strategy, gradient);
            gradient.resize(all);
            if (stage == 0) {
              reducer.all_reduce(gradient, ReduceOp::average, residual);
            } else {
              std::vector<float> own(shard);
              reducer.reduce_scatter(gradient, own, ReduceOp::average, residual);
              comm.all_gather(own, gradient);
            }
            for (std::size_t i = 0; i < one.kElements; ++i) expected[i] -= gradient[i];
          }
          require(one.values_in(strategy) == expected, "the values of a reducer");
          strategy.verify();
        });
      }
    }
  }
}

// What all ranks' largest add up to, one rank at a time.
struct SlowTopK {
  std::vector<std::vector<float>> waiting, velocity;
  double momentum;
  std::size_t kept;

  std::vector<float> mean(const std::vector<std::vector<float>>& gradients) {
    std::vector<float> sum(OneMatrix::kElements);
    for (std::size_t rank = 0; rank < gradients.size(); ++rank) {
      std::vector<std::size_t> order(sum.size());
      for (std::size_t i = 0; i < sum.size(); ++i) {
        order[i] = i;
        float& v = velocity[rank][i];
        v = v * static_cast<float>(momentum) + gradients[rank][i];
        waiting[rank][i] += v;
      }
      std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return std::abs(waiting[rank][a]) > std::abs(waiting[rank][b]);
      });
      for (std::size_t k = 0; k < kept; ++k) {
        sum[order[k]] += std::exchange(waiting[rank][order[k]], 0.0F);
        velocity[rank][order[k]] = 0;
      }
    }
    for (float& value : sum) value /= static_cast<float>(gradients.size());
    return sum;
  }
};

TEST(TopKHook, GivesTheBitsOfASlowOneInEveryStage) {
  for (const int stage : kStages) {
    for (const double momentum : {0.0, 0.5}) {
      for (const std::size_t ranks : {1, 3}) {
        const OneMatrix one;
        // Shards are whole blocks; where nothing is cut, nothing is filled up.
        const std::size_t all = (one.kElements + 1024 * ranks - 1) / (1024 * ranks) * 1024 * ranks;
        const train::TopK settings{.share = 0.1, .momentum = momentum};
        SlowTopK slow{.waiting = std::vector(ranks, one.values),
                      .velocity = std::vector(ranks, one.values),
                      .momentum = momentum,
                      .kept = train::kept_count(settings, stage == 0 ? one.kElements : all)};
        std::vector<float> expected(one.values);
        for (int step = 0; step < 5; ++step) {
          std::vector<std::vector<float>> gradients;
          for (std::size_t rank = 0; rank < ranks; ++rank)
            gradients.push_back(one.gradient(static_cast<int>(rank), step));
          const std::vector<float> mean = slow.mean(gradients);
          for (std::size_t i = 0; i < one.kElements; ++i) expected[i] -= mean[i];
        }
        on_ranks(static_cast<int>(ranks), [&](Communicator& comm) {
          Strategy strategy =
              make(stage, comm, one.parameters, {.compression = settings}, train::Sgd{.learning_rate = 1});
          for (int step = 0; step < 5; ++step) one.step(strategy, one.gradient(comm.rank(), step));
          require(one.values_in(strategy) == expected, "the values of a slow one");
        });
      }
    }
  }
}

TEST(TopKHook, FeedbackBringsWhatWasLost) {
  on_ranks(2, [](Communicator& comm) {
    const OneMatrix one;
    std::vector<float> gradient(one.kElements, 0.1F);
    for (std::size_t i = 0; i < gradient.size(); i += 100) gradient[i] = 1;
    const auto trained = [&](bool feedback) {
      Strategy strategy =
          make(0, comm, one.parameters, {.compression = train::TopK{.share = 0.1}, .error_feedback = feedback},
               train::Sgd{.learning_rate = 1});
      for (int step = 0; step < 100; ++step) one.step(strategy, gradient);
      return one.values_in(strategy)[one.kElements - 1];
    };
    require(trained(false) == 0, "never among the largest");
    require(std::abs(trained(true) + 10) < 2, "a hundred times 0.1, but for what waits");
  });
}

TEST(TopKHook, NotFiniteGradientsAreNamed) {
  on_ranks(2, [](Communicator& comm) {
    const OneMatrix one;
    std::vector<float> gradient(one.kElements, 1.0F);
    if (comm.rank() == 1) gradient[2000] = kNaN;
    Strategy strategy = make(0, comm, one.parameters, {.compression = train::TopK{}});
    const Error error = error_of([&] { one.step(strategy, gradient); });
    require(contains(error.what(), "rank 1, parameter \"w\": element 2000 of its gradient is not finite"),
            error.what());
  });
}

// More of them than a step sends.
TEST(TopKHook, NotFiniteGradientsAreSkippedAndForgotten) {
  on_ranks(2, [](Communicator& comm) {
    const OneMatrix one;
    Strategy strategy = make(0, comm, one.parameters,
                             {.compression = train::TopK{.share = 0.5, .momentum = 0.5, .not_finite = NotFinite::pass}},
                             train::Sgd{.learning_rate = 1});
    one.step(strategy, std::vector<float>(one.kElements, comm.rank() == 1 ? kNaN : 0.0F));
    for (const float value : one.values_in(strategy)) require(value == 0, "the step is skipped");
    for (int step = 0; step < 3; ++step) one.step(strategy, one.gradient(comm.rank(), step));
    float most = 0;
    for (const float value : one.values_in(strategy)) {
      require(std::isfinite(value), "numbers");
      most = std::max(most, std::abs(value));
    }
    require(most > 0.5F, "and it goes on");
  });
}

TEST(Compression, CountedBytesAreThoseOfTheSentence) {
  for (const int stage : kStages) {
    for (const train::Compression& compression :
         {train::Compression(Cast{}), train::Compression(Quantise{}),
          train::Compression(Quantise{.type = QuantisedType::e3m0}), train::Compression(train::TopK{}),
          train::Compression(train::PowerSgd{})}) {
      on_ranks(3, [&](Communicator& comm) {
        const ToyModel model;
        Strategy strategy = make(stage, comm, model.parameters, {.bucket_bytes = 8192, .compression = compression});
        for (int step = 0; step < 3; ++step) train_step(strategy, model, comm.rank(), step);
        const Counters before = strategy.counters();
        train_step(strategy, model, comm.rank(), 3);
        const Counters after = strategy.counters();
        const train::Report report = strategy.report();
        for (std::size_t v = 0; v < kVerbs; ++v) {
          const auto verb = static_cast<Verb>(v);
          const train::Spoken said = train::spoken(report.each_step, verb);
          require(after[verb].calls - before[verb].calls == said.calls, std::string(name_of(verb)) + ": calls");
          require(after[verb].bytes - before[verb].bytes == said.bytes, std::string(name_of(verb)) + ": bytes");
        }
        const bool quantises = !std::holds_alternative<Cast>(compression);
        require((report.bytes.errors > 0) == quantises, "memory for what is lost");
        require(contains(train::to_text(report), "for what compression has lost") == quantises, "and it is told");
        // Vectors travel as they are.
        const Verb plain = stage == 0 ? Verb::all_reduce : Verb::reduce_scatter;
        require(train::spoken(report.each_step, plain).calls > 0, "some are not compressed");
      });
    }
  }
}

TEST(Compression, BeginsWithItsStepAndForItsParameters) {
  on_ranks(2, [](Communicator& comm) {
    const ToyModel model;
    Strategy plain = make(0, comm, model.parameters);
    Strategy late = make(0, comm, model.parameters, {.compression = Quantise{}, .compress_from_step = 2});
    for (int step = 0; step < 4; ++step) {
      const std::uint64_t before = late.counters()[Verb::all_to_all].calls;
      train_step(late, model, comm.rank(), step);
      const std::uint64_t calls = late.counters()[Verb::all_to_all].calls - before;
      require((calls > 0) == (step >= 2), "from step 2 on");
      require((train::spoken(late.report().each_step, Verb::all_to_all).calls > 0) == (step >= 2), "as it says");
      if (step < 2) train_step(plain, model, comm.rank(), step);
      require((values_of(plain, model) == values_of(late, model)) == (step < 2), "plain until then");
    }
    Strategy chosen = make(0, comm, model.parameters,
                           {.compression = Quantise{},
                            .compresses = [](const train::Parameter& parameter) { return parameter.name == "b1"; }});
    train_step(chosen, model, comm.rank(), 0);
    // One bucket of 33 numbers.
    require(
        train::spoken(chosen.report().each_step, Verb::all_to_all).bytes == train::exchanged_bytes(Quantise{}, 2, 17),
        "b1 alone");
  });
}

// What int4 rounds away in every step adds up, or comes in later.
TEST(QuantiseHook, FeedbackBringsWhatWasLost) {
  on_ranks(2, [](Communicator& comm) {
    const OneMatrix one;
    std::vector<float> gradient(one.kElements, 0.01F);
    for (std::size_t i = 0; i < gradient.size(); i += 16) gradient[i] = 1;
    const auto trained = [&](bool feedback) {
      Strategy strategy = make(0, comm, one.parameters,
                               {.compression = Quantise{.type = QuantisedType::int4}, .error_feedback = feedback},
                               train::Sgd{.learning_rate = 1});
      for (int step = 0; step < 100; ++step) one.step(strategy, gradient);
      return one.values_in(strategy)[1];
    };
    require(trained(false) == 0, "0.01 is nothing beside 1");
    require(std::abs(trained(true) + 1) < 0.2F, "a hundred times 0.01");
  });
}

TEST(QuantiseHook, WeighsByExamples) {
  for (const int stage : kStages) {
    on_ranks(2, [&](Communicator& comm) {
      const OneMatrix one;
      Strategy strategy =
          make(stage, comm, one.parameters, {.compression = Quantise{}}, train::Sgd{.learning_rate = 1});
      const std::vector<float> gradient(one.kElements, comm.rank() == 0 ? 4.0F : 8.0F);
      for (const double examples : {comm.rank() == 0 ? 3.0 : 1.0, comm.rank() == 0 ? 2.0 : 0.0}) {
        strategy.weight(examples);
        if (examples > 0) {
          one.step(strategy, gradient);
        } else {
          strategy.step();
        }
      }
      // (3 * 4 + 1 * 8) / 4 = 5, then 4 of rank 0 alone.
      for (const float value : one.values_in(strategy)) require(std::abs(value + 9) < 1e-4F, "the mean over examples");
    });
  }
}

TEST(QuantiseHook, NotFiniteGradientsAreNamedOrSkipped) {
  for (const int stage : kStages) {
    on_ranks(3, [&](Communicator& comm) {
      const OneMatrix one;
      std::vector<float> gradient(one.kElements, 1.0F), bad = gradient;
      if (comm.rank() == 1) bad[100] = kNaN;
      Strategy skipping = make(stage, comm, one.parameters, {.compression = Quantise{.not_finite = NotFinite::pass}},
                               train::Sgd{.learning_rate = 1});
      one.step(skipping, gradient);
      skipping.zero_gradients();
      skipping.gather(0);
      skipping.release(0);
      std::memcpy(skipping.gradient(0), bad.data(), bad.size() * sizeof(float));
      skipping.ready(0);
      require(skipping.step().skipped, "the step is skipped on all ranks");
      one.step(skipping, gradient);
      for (const float value : one.values_in(skipping)) require(std::abs(value + 2) < 1e-4F, "two steps of 1");

      Strategy failing = make(stage, comm, one.parameters, {.compression = Quantise{}});
      const Error error = error_of([&] { one.step(failing, bad); });
      require(error.code() == ErrorCode::invalid_argument && error.peer() == 1, error.what());
      require(contains(error.what(), "rank 1, parameter \"w\": element 100 of its gradient is not finite"),
              error.what());
    });
  }
}

TEST(QuantiseHook, LossScaleShrinksWhereGradientsOverflow) {
  on_ranks(2, [](Communicator& comm) {
    const OneMatrix one;
    Strategy strategy =
        make(0, comm, one.parameters, {.loss_scale = train::LossScale{.initial = 8}, .compression = Quantise{}},
             train::Sgd{.learning_rate = 1});
    std::vector<float> gradient(one.kElements, comm.rank() == 1 ? kNaN : 8.0F);
    one.step(strategy, gradient);
    require(strategy.loss_scale() == 4, "halved");
    gradient.assign(one.kElements, 4.0F);
    one.step(strategy, gradient);
    for (const float value : one.values_in(strategy))
      require(std::abs(value + 1) < 1e-4F, "one step of 1, not " + std::to_string(value));
  });
}

// What was lost is in the unit of a step's gradients, which the loss scale changes.
TEST(QuantiseHook, LossScaleRescalesWhatWasLost) {
  on_ranks(2, [](Communicator& comm) {
    const OneMatrix one;
    Strategy strategy = make(0, comm, one.parameters,
                             {.loss_scale = train::LossScale{.initial = 4, .interval = 1},
                              .compression = Quantise{.type = QuantisedType::int4}},
                             train::Sgd{.learning_rate = 1});
    // Beside 7 an int4 says nothing of 0.4, neither at once nor with nothing more; with 0.2 it is more than a half.
    for (const float unit : {4.0F, 8.0F}) {
      std::vector<float> gradient(one.kElements, unit == 4 ? 0.4F * unit : 0.0F);
      for (std::size_t i = 0; i < gradient.size(); i += 16) gradient[i] = 7 * unit;
      one.step(strategy, gradient);
    }
    require(strategy.loss_scale() == 16, "it has grown twice");
    require(one.values_in(strategy)[1] == 0, "less than half a step is lost");
    std::vector<float> gradient(one.kElements, 0.2F * 16);
    for (std::size_t i = 0; i < gradient.size(); i += 16) gradient[i] = 7 * 16;
    one.step(strategy, gradient);
    require(std::abs(one.values_in(strategy)[1] + 1) < 1e-3F, "0.4 and 0.2 are 1");
  });
}

TEST(Compression, TakesGradientsOf16Bits) {
  for (const int stage : kStages) {
    on_ranks(2, [&](Communicator& comm) {
      const ToyModel model(DType::bfloat16);
      Strategy plain = make(stage, comm, model.parameters, {}, train::Sgd{.learning_rate = 0.1});
      Strategy codes =
          make(stage, comm, model.parameters, {.compression = Quantise{}}, train::Sgd{.learning_rate = 0.1});
      Strategy cast = make(stage, comm, model.parameters, {.compression = Cast{}}, train::Sgd{.learning_rate = 0.1});
      for (int step = 0; step < 2; ++step)
        for (Strategy* strategy : {&plain, &codes, &cast}) train_step(*strategy, model, comm.rank(), step);
      require(values_of(plain, model) == values_of(cast, model), "16 bits stay as they are");
      const std::vector<Bytes> exact = values_of(plain, model), near = values_of(codes, model);
      for (std::size_t i = 0; i < exact.size(); ++i) {
        const std::size_t count = model.parameters[i].elements();
        const std::vector<float> a = testing::to_floats(exact[i].data(), DType::bfloat16, count),
                                 b = testing::to_floats(near[i].data(), DType::bfloat16, count);
        for (std::size_t e = 0; e < count; ++e) require(std::abs(a[e] - b[e]) < 0.02F, "near the plain values");
      }
      codes.verify();
    });
  }
}

TEST(Compression, OtherHooksOnOtherRanksAreTold) {
  on_ranks(2, [](Communicator& comm) {
    const OneMatrix one;
    const auto words = [&](const StrategyOptions& options) {
      const Error error = error_of([&] { make(0, comm, one.parameters, options); });
      require(error.code() == ErrorCode::mismatch, error.what());
      return std::string(error.what());
    };
    const bool first = comm.rank() == 0;
    StrategyOptions options;
    if (first) options.compression = Cast{};
    if (!first) options.compression = Quantise{};
    std::string said = words(options);
    require(contains(said, "compression cast to bfloat16") && contains(said, "compression int8 in blocks of 128"),
            said);
    said = words({.compression = Quantise{}, .compresses = [&](const train::Parameter&) { return first; }});
    require(contains(said, "parameter \"w\", float32 [64, 33], compressed"), said);
  });
}

TEST(Compression, BadSettingsGetASentence) {
  on_ranks(2, [](Communicator& comm) {
    const OneMatrix one;
    const auto words = [&](const StrategyOptions& options) {
      return std::string(error_of([&] { make(1, comm, one.parameters, options); }).what());
    };
    require(contains(words({.compression = Cast{DType::float64}}), "cannot be cast to float64; take bfloat16"), "cast");
    require(contains(words({.compression = train::TopK{.share = 0}}), "a share of 0.000000; give one above 0"),
            "share");
    require(contains(words({.compression = train::TopK{.momentum = 1}}), "with momentum 1.000000; give one"),
            "momentum");
    require(contains(words({.compression = Quantise{.block = 100}}), "a block of 100 values"), "block");
    require(contains(words({.compression = Quantise{}, .compress_from_step = -1}), "compress_from_step is -1"), "from");
  });
}

// Before there is memory for them, so that nothing is ever read of these.
TEST(Compression, OfMoreNumbersThanTopKHasPlacesForIsRefused) {
  on_ranks(2, [](Communicator& comm) {
    const float none = 0;
    const train::Parameters parameters{{.name = "small", .shape = {2, 3}, .values = &none},
                                       {.name = "large", .shape = {65536, 65537}, .values = &none}};
    for (const int stage : {0, 3}) {
      const Error error = error_of([&] { make(stage, comm, parameters, {.compression = train::TopK{}}); });
      require(error.code() == ErrorCode::invalid_argument &&
                  contains(error.what(), "parameter \"large\", float32 [65536, 65537] is in a bucket of 4295") &&
                  contains(error.what(), "the places of 4294967296 at most; have `compresses` leave it out"),
              error.what());
    }
  });
}

// A rank that fails leaves exchanges under way behind, and all ranks hear why.
TEST(Compression, ARankThatFailsIsExplained) {
  on_ranks(2, [](Communicator& comm) {
    const ToyModel model;
    Strategy strategy = make(0, comm, model.parameters, {.bucket_bytes = 4096, .compression = Quantise{}});
    train_step(strategy, model, comm.rank(), 0);
    strategy.zero_gradients();
    const Error error = error_of([&] {
      for (std::size_t i = strategy.size(); i-- > (comm.rank() == 1 ? 2U : 0U);) strategy.ready(i);
      strategy.step();
    });
    require(contains(error.what(), "rank 1: no gradient came of \"embedding\", \"w1\""), error.what());
  });
}

}  // namespace
}  // namespace tutti
