// Optimizers as callers use them: values of torch.optim, 16-bit gradients and copies, shards, and refusals.
#include "tutti/train/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "check.h"

namespace tutti::train {
namespace {

using tutti::testing::error_of;

// Element i of the gradient of a step.
double gradient_at(std::size_t i, int step) {
  return ((i + static_cast<std::size_t>(step)) % 2 == 0 ? 1 : -1) * (0.5 + 0.25 * static_cast<double>(i)) / (step + 1);
}

// Parameters with their states.
struct Model {
  std::vector<float> master, states[2];

  explicit Model(std::size_t count) : master(count), states{std::vector<float>(count), std::vector<float>(count)} {
    for (std::size_t i = 0; i < count; ++i) master[i] = 1.0F - 0.5F * static_cast<float>(i);
  }
  Shard shard(const std::vector<float>& gradient, std::size_t begin = 0, std::size_t count = ~std::size_t{0}) {
    return {.count = std::min(count, master.size() - begin),
            .master = master.data() + begin,
            .gradient = gradient.data() + begin,
            .states = {states[0].data() + begin, states[1].data() + begin}};
  }
};

std::vector<float> gradient_of(std::size_t count, int step) {
  std::vector<float> gradient(count);
  for (std::size_t i = 0; i < count; ++i) gradient[i] = static_cast<float>(gradient_at(i, step));
  return gradient;
}

struct TorchCase {
  const char* name;
  Optimizer optimizer;
  double after_10_steps[5];
};

// With torch 2.15 in float64:
//   p = torch.tensor([1, 0.5, 0, -0.5, -1], dtype=torch.float64, requires_grad=True)
//   o = torch.optim.AdamW([p], lr=1e-2, weight_decay=0.1)       # Adam, SGD, SGD(momentum=0.9), SGD(..., nesterov=True)
//   for s in range(1, 11):
//     p.grad = torch.tensor([(-1) ** (i + s) * (0.5 + 0.25 * i) / (s + 1) for i in range(5)], dtype=torch.float64)
//     o.step()
const TorchCase kTorch[] = {
    {"AdamW",
     AdamW{.learning_rate = 1e-2, .weight_decay = 0.1},
     {1.0124654, 0.472601924, 0.0224205165, -0.517442957, -0.967624363}},
    {"Adam",
     Adam{.learning_rate = 1e-2, .weight_decay = 0.1},
     {0.967407091, 0.459813764, 0.0221850353, -0.510270663, -0.959515424}},
    {"Sgd",
     Sgd{.learning_rate = 1e-2, .weight_decay = 0.1},
     {0.99134773, 0.493068166, 0.00260569933, -0.498279564, -0.986136331}},
    {"SgdMomentum",
     Sgd{.learning_rate = 1e-2, .momentum = 0.9, .weight_decay = 0.1},
     {0.968887944, 0.464626199, 0.0198177732, -0.504261745, -0.929252398}},
    {"SgdNesterov",
     Sgd{.learning_rate = 1e-2, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true},
     {0.963472717, 0.46146406, 0.0202722986, -0.502008657, -0.92292812}},
};

class TorchTest : public ::testing::TestWithParam<TorchCase> {};

TEST_P(TorchTest, TenStepsGiveTheValuesOfTorch) {
  Model model(5);
  for (int step = 1; step <= 10; ++step) update(GetParam().optimizer, step, model.shard(gradient_of(5, step)));
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(model.master[i], GetParam().after_10_steps[i], 5e-7) << i;
}

std::string case_name(const ::testing::TestParamInfo<TorchCase>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Optimizers, TorchTest, ::testing::ValuesIn(kTorch), case_name);

// By hand: both betas 0.5 and decay 1/4, all of which float32 holds exactly.
TEST(LionTest, MovesByTheSignOfTheMomentum) {
  const Lion lion{.learning_rate = 0.5, .beta1 = 0.5, .beta2 = 0.75, .weight_decay = 0.5};
  Model model(3);  // 1, 0.5, 0
  update(lion, 1, model.shard({4, -8, 0}));
  EXPECT_EQ(model.master, (std::vector<float>{0.25, 0.875, 0}));
  EXPECT_EQ(model.states[0], (std::vector<float>{1, -2, 0}));
  update(lion, 2, model.shard({-2, 2, 1}));
  EXPECT_EQ(model.master, (std::vector<float>{0.6875, 0.65625, -0.5}));
  EXPECT_EQ(model.states[0], (std::vector<float>{0.25, -1, 0.25}));
}

const Optimizer kAll[] = {
    AdamW{}, Adam{.weight_decay = 0.1}, Sgd{}, Sgd{.momentum = 0.9}, Sgd{.momentum = 0.9, .nesterov = true}, Lion{}};

TEST(OptimizerTest, HasAsManyStatesAsItSays) {
  const int expected[] = {2, 2, 0, 1, 1, 1};
  for (std::size_t i = 0; i < std::size(kAll); ++i) EXPECT_EQ(state_arrays(kAll[i]), expected[i]) << i;
  EXPECT_EQ(learning_rate_of(Lion{}), 1e-4);
}

TEST(OptimizerTest, StatesThatItLacksMayBeMissing) {
  for (const Optimizer& optimizer : kAll) {
    Model model(10);
    const std::vector<float> gradient = gradient_of(10, 1);
    Shard shard = model.shard(gradient);
    for (int i = state_arrays(optimizer); i < 2; ++i) shard.states[i] = nullptr;
    update(optimizer, 1, shard);
    EXPECT_NE(model.master[0], 1.0F);
  }
}

// ZeRO on any number of ranks trains to these bits.
TEST(OptimizerTest, ShardsGiveTheBitsOfTheWhole) {
  constexpr std::size_t kCount = 5003;
  for (const Optimizer& optimizer : kAll) {
    Model whole(kCount);
    for (int step = 1; step <= 5; ++step) update(optimizer, step, whole.shard(gradient_of(kCount, step)), 0.3);
    for (const std::size_t ranks : {2, 3, 7}) {
      Model cut(kCount);
      const std::size_t each = (kCount + ranks - 1) / ranks;
      for (int step = 1; step <= 5; ++step) {
        const std::vector<float> gradient = gradient_of(kCount, step);
        for (std::size_t rank = 0; rank < ranks; ++rank) {
          update(optimizer, step, cut.shard(gradient, rank * each, each), 0.3);
        }
      }
      EXPECT_EQ(cut.master, whole.master) << ranks;
      for (int i = 0; i < state_arrays(optimizer); ++i) EXPECT_EQ(cut.states[i], whole.states[i]) << ranks;
    }
  }
}

// One parameter whose states have 8 bits.
struct FewBits {
  explicit FewBits(std::size_t count) : master(count, 0.5F) {
    for (auto& array : codes) array.resize(state_bytes(kFewBits, count));
  }
  Shard shard(const std::vector<float>& gradient, std::size_t first, std::size_t count) {
    const std::size_t at = state_bytes(kFewBits, first);
    return {.count = count,
            .master = master.data() + first,
            .gradient = gradient.data() + first,
            .codes = {codes[0].data() + at, codes[1].data() + at},
            .first = first};
  }
  static constexpr AdamW kFewBits{.state = StateType::eight_bits};
  std::vector<float> master;
  std::vector<std::byte> codes[2];
};

TEST(StatesOf8Bits, HaveTheSameBitsHoweverTheyAreCut) {
  constexpr std::size_t kCount = 20000;
  EXPECT_EQ(state_bytes(FewBits::kFewBits, kCount), kCount + 79 * 4);
  EXPECT_EQ(state_bytes(AdamW{}, kCount), 4 * kCount);
  FewBits whole(kCount), cut(kCount);
  for (int step = 1; step <= 5; ++step) {
    const std::vector<float> gradient = gradient_of(kCount, step);
    update(FewBits::kFewBits, step, whole.shard(gradient, 0, kCount), 0.3);
    for (std::size_t first = 0, count = 256; first < kCount; first += count, count = count * 3 / 256 * 256)
      update(FewBits::kFewBits, step, cut.shard(gradient, first, std::min(count, kCount - first)), 0.3);
  }
  EXPECT_EQ(cut.master, whole.master);
  for (int state = 0; state < 2; ++state) EXPECT_EQ(cut.codes[state], whole.codes[state]);
}

// A step changes a thousandth of a variance, a hundredth of what codes tell apart: by chance it follows nevertheless.
TEST(StatesOf8Bits, FollowWhatChangesSlowly) {
  constexpr std::size_t kCount = 2048;
  constexpr int kSteps = 4000;
  FewBits few(kCount);
  Model full(kCount);
  full.master = few.master;
  for (int step = 1; step <= kSteps; ++step) {
    std::vector<float> gradient(kCount);
    for (std::size_t i = 0; i < kCount; ++i)
      gradient[i] = std::sin(static_cast<float>(step) * 7 + static_cast<float>(i)) * 0.1F + 0.02F;
    update(FewBits::kFewBits, step, few.shard(gradient, 0, kCount));
    update(AdamW{}, step, full.shard(gradient));
  }
  double few_moved = 0, full_moved = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_NEAR(few.master[i] - 0.5, full.master[i] - 0.5, 0.4 * std::abs(full.master[i] - 0.5)) << i;
    few_moved += few.master[i] - 0.5;
    full_moved += full.master[i] - 0.5;
  }
  EXPECT_NEAR(few_moved / full_moved, 1, 0.05);
}

TEST(StatesOf8Bits, MistakesGetASentence) {
  FewBits few(600);
  const std::vector<float> gradient(600, 1.0F);
  Shard shard = few.shard(gradient, 256, 100);
  shard.first = 100;
  const auto said = [&] { return std::string(error_of([&] { update(FewBits::kFewBits, 1, shard); }).what()); };
  EXPECT_NE(said().find("a shard begins at element 100 of its parameter; states of 8 bits are cut at multiples of 256"),
            std::string::npos)
      << said();
  shard = few.shard(gradient, 0, 600);
  shard.codes[1] = nullptr;
  EXPECT_NE(said().find("codes[1] is nullptr; AdamW keeps 2 arrays of state"), std::string::npos) << said();
}

TEST(OptimizerTest, TheScaleOfAPowerOfTwoUndoesTheLossScale) {
  Model plain(100), scaled(100);
  std::vector<float> gradient = gradient_of(100, 1);
  update(AdamW{}, 1, plain.shard(gradient));
  for (float& g : gradient) g *= 1024;
  update(AdamW{}, 1, scaled.shard(gradient), 1.0 / 1024);
  EXPECT_EQ(scaled.master, plain.master);
}

TEST(OptimizerTest, ALearningRateThatIsGivenStandsInForItsOwn) {
  Model own(100), given(100);
  const std::vector<float> gradient = gradient_of(100, 1);
  update(Lion{.learning_rate = 0.25}, 1, own.shard(gradient));
  update(Lion{}, 1, given.shard(gradient), 1, 0.25);
  EXPECT_EQ(given.master, own.master);
}

TEST(OptimizerTest, HalvesInAndOut) {
  constexpr std::size_t kCount = 3000;  // more than the tile of a copy in float32
  // Halves of integers: exact in every type.
  std::vector<float> gradient(kCount);
  std::vector<std::uint16_t> bfloat16(kCount), values(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    gradient[i] = 0.5F * static_cast<float>(static_cast<int>(i % 16) - 8);
    std::uint32_t bits;
    std::memcpy(&bits, &gradient[i], sizeof bits);
    bfloat16[i] = static_cast<std::uint16_t>(bits >> 16);
  }
  Model plain(kCount), half(kCount), copied(kCount);
  update(AdamW{}, 1, plain.shard(gradient));
  Shard shard = half.shard(gradient);
  shard.gradient = bfloat16.data();
  shard.gradient_type = shard.values_type = DType::bfloat16;
  shard.values = values.data();
  update(AdamW{}, 1, shard);
  EXPECT_EQ(half.master, plain.master);
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::uint32_t bits = static_cast<std::uint32_t>(values[i]) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    ASSERT_NEAR(value, half.master[i], std::abs(half.master[i]) / 256) << i;
  }
  std::vector<float> floats(kCount);
  shard = copied.shard(gradient);
  shard.values = floats.data();
  update(AdamW{}, 1, shard);
  EXPECT_EQ(floats, plain.master);
  EXPECT_EQ(copied.master, plain.master);
}

TEST(OptimizerTest, BadInputGetsASentence) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  Model model(4);
  const std::vector<float> gradient = gradient_of(4, 1), before = model.master;
  const auto refusal = [&](const Optimizer& optimizer, auto change, std::int64_t step = 1, double scale = 1) {
    Shard shard = model.shard(gradient);
    change(shard);
    const std::string text = error_of([&] { update(optimizer, step, shard, scale); }).what();
    EXPECT_EQ(model.master, before);
    return text;
  };
  const auto as_it_is = [](Shard&) {};
  const auto expect = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect(refusal(AdamW{.learning_rate = -1}, as_it_is), "AdamW has a learning rate of -1; it must be a finite number");
  expect(refusal(AdamW{.beta2 = 1}, as_it_is), "AdamW has a beta2 of 1; it must be at least 0 and less than 1");
  expect(refusal(Sgd{.momentum = kNan}, as_it_is), "Sgd has a momentum of nan");
  expect(refusal(Sgd{.nesterov = true}, as_it_is), "nesterov needs a momentum");
  expect(refusal(Adam{}, as_it_is, 0), "step 0; steps count from 1");
  expect(refusal(Adam{}, as_it_is, 1, kNan), "gradient_scale of nan");
  expect(refusal(Adam{}, [](Shard& s) { s.master = nullptr; }), "master is nullptr");
  expect(refusal(Adam{}, [](Shard& s) { s.gradient = nullptr; }), "gradient is nullptr");
  expect(refusal(Adam{}, [](Shard& s) { s.states[1] = nullptr; }),
         "states[1] is nullptr; Adam keeps 2 arrays of state");
  expect(refusal(Adam{}, [](Shard& s) { s.gradient_type = DType::float64; }),
         "gradients in float64 and values in float32; each must be float32, bfloat16 or float16");
  update(AdamW{}, 1, {});  // nothing to do, and nothing wrong with it
}

}  // namespace
}  // namespace tutti::train
