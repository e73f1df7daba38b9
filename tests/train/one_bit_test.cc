// 1-bit Adam: the bits of a slow process, bytes, what stays as it is, and what users are told.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "check.h"
#include "kernels/quantise.h"
#include "train/one_matrix.h"
#include "train/one_process.h"
#include "train/ones.h"
#include "tutti/train/strategy.h"

namespace tutti {
namespace {

using testing::contains;
using testing::error_of;
using testing::make;
using testing::on_ranks;
using testing::OneMatrix;
using testing::require;
using testing::ToyModel;
using testing::train_step;
using testing::values_of;
using train::AdamW;
using train::NotFinite;
using train::OneBitAdam;
using train::Strategy;
using train::StrategyOptions;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr std::size_t kElements = OneMatrix::kElements;

float f(double x) { return static_cast<float>(x); }

// All ranks, one after the other.
struct SlowOneBit {
  SlowOneBit(std::size_t ranks, const OneBitAdam& settings, std::int64_t from)
      : format{kernels::CodeType::sign, settings.block},
        chunk((kElements + ranks - 1) / ranks),
        frozen_at(from),
        lost(ranks, std::vector<float>(kElements)),
        owner_lost(ranks, std::vector<float>(chunk)),
        values(kElements),
        m(kElements),
        v(kElements) {}

  std::vector<float> said(std::vector<float>& numbers) const {
    std::vector<std::byte> codes(kernels::code_bytes(format, numbers.size()));
    kernels::quantise(format, numbers.data(), numbers.size(), codes.data());
    std::vector<float> said(numbers.size());
    kernels::dequantise(format, codes.data(), numbers.size(), said.data());
    for (std::size_t i = 0; i < said.size(); ++i) numbers[i] -= said[i];
    return said;
  }

  void step(std::int64_t number, const std::vector<std::vector<float>>& gradients) {
    const std::size_t ranks = gradients.size();
    const float root_scale = f(1 / std::sqrt(1 - std::pow(adam.beta2, frozen_at))), most = f(0.1 / std::sqrt(0.001));
    std::vector<float> mean(kElements);
    for (std::size_t owner = 0; owner < ranks; ++owner) {
      const std::size_t first = std::min(owner * chunk, kElements), count = std::min(chunk, kElements - first);
      std::vector<float> sum(chunk);
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        std::vector<float> piece(count);
        for (std::size_t i = 0; i < count; ++i) {
          const std::size_t e = first + i;
          const float momentum = m[e] * f(adam.beta1) + gradients[rank][e] * f(1 - adam.beta1);
          const float exact = momentum / (std::sqrt(v[e]) * root_scale + f(adam.epsilon));
          piece[i] = v[e] == 0 ? 0 : std::clamp(exact, -most, most);
          piece[i] += lost[rank][e];
        }
        const std::vector<float> told = said(piece);
        for (std::size_t i = 0; i < count; ++i) {
          lost[rank][first + i] = piece[i];
          sum[i] = rank == 0 ? told[i] : sum[i] + told[i];
        }
      }
      for (std::size_t i = 0; i < chunk; ++i) sum[i] = sum[i] / static_cast<float>(ranks) + owner_lost[owner][i];
      const std::vector<float> told = said(sum);
      owner_lost[owner] = sum;
      std::copy_n(told.begin(), count, mean.begin() + static_cast<std::ptrdiff_t>(first));
    }
    const float keep = f(1 - adam.learning_rate * adam.weight_decay);
    const float rate = f(adam.learning_rate / (1 - std::pow(adam.beta1, number)));
    for (std::size_t e = 0; e < kElements; ++e) {
      if (v[e] == 0) mean[e] = 0;
      values[e] = values[e] * keep - mean[e] * rate;
      m[e] = mean[e] * (std::sqrt(v[e]) * root_scale + f(adam.epsilon));
    }
  }

  AdamW adam;
  kernels::CodeFormat format;
  std::size_t chunk;
  std::int64_t frozen_at;
  std::vector<std::vector<float>> lost, owner_lost;
  std::vector<float> values, m, v;
};

// Of some columns there are never gradients.
std::vector<float> gradient_of(int rank, int step) {
  std::vector<float> gradient = OneMatrix::gradient(rank, step);
  for (std::size_t e = 0; e < kElements; ++e) {
    gradient[e] += 0.1F * static_cast<float>(e % 7);
    if (e % OneMatrix::kColumns < 3) gradient[e] = 0;
  }
  return gradient;
}

TEST(OneBitAdamHook, GivesTheBitsOfASlowOne) {
  constexpr int kFrom = 3;
  for (const std::size_t ranks : {1, 2, 3}) {
    for (const std::size_t block : {64, 1024}) {
      const OneMatrix one;
      const OneBitAdam settings{.block = block};
      SlowOneBit slow(ranks, settings, kFrom);
      // What plain steps come to has tests of its own: it is taken over from them.
      on_ranks(static_cast<int>(ranks), [&](Communicator& comm) {
        Strategy plain = make(0, comm, one.parameters);
        for (int step = 0; step < kFrom; ++step) one.step(plain, gradient_of(comm.rank(), step));
        if (comm.rank() != 0) return;
        for (const train::OwnedPart& part : plain.owned()) {
          std::copy_n(part.shard.master, part.count, slow.values.begin());
          std::copy_n(part.shard.states[0], part.count, slow.m.begin());
          std::copy_n(part.shard.states[1], part.count, slow.v.begin());
        }
      });
      for (int step = kFrom; step < kFrom + 5; ++step) {
        std::vector<std::vector<float>> gradients;
        for (std::size_t rank = 0; rank < ranks; ++rank) gradients.push_back(gradient_of(static_cast<int>(rank), step));
        slow.step(step + 1, gradients);
      }
      on_ranks(static_cast<int>(ranks), [&](Communicator& comm) {
        Strategy strategy = make(0, comm, one.parameters, {.compression = settings, .compress_from_step = kFrom});
        for (int step = 0; step < kFrom + 5; ++step) one.step(strategy, gradient_of(comm.rank(), step));
        require(one.values_in(strategy) == slow.values, "the values of a slow one");
        strategy.verify();
        for (const train::OwnedPart& part : strategy.owned()) {
          require(std::equal(slow.m.begin(), slow.m.end(), part.shard.states[0]), "its momentum");
          require(std::equal(slow.v.begin(), slow.v.end(), part.shard.states[1]), "the variance of plain steps");
        }
        for (std::size_t row = 0; row < OneMatrix::kRows; ++row)
          require(slow.values[row * OneMatrix::kColumns] == 0, "what has no gradient does not move");
      });
    }
  }
}

TEST(OneBitAdamHook, CountedBytesAreThoseOfTheSentence) {
  for (const int ranks : {1, 3}) {
    on_ranks(ranks, [&](Communicator& comm) {
      const OneMatrix one;
      Strategy strategy = make(0, comm, one.parameters, {.compression = OneBitAdam{}, .compress_from_step = 2});
      const std::size_t chunk = (kElements + static_cast<std::size_t>(ranks) - 1) / static_cast<std::size_t>(ranks);
      const std::size_t codes = (chunk + 1023) / 1024 * 4 + (chunk + 7) / 8;
      for (int step = 0; step < 4; ++step) {
        const Counters before = strategy.counters();
        one.step(strategy, gradient_of(comm.rank(), step));
        const Counters after = strategy.counters();
        const train::Report report = strategy.report();
        for (const Verb verb : {Verb::all_reduce, Verb::all_to_all, Verb::all_gather}) {
          const train::Spoken said = train::spoken(report.each_step, verb);
          // In the first step there is besides what is said once.
          if (step > 0) require(after[verb].calls - before[verb].calls == said.calls, "calls");
          if (step > 0) require(after[verb].bytes - before[verb].bytes == said.bytes, "bytes");
        }
        const auto p = static_cast<std::uint64_t>(ranks);
        const train::Spoken there = train::spoken(report.each_step, Verb::all_to_all);
        const train::Spoken back = train::spoken(report.each_step, Verb::all_gather);
        require(there == (step < 2 ? train::Spoken{} : train::Spoken{1, p * (8 + codes)}), "there");
        require(back == (step < 2 ? train::Spoken{} : train::Spoken{1, p * codes}), "and back");
        require(report.bytes.errors == 4 * (kElements + chunk), "what ranks and owners have lost");
      }
    });
  }
}

// Of a model of matrices and vectors: all of it plain before, and the vectors after.
TEST(OneBitAdamHook, IsAdamWUntilItsStep) {
  on_ranks(2, [](Communicator& comm) {
    const ToyModel model;
    Strategy plain = make(0, comm, model.parameters);
    Strategy signs = make(0, comm, model.parameters, {.compression = OneBitAdam{}, .compress_from_step = 3});
    for (int step = 0; step < 4; ++step) {
      train_step(plain, model, comm.rank(), step);
      train_step(signs, model, comm.rank(), step);
      const auto expected = values_of(plain, model), values = values_of(signs, model);
      require((expected == values) == (step < 3), "plain until then");
    }
    signs.verify();
  });
}

// Minimises the distance to a mean of points that differ from rank to rank, with noise.
double distance_after(Communicator& comm, const StrategyOptions& options, int steps) {
  const OneMatrix one;
  Strategy strategy = make(0, comm, one.parameters, options, AdamW{.learning_rate = 0.02, .weight_decay = 0});
  for (int step = 0; step < steps; ++step) {
    const std::vector<float> values = one.values_in(strategy), noise = one.gradient(comm.rank(), step);
    std::vector<float> gradient(kElements);
    for (std::size_t e = 0; e < kElements; ++e) {
      const float point = std::sin(static_cast<float>(e)) + (comm.rank() == 0 ? 0.5F : -0.5F);
      gradient[e] = (values[e] - point + 0.3F * noise[e]) * (1 + static_cast<float>(e % 5));
    }
    strategy.zero_gradients();
    std::memcpy(strategy.gradient(0), gradient.data(), gradient.size() * sizeof(float));
    strategy.ready(0);
    strategy.step(0.02 * (1 - static_cast<double>(step) / steps));
  }
  const std::vector<float> values = one.values_in(strategy);
  double sum = 0;
  for (std::size_t e = 0; e < kElements; ++e) sum += std::pow(values[e] - std::sin(static_cast<float>(e)), 2);
  return std::sqrt(sum / kElements);
}

TEST(OneBitAdamHook, FindsWhatAdamWFinds) {
  on_ranks(2, [](Communicator& comm) {
    constexpr int kSteps = 600;
    const double plain = distance_after(comm, {}, kSteps);
    StrategyOptions options{.compression = OneBitAdam{.block = 256}, .compress_from_step = 100};
    const double signs = distance_after(comm, options, kSteps);
    options.error_feedback = false;
    const double without = distance_after(comm, options, kSteps);
    const std::string words = std::to_string(plain) + " " + std::to_string(signs) + " " + std::to_string(without);
    require(plain < 0.05 && signs < 0.05, words);
    require(without > 2 * signs, words);
  });
}

// Updates count, those before a checkpoint among them: a run that goes on does not thaw.
TEST(OneBitAdamHook, GoesOnAfterACheckpoint) {
  on_ranks(2, [](Communicator& comm) {
    const OneMatrix one;
    const StrategyOptions options{.compression = OneBitAdam{}, .compress_from_step = 2};
    Strategy first = make(0, comm, one.parameters, options), second = make(0, comm, one.parameters, options);
    for (int step = 0; step < 2; ++step) one.step(first, gradient_of(comm.rank(), step));
    const std::vector<train::OwnedPart> from = first.owned(), to = second.owned();
    for (std::size_t i = 0; i < from.size(); ++i) {
      std::copy_n(from[i].shard.master, from[i].count, to[i].shard.master);
      for (int state = 0; state < 2; ++state)
        std::copy_n(from[i].shard.states[state], from[i].count, to[i].shard.states[state]);
    }
    second.restored(first.updates());
    for (Strategy* strategy : {&first, &second}) one.step(*strategy, gradient_of(comm.rank(), 2));
    require(train::spoken(second.report().each_step, Verb::all_to_all).calls == 1, "it compresses at once");
    require(one.values_in(first) == one.values_in(second), "to the same bits, where nothing was lost before");
  });
}

TEST(OneBitAdamHook, WeighsByExamples) {
  on_ranks(2, [](Communicator& comm) {
    const OneMatrix one;
    const auto trained = [&](bool weighs) {
      Strategy strategy = make(0, comm, one.parameters, {.compression = OneBitAdam{}, .compress_from_step = 1});
      for (int step = 0; step < 4; ++step) {
        std::vector<float> gradient = gradient_of(comm.rank(), step);
        // 3 examples and 1, as means of them or as means that already weigh as much.
        if (weighs) strategy.weight(comm.rank() == 0 ? 3 : 1);
        for (float& value : gradient) value *= weighs ? 1 : comm.rank() == 0 ? 1.5F : 0.5F;
        one.step(strategy, gradient);
      }
      return one.values_in(strategy);
    };
    const std::vector<float> weighed = trained(true), made_so = trained(false);
    for (std::size_t e = 0; e < kElements; ++e) require(std::abs(weighed[e] - made_so[e]) < 1e-5F, "the same");
  });
}

TEST(OneBitAdamHook, TakesGradientsOf16Bits) {
  on_ranks(2, [](Communicator& comm) {
    const ToyModel model(DType::bfloat16);
    Strategy strategy = make(0, comm, model.parameters, {.compression = OneBitAdam{}, .compress_from_step = 2});
    std::vector<testing::Bytes> before;
    for (int step = 0; step < 4; ++step) {
      train_step(strategy, model, comm.rank(), step);
      require(values_of(strategy, model) != before, "it moves");
      before = values_of(strategy, model);
    }
    strategy.verify();
  });
}

TEST(OneBitAdamHook, NotFiniteGradientsAreNamedOrSkipped) {
  for (const float bad : {kNaN, std::numeric_limits<float>::infinity()}) {
    on_ranks(2, [&](Communicator& comm) {
      const OneMatrix one;
      std::vector<float> gradient = gradient_of(comm.rank(), 9);
      if (comm.rank() == 1) gradient[2000] = bad;
      StrategyOptions options{.compression = OneBitAdam{}, .compress_from_step = 1};
      Strategy strict = make(0, comm, one.parameters, options);
      one.step(strict, gradient_of(comm.rank(), 0));
      const Error error = error_of([&] { one.step(strict, gradient); });
      require(contains(error.what(), "rank 1, parameter \"w\": element 2000 of its gradient is not finite"),
              error.what());
      options.loss_scale = train::LossScale{.initial = 8, .interval = 100};
      Strategy scaled = make(0, comm, one.parameters, options);
      one.step(scaled, gradient_of(comm.rank(), 0));
      const std::vector<float> before = one.values_in(scaled);
      const train::StepResult result = one.step(scaled, gradient);
      require(result.skipped && scaled.loss_scale() == 4, "the step is skipped, the scale shrinks");
      require(one.values_in(scaled) == before, "nothing is updated");
      require(!one.step(scaled, gradient_of(comm.rank(), 2)).skipped, "and it goes on");
      scaled.verify();
      for (const float value : one.values_in(scaled)) require(std::isfinite(value), "with numbers");
    });
  }
}

TEST(OneBitAdamHook, BadSettingsGetASentence) {
  on_ranks(2, [](Communicator& comm) {
    const OneMatrix one;
    const auto words = [&](StrategyOptions options, const train::Optimizer& optimizer = AdamW{}, int stage = 0) {
      if (std::holds_alternative<std::monostate>(options.compression)) options.compression = OneBitAdam{};
      return std::string(error_of([&] { make(stage, comm, one.parameters, options, optimizer); }).what());
    };
    const auto tells = [](const std::string& said, const std::string& part) { require(contains(said, part), said); };
    tells(words({}), "OneBitAdam from step 0 on");
    tells(words({.compress_from_step = 5}, train::Sgd{}), "Sgd has no variance to freeze");
    tells(words({.compress_from_step = 5}, train::Adam{.weight_decay = 0.1}), "Adam with a weight decay");
    tells(words({.compress_from_step = 5}, AdamW{}, 2), "ZeRO stage 2 cuts it; take data_parallel");
    tells(words({.clip_norm = 1, .compress_from_step = 5}), "OneBitAdam with clip_norm");
    tells(words({.measure_noise = true, .compress_from_step = 5}), "OneBitAdam with measure_noise");
    tells(words({.unused_parameters = true, .compress_from_step = 5}), "OneBitAdam with unused_parameters");
    tells(words({.compression = OneBitAdam{.block = 100}, .compress_from_step = 5}), "a block of 100 values");
    const Error error = error_of([&] {
      make(0, comm, one.parameters,
           {.compression = OneBitAdam{.block = comm.rank() == 0 ? 64U : 128U}, .compress_from_step = 1});
    });
    tells(error.what(), "OneBitAdam in blocks of 128");
  });
}

}  // namespace
}  // namespace tutti
