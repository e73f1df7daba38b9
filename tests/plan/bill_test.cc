// The bill of a plan: what stages keep, kernels of attention, experts without room, and how much is exposed.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "plan/jobs.h"

namespace tutti::plan {
namespace {

// What is dropped is neither sent nor computed, as it takes no memory.
TEST(Bill, LeavesOutWhatExpertsHaveNoRoomFor) {
  const auto plan = [](const JobWords& more) {
    return plan_of(with({{"model", "mixtral-8x7b"}, {"cluster", "dgx-h100:1"}, {"strategy", "ep8.zero3"}}, more));
  };
  const JobPlan all = plan({}), half = plan({{"capacity-factor", "0.5"}});
  const auto bytes = [](const JobPlan& of) { return phrase_of(of, "tokens to experts and back")->bytes; };
  EXPECT_DOUBLE_EQ(bytes(half), bytes(all) / 2);
  EXPECT_LT(half.time.products, 0.75 * all.time.products);
  EXPECT_LT(half.time.pointwise, all.time.pointwise);
  EXPECT_LT(half.memory.activations, all.memory.activations);
}

// The first kernels of attention took about twice as long; all else is the same.
TEST(Bill, KnowsTheFirstKernelsOfAttention) {
  const JobPlan now = plan_of(kLlama), first = plan_of(with(kLlama, {{"attention", "flash1"}}));
  EXPECT_GT(first.time.attention, 2 * now.time.attention);
  EXPECT_EQ(first.time.products, now.time.products);
  EXPECT_EQ(first.memory.sum(), now.memory.sum());
  EXPECT_EQ(first.hardware_flops, now.hardware_flops);
  EXPECT_EQ(job_of({{"model", "gpt2"}, {"accelerator", "h100"}}).attention, Attention::flash);
}

// Stages behind the first keep nearly as much where they are interleaved, and the last has the logits besides.
TEST(Bill, KeepsWhatTheScheduleOfStagesKeeps) {
  const JobPlan plan = plan_of({{"layers", "32"},
                                {"hidden", "6144"},
                                {"heads", "48"},
                                {"kv-heads", "8"},
                                {"ffn", "24576"},
                                {"vocab", "256000"},
                                {"dropout", "0"},
                                {"seq", "5264"},
                                {"accelerator", "h100"},
                                {"gpus", "64"},
                                {"global-batch", "128"},
                                {"strategy", "pp4.v8.zero1"},
                                {"micro-batch", "2"}});
  EXPECT_FALSE(plan.fits());
  EXPECT_EQ(std::ranges::max_element(plan.stages, {}, &StagePlan::memory_bytes), plan.stages.end() - 1);
  const auto activations = [&](const JobWords& words, int stage) {
    const Job job = job_of(with({{"model", "gpt3-175b"}, {"accelerator", "h100"}, {"gpus", "64"}}, words));
    return memory_of(job, stage, 12, 0, 0).activations;
  };
  const JobWords plain{{"strategy", "pp8"}, {"global-batch", "256"}, {"micro-batch", "1"}};
  const double one = activations(plain, 7);
  for (int stage = 0; stage < 8; ++stage) {
    EXPECT_NEAR(activations(plain, stage), (8 - stage) * one, 1e-9 * one);
    // By twelve chunks, of which a stage has forwards of all but one, and two more for each stage behind it.
    EXPECT_NEAR(activations(with(plain, {{"strategy", "pp8.v12"}}), stage), (2 * (7 - stage) + 11 * 8 + 1) / 12.0 * one,
                1e-9 * one);
  }
}

// What nothing hides is at most all of it, and the bill has no more than the sentence.
TEST(Bill, ExposesNoMoreThanItSays) {
  const JobWords alone{{"overlap", "none"}, {"seq", "2048"}};
  for (const JobWords& words :
       {JobWords{{"model", "gpt3-13b"}, {"cluster", "dgx-a100:4"}, {"global-batch", "256"}, {"strategy", "pp4"}},
        JobWords{{"model", "gpt3-13b"}, {"cluster", "dgx-a100:4"}, {"global-batch", "256"}, {"strategy", "pp4.v5"}},
        JobWords{{"model", "gpt3-13b"}, {"cluster", "dgx-a100:4"}, {"global-batch", "8"}, {"strategy", "pp4"}},
        JobWords{{"model", "gpt2"},
                 {"cluster", "dgx-a100:4"},
                 {"global-batch", "256"},
                 {"strategy", "zero3"},
                 {"seq", "1024"}},
        JobWords{{"model", "llama3-8b"}, {"cluster", "dgx-h100:8"}, {"global-batch", "1024"}, {"strategy", "zero3"}},
        JobWords{
            {"model", "mixtral-8x7b"}, {"cluster", "dgx-h100:8"}, {"global-batch", "64"}, {"strategy", "ep8.zero3"}}}) {
    const JobPlan plan = plan_of(with(alone, words));
    double said = 0;
    for (const JobPhrase& phrase : plan.sentence) {
      said += phrase.exposed_s;
      EXPECT_LE(phrase.exposed_s, phrase.total_s() * (1 + 1e-9)) << phrase.what;
    }
    EXPECT_LE(plan.gamma_exposed(), plan.gamma_raw() * (1 + 1e-9)) << words.at("strategy");
    EXPECT_NEAR(plan.time.exposed(), said, 1e-9 * said) << words.at("strategy");
  }
}

// The cap is that of the layout that there is: most of a model's tensors are above small ones.
TEST(Bill, TakesTheCapThatExposesLeast) {
  const JobWords llama{{"model", "llama3-8b"}, {"cluster", "dgx-h100:8"}, {"global-batch", "128"}, {"seq", "1024"}},
      gpt{{"model", "gpt2-xl"}, {"cluster", "dgx-a100:4"}, {"global-batch", "64"}, {"seq", "1024"}};
  for (const JobWords& model : {llama, gpt}) {
    for (const char* strategy : {"dp", "zero1", "zero2"}) {
      for (const char* overlap : {"none", "dp"}) {
        const JobWords job = with(model, {{"strategy", strategy}, {"overlap", overlap}, {"micro-batch", "1"}});
        const double chosen = plan_of(with(job, {{"bucket", "auto"}})).time.dp;
        for (const char* cap : {"1", "4", "25", "64", "256", "400"})
          EXPECT_LE(chosen, plan_of(with(job, {{"bucket", cap}})).time.dp * 1.01)
              << strategy << " " << cap << " " << overlap;
      }
    }
  }
}

}  // namespace
}  // namespace tutti::plan
