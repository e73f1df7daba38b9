// Plans: the calibrated runs, memory by its table, bills that add up, sentences as training says them.
#include "plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>

#include "plan/jobs.h"
#include "plan/told.h"
#include "plan/training.h"
#include "strategy/pipeline_play.h"

namespace tutti::plan {
namespace {

using testing::HasSubstr;

// The only published runs that shares of peaks are fitted to.
TEST(Calibration, HoldsOnItsRows) {
  const JobWords usual{{"vocab", "51200"},      {"accelerator", "a100-80"}, {"micro-batch", "16"},
                       {"global-batch", "512"}, {"recompute", "full"},      {"seq", "2048"}};
  const struct {
    const char *layers, *hidden, *gpus, *tp;
    double tflops;
  } rows[] = {{"24", "2304", "32", "1", 137}, {"30", "3072", "64", "2", 138}, {"36", "4096", "128", "4", 142}};
  double errors = 0;
  for (const auto& [layers, hidden, gpus, tp, tflops] : rows) {
    JobWords words = usual;
    words.insert({{"layers", layers}, {"hidden", hidden}, {"gpus", gpus}, {"tp", tp}});
    const JobPlan plan = plan_of(words);
    EXPECT_TRUE(plan.fits()) << hidden;
    const double error = std::abs(plan.hardware_flops_per_device() / 1e12 / tflops - 1);
    EXPECT_LT(error, 0.06) << hidden << ": " << plan.hardware_flops_per_device() / 1e12;
    errors += error;
  }
  EXPECT_LT(errors / 3, 0.04);
  // The row does not say whether stages are interleaved: the share of the peak lies between both readings.
  for (const char* strategy : {"tp8.sp.pp2.dp48.zero1", "tp8.sp.pp2.v3.dp48.zero1"}) {
    const JobPlan h100 = plan_of({{"layers", "84"},
                                  {"hidden", "8192"},
                                  {"vocab", "131072"},
                                  {"accelerator", "h100"},
                                  {"strategy", strategy},
                                  {"gpus", "768"},
                                  {"micro-batch", "1"},
                                  {"global-batch", "384"},
                                  {"seq", "4096"},
                                  {"overlap", "tp"}});
    EXPECT_TRUE(h100.fits());
    EXPECT_NEAR(h100.model_flops_per_device() / 1e12, 419.7, 0.045 * 419.7) << strategy;
  }
}

TEST(Plan, HoldsModelStatesByTheTableOfZero) {
  const double parameters = parameters_of(find_model("llama3-8b")).all;
  const struct {
    const char *zero, *grad_bytes;
    double bytes;
  } table[] = {{"0", "2", 16}, {"1", "2", 4 + 12.0 / 64}, {"2", "2", 2 + 14.0 / 64}, {"3", "2", 16.0 / 64},
               {"0", "4", 18}, {"1", "4", 6 + 12.0 / 64}};
  for (const auto& [zero, grad_bytes, bytes] : table) {
    const MemoryBill memory = plan_of(with(kLlama, {{"zero", zero}, {"grad-bytes", grad_bytes}})).memory;
    EXPECT_NEAR(memory.parameters + memory.gradients + memory.optimizer, bytes * parameters, 1e-6 * parameters) << zero;
  }
}

TEST(Plan, KeepsActivationsByTheFormula) {
  const JobWords gpt{{"model", "gpt3-175b"},
                     {"accelerator", "a100-80"},
                     {"micro-batch", "1"},
                     {"seq", "2048"},
                     {"pp", "8"},
                     {"tp", "8"},
                     {"gpus", "64"},
                     {"global-batch", "64"}};
  const double s = 2048, h = 12288, a = 96, t = 8, layers = 96;
  const auto kept = [&](const JobWords& more) { return plan_of(with(gpt, more)).memory.activations; };
  EXPECT_NEAR(kept({}), s * h * (10 + 24 / t + 5 * a * s / (h * t)) * layers, 1);
  EXPECT_NEAR(kept({{"sp", "1"}}), s * h / t * (34 + 5 * a * s / h) * layers, 1);
  EXPECT_NEAR(kept({{"sp", "1"}, {"recompute", "selective"}}), 34 * s * h / t * layers, 1);
  EXPECT_NEAR(kept({{"recompute", "full"}}), 2 * s * h * layers, 1);
}

// Models of Llama's kind have no dropout, so no masks of it, and keys and values that are narrower.
TEST(Plan, KeepsNoMasksWhereThereIsNoDropout) {
  const ModelShape& model = find_model("llama3-8b");
  const double tokens = 8192, h = model.hidden, q = model.query_width(), kv = model.kv_width(), f = model.ffn;
  const auto kept = [&](const JobWords& more) {
    return plan_of(with(with(kLlama, {{"gpus", "8"}, {"cluster", "dgx-h100:1"}, {"tp", "8"}, {"sp", "1"}}), more))
        .memory.activations;
  };
  EXPECT_NEAR(kept({}), tokens * 32 * (8 * h + 2 * (q + 2 * kv + q) + 6 * f) / 8, 1);
  EXPECT_NEAR(kept({{"dropout", "1"}}), tokens * 32 * (10 * h + 2 * (q + 2 * kv + q) + 6 * f) / 8, 1);
}

// More ranks than heads of keys and values have copies of them.
TEST(Plan, CopiesKeysAndValuesBeyondTheirHeads) {
  const ModelShape& model = find_model("llama3-70b");  // 8 of 64 heads
  const auto elements = [&](int tp, const char* name) {
    for (const ModelTensor& tensor : counted_tensors_of(model, tp))
      if (tensor.name == std::string("layer 0 ") + name) return static_cast<double>(tensor.elements);
    return 0.0;
  };
  EXPECT_EQ(elements(16, "key"), elements(8, "key"));
  EXPECT_EQ(2 * elements(8, "key"), elements(4, "key"));
  EXPECT_EQ(2 * elements(16, "query"), elements(8, "query"));
  EXPECT_THAT(why_not({{"model", "llama3-70b"},
                       {"hidden", "6144"},
                       {"heads", "24"},
                       {"kv-heads", "8"},
                       {"ffn", "24576"},
                       {"accelerator", "h100"},
                       {"gpus", "12"},
                       {"tp", "12"}}),
              HasSubstr("take a tp that divides 8, or a multiple of it"));
}

TEST(Plan, AddsUp) {
  for (const char* strategy :
       {"dp", "zero1", "zero2", "zero3", "tp8.sp.zero1", "tp4.pp2", "tp2.pp4.v2.zero1", "cp2.tp4"}) {
    const JobPlan plan = plan_of(with(kLlama, {{"strategy", strategy}}));
    double time = 0, memory = 0;
    for (const NamedAmount& part : parts_of(plan.time)) time += part.amount;
    for (const NamedAmount& part : parts_of(plan.memory)) memory += part.amount;
    EXPECT_NEAR(time, plan.step_s(), 1e-9 * time) << strategy;
    EXPECT_NEAR(memory, plan.memory.sum(), 1) << strategy;
    EXPECT_GT(plan.gamma_raw(), 0) << strategy;
    double exposed = 0;
    for (const JobPhrase& phrase : plan.sentence) {
      EXPECT_LE(phrase.exposed_s, phrase.total_s() * 1.5 + 1e-3) << strategy << " " << phrase.what;
      exposed += phrase.exposed_s;
    }
    EXPECT_NEAR(exposed, plan.time.exposed(), 0.02 * plan.step_s()) << strategy;
    EXPECT_LT(plan.mfu(), plan.job.accelerator.product_share) << strategy;
  }
}

// The closed form of a pipeline is what its schedule plays.
TEST(Plan, HasTheBubbleOfItsSchedule) {
  const JobPlan plan = plan_of({{"model", "gpt3-13b"},
                                {"accelerator", "a100-80"},
                                {"gpus", "8"},
                                {"pp", "4"},
                                {"tp", "2"},
                                {"micro-batch", "1"},
                                {"global-batch", "16"},
                                {"overlap", "all"},
                                {"vocab", "64"}});
  strategy::PipelineTimes times;
  times.forward = plan.stages[1].forward_s;
  times.backward = plan.stages[1].backward_s;
  const strategy::PlayedPipeline played =
      play_pipeline(strategy::pipeline_programs({train::PipelineSchedule::one_f_one_b, 4, 16, 1}), times);
  EXPECT_NEAR(plan.time.bubble / (played.span - played.work), 1, 0.02);
}

// Bytes and calls of the strategies, by their formulas.
TEST(Plan, SaysWhatStrategiesSay) {
  const double parameters = parameters_of(find_model("llama3-8b")).all;
  const auto said = [&](const JobPlan& plan, Verb verb, const std::string& group) {
    double bytes = 0;
    for (const JobPhrase& phrase : plan.sentence)
      if (phrase.verb == verb && phrase.group == group) bytes += phrase.total_bytes();
    return bytes;
  };
  // Shards of a bucket are equal and whole blocks: what fills them up is on the way, too.
  const double filled = 1.003;
  EXPECT_NEAR(said(plan_of(with(kLlama, {{"strategy", "dp"}})), Verb::all_reduce, "dp"), 2 * parameters, 1e3);
  const JobPlan first = plan_of(with(kLlama, {{"strategy", "zero1"}}));
  for (const Verb verb : {Verb::reduce_scatter, Verb::all_gather}) {
    EXPECT_GE(said(first, verb, "dp"), 2 * parameters);
    EXPECT_LT(said(first, verb, "dp"), filled * 2 * parameters);
  }
  const JobPlan third = plan_of(with(kLlama, {{"strategy", "zero3"}}));
  EXPECT_EQ(third.job.microbatches(), 16);
  const double gathered = said(third, Verb::all_gather, "dp");
  EXPECT_LT(gathered, filled * 2 * 16 * 2 * parameters) << "twice in every micro-batch,";
  EXPECT_GT(gathered, (2 * 34 - 2 * 3 - 2) / (2 * 34.0) * 2 * 16 * 2 * parameters)
      << "but for units that are still there";
  const JobPlan tensor = plan_of(with(kLlama, {{"strategy", "tp8"}}));
  EXPECT_NEAR(said(tensor, Verb::all_reduce, "tp"), 128.0 * 2 * 8192 * ((32 * 4 + 2) * 4096 + 3), 1)
      << "four in every layer, the embedding's, the output layer's and the losses'";
}

void expect_spoken(const JobPlan& plan, const train::Sentence& training, const std::string& where) {
  for (const Verb verb :
       {Verb::all_reduce, Verb::reduce_scatter, Verb::all_gather, Verb::send_recv, Verb::all_to_all}) {
    double calls = 0, bytes = 0;
    for (const JobPhrase& phrase : plan.sentence) {
      if (phrase.verb != verb) continue;
      calls += phrase.times;
      bytes += phrase.times * phrase.bytes;
    }
    const train::Spoken said = spoken(training, verb);
    EXPECT_DOUBLE_EQ(calls, static_cast<double>(said.calls)) << where << ", " << name_of(verb);
    EXPECT_NEAR(bytes, static_cast<double>(said.bytes), 1) << where << ", " << name_of(verb);
  }
}

// What is printed is what tutti::train says, which agreement_test.cc holds to what communicators count.
TEST(Plan, PrintsWhatTrainingSays) {
  const JobWords usual{{"accelerator", "a100-80"}, {"gpus", "6"}, {"micro-batch", "1"}, {"seq", "128"}};
  for (const char* name : {"gpt2", "llama2-7b"}) {
    const ModelShape& model = find_model(name);
    for (const int zero : {0, 1, 2, 3}) {
      const JobPlan plan = plan_of(with(usual, {{"model", name}, {"zero", std::to_string(zero)}}));
      expect_spoken(plan, training_sentence(model, {.stage = zero, .ranks = 6}), to_text(plan.job.parallel));
    }
    const JobPlan local = plan_of(with(usual, {{"model", name}, {"strategy", "diloco20"}}));
    expect_spoken(local, local_updates_sentence(model, 6, 20), "diloco");
  }
  ModelShape model = find_model("gpt2");
  for (const int chunks : {1, 2, 4}) {
    for (const int stages : {2, 3}) {
      JobPlan plan = plan_of(with(usual, {{"model", "gpt2"},
                                          {"gpus", std::to_string(stages)},
                                          {"pp", std::to_string(stages)},
                                          {"interleave", std::to_string(chunks)},
                                          {"global-batch", "6"}}));
      // Which the program calls by itself, behind step().
      EXPECT_EQ(
          std::erase_if(plan.sentence, [](const JobPhrase& said) { return said.what.ends_with("reduce_tied()"); }), 1U);
      const auto kind = chunks == 1 ? train::PipelineSchedule::one_f_one_b : train::PipelineSchedule::interleaved;
      // The busiest stage is the last, which has the logits.
      expect_spoken(plan, pipeline_sentence(model, {kind, stages, 6, chunks}, stages - 1, {128, DType::bfloat16}),
                    "pp" + std::to_string(stages) + ".v" + std::to_string(chunks));
    }
  }
}

TEST(Plan, PrintsWhatTrainingOfACutModelSays) {
  const JobWords usual{{"accelerator", "a100-80"}, {"gpus", "4"}, {"micro-batch", "2"}, {"seq", "128"}};
  for (const char* name : {"gpt2", "llama2-7b"}) {
    for (const bool sequence : {false, true}) {
      const JobPlan plan = plan_of(with(usual, {{"model", name}, {"tp", "4"}, {"sp", sequence ? "1" : "0"}}));
      ASSERT_EQ(plan.job.microbatches(), 1);
      expect_spoken(plan, tensor_sentence(find_model(name), 4, sequence, {256, DType::bfloat16}),
                    to_text(plan.job.parallel));
    }
  }
  JobPlan plan = plan_of(with(usual, {{"model", "mixtral-8x7b"}, {"ep", "4"}}));
  ASSERT_EQ(plan.job.microbatches(), 1);
  std::erase_if(plan.sentence, [](const JobPhrase& phrase) { return phrase.group != "ep"; });
  train::Sentence experts = experts_sentence(plan.job.model, 4, {256, DType::bfloat16});
  for (train::Phrase& phrase : experts) phrase.times *= static_cast<std::uint64_t>(plan.job.model.layers);
  expect_spoken(plan, experts, "ep4");
}

TEST(Plan, PrintsWhatWorkersAndActorsSay) {
  const JobWords usual{{"accelerator", "a100-80"}, {"micro-batch", "1"}, {"seq", "128"}, {"model", "gpt2"}};
  expect_spoken(plan_of(with(usual, {{"strategy", "dp5.ps3"}})), server_sentence(find_model("gpt2"), 3), "dp5.ps3");
  const JobPlan plan = plan_of(with(usual, {{"strategy", "dp1.actors1"}}));
  const train::Sentence actor = actor_sentence(find_model("gpt2"), 4 * 128, {1, 1, 1});
  for (const auto& [planned, said] :
       {std::pair{"weights to actors", "weights"}, {"trajectories of actors", "trajectory"}})
    EXPECT_EQ(phrase_of(plan, planned)->bytes,
              static_cast<double>(std::ranges::find(actor, said, &train::Phrase::what)->bytes))
        << said;
}

// Ranks that share a sequence have the same parameters: gradients go among them, and ZeRO cuts along them.
TEST(Plan, ExchangesGradientsAlongContextParallelism) {
  const JobWords words{{"model", "llama3-8b"}, {"cluster", "dgx-h100:1"}, {"seq", "65536"}};
  const JobPlan whole = plan_of(with(words, {{"strategy", "cp8"}}));
  const JobPhrase* gradients = phrase_of(whole, "gradients");
  ASSERT_NE(gradients, nullptr);
  EXPECT_EQ(gradients->verb, Verb::all_reduce);
  EXPECT_EQ(gradients->group, "dp.cp");
  EXPECT_EQ(gradients->span.ranks(), 8);
  EXPECT_NEAR(gradients->total_bytes(), 16.06e9, 0.01e9);
  const JobPlan cut = plan_of(with(words, {{"strategy", "cp8.zero3"}}));
  ASSERT_NE(phrase_of(cut, "values of a layer"), nullptr);
  EXPECT_EQ(phrase_of(cut, "values of a layer")->span.ranks(), 8);
  EXPECT_NEAR(whole.time.optimizer / cut.time.optimizer, 8, 0.1);
  EXPECT_NEAR(whole.memory.optimizer / cut.memory.optimizer, 8, 1e-9);
  // Along both, and on as many hosts as they lie on.
  const JobPlan both = plan_of(with(words, {{"strategy", "cp4.dp4.zero1"}, {"cluster", "dgx-h100:2"}}));
  EXPECT_EQ(phrase_of(both, "gradients")->span, (GroupSpan{8, 2}));
}

TEST(Plan, GathersValuesOfExpertsAmongTheirReplicas) {
  const JobPlan plan = plan_of({{"model", "mixtral-8x22b"},
                                {"cluster", "dgx-h100:8"},
                                {"strategy", "ep8.zero1"},
                                {"global-batch", "128"},
                                {"micro-batch", "1"},
                                {"seq", "4096"}});
  const JobPhrase *gradients = phrase_of(plan, "gradients of experts"), *values = phrase_of(plan, "values of experts");
  ASSERT_NE(values, nullptr);
  EXPECT_EQ(values->verb, Verb::all_gather);
  EXPECT_EQ(values->span.ranks(), 8);
  EXPECT_NEAR(values->total_bytes(), 33.8e9, 0.1e9);
  EXPECT_DOUBLE_EQ(values->total_bytes(), gradients->total_bytes());
  EXPECT_EQ(phrase_of(plan_of({{"model", "mixtral-8x7b"}, {"cluster", "dgx-h100:1"}, {"strategy", "ep8.zero1"}}),
                      "values of experts"),
            nullptr)
      << "one replica of each";
}

// Replicas that go on by themselves exchange in 32 bits, a fragment in a call, and wait for it.
TEST(Plan, LetsReplicasExchangeNowAndThen) {
  const JobPlan plan = plan_of(with(kLlama, {{"strategy", "diloco50"}}));
  ASSERT_EQ(plan.sentence.size(), 1U);
  const JobPhrase& phrase = plan.sentence.front();
  EXPECT_EQ(phrase.times, 1);
  EXPECT_EQ(phrase.every, 50);
  EXPECT_DOUBLE_EQ(phrase.bytes, 4 * plan.parameters);
  EXPECT_DOUBLE_EQ(phrase.exposed_s, phrase.call_s / 50);
  EXPECT_TRUE(plan.timeline.empty());
  // Ranks that share a sequence are one replica: they exchange gradients in every step.
  const JobPlan shared = plan_of(with(kLlama, {{"strategy", "cp2.diloco50"}}));
  EXPECT_EQ(phrase_of(shared, "gradients")->span.ranks(), 2);
  EXPECT_EQ(phrase_of(shared, "how far replicas came")->span.ranks(), 32);
}

TEST(Plan, PricesFlatRingsAsTheyWere) {
  const JobWords job = with(kLlama, {{"strategy", "zero3"}, {"overlap", "none"}});
  const JobPlan ours = plan_of(job), flat = plan_of(with(job, {{"stack", "flat-ring"}}));
  EXPECT_GT(flat.communication_s, 3 * ours.communication_s) << "one NIC instead of eight";
  // At a fixed batch stage 3 collapses on that stack as devices are added, and tensor and pipeline parallelism hold.
  const JobWords gpt{{"model", "gpt3-175b"},
                     {"accelerator", "a100-80"},
                     {"recompute", "full"},
                     {"global-batch", "1536"},
                     {"stack", "deepspeed-2021"}};
  const auto tflops = [&](const char* strategy, const char* gpus, const char* micro_batch) {
    return plan_of(with(gpt, {{"strategy", strategy}, {"gpus", gpus}, {"micro-batch", micro_batch}}))
        .model_flops_per_device();
  };
  EXPECT_LT(tflops("zero3", "1536", "1"), 0.6 * tflops("zero3", "384", "4"));
  EXPECT_GT(tflops("tp8.pp12", "1536", "1"), 0.7 * tflops("tp8.pp12", "384", "1"));
  EXPECT_GT(tflops("tp8.pp12", "1536", "1"), tflops("zero3", "1536", "1"));
}

// At the critical batch twice the fewest steps are needed; far below it steps fall as batches grow, and the learning
// rate grows with them.
TEST(Plan, CountsStepsToALoss) {
  const auto plan_with = [](const char* batch, const char* critical) {
    return plan_of(with(kLlama, {{"global-batch", batch}, {"critical-batch", critical}, {"tokens", "1e12"}}));
  };
  EXPECT_NEAR(plan_with("2048", "1e9").steps_over(1024), 0.5, 1e-5);
  EXPECT_NEAR(plan_with("2048", "1e9").learning_rate_over(1024), 2, 1e-5);
  EXPECT_NEAR(plan_with("2048", "64").steps_over(1024), (1 + 2048.0 / 64) / (1 + 1024.0 / 64) / 2, 1e-12);
  const JobPlan at_critical = plan_with("1024", "1024");
  EXPECT_DOUBLE_EQ(at_critical.tokens_needed(), 2e12);
  EXPECT_NEAR(at_critical.steps() * at_critical.step_s() * 64 / 3600, at_critical.device_hours(),
              1e-9 * at_critical.device_hours());
}

// Messages between stages cut along tp go with as many gathers there.
TEST(Plan, CutsMessagesBetweenStagesWhereTheStackDoes) {
  const JobWords job = with(kLlama, {{"strategy", "tp8.pp4"}, {"overlap", "none"}});
  const JobPlan whole = plan_of(job), cut = plan_of(with(job, {{"stack", "megatron-2021"}}));
  const auto between = [](const JobPlan& plan, Verb verb) {
    const auto found = std::ranges::find_if(
        plan.sentence, [&](const JobPhrase& phrase) { return phrase.group == "pp" && phrase.verb == verb; });
    return found == plan.sentence.end() ? JobPhrase() : *found;
  };
  EXPECT_DOUBLE_EQ(between(whole, Verb::send_recv).bytes, 8 * between(cut, Verb::send_recv).bytes);
  EXPECT_DOUBLE_EQ(between(cut, Verb::all_gather).bytes, between(whole, Verb::send_recv).bytes);
  EXPECT_EQ(between(cut, Verb::all_gather).times, between(cut, Verb::send_recv).times / 2)
      << "what comes, not what goes";
  EXPECT_LT(cut.time.pp, whole.time.pp);
}

// What hides is not free, but for what copy engines move.
TEST(Plan, ComputesSlowerBesideHiddenCommunication) {
  const JobPlan shown = plan_of(with(kLlama, {{"strategy", "zero1"}, {"overlap", "none"}})),
                hidden = plan_of(with(kLlama, {{"strategy", "zero1"}, {"overlap", "dp"}}));
  EXPECT_EQ(shown.time.contention, 0);
  EXPECT_NEAR(hidden.time.contention, 0.25 * (hidden.communication_s - hidden.time.exposed()),
              0.02 * hidden.time.contention);
  EXPECT_LT(hidden.step_s(), shown.step_s());
  EXPECT_EQ(plan_of(with(kLlama, {{"strategy", "tp8"}, {"gpus", "8"}, {"overlap", "tp"}})).time.contention, 0);
}

// What a rank sends is less than the vector, or up to twice as much; hierarchies cross once for all ranks of a host.
TEST(Plan, CountsWhatARankSendsOverLinks) {
  JobPlan plan = plan_of(with(kLlama, {{"strategy", "tp8"}}));
  plan.sentence.resize(1);
  JobPhrase& phrase = plan.sentence.front();
  phrase.times = phrase.every = 1;
  phrase.bytes = 64;
  const auto sent = [&](Verb verb, GroupSpan span, std::string_view algorithm, double share) {
    phrase.verb = verb;
    phrase.span = span;
    phrase.algorithm = algorithm;
    phrase.sent = share;
    return bytes_by_links(plan);
  };
  using Bytes = std::map<std::string, double>;
  EXPECT_EQ(sent(Verb::all_reduce, {8, 1}, "ring", 1), (Bytes{{"nvswitch", 2 * 7 / 8.0 * 64}}));
  EXPECT_EQ(sent(Verb::all_gather, {1, 4}, "ring", 1), (Bytes{{"ndr", 3 / 4.0 * 64}}));
  EXPECT_EQ(sent(Verb::all_reduce, {8, 4}, "hierarchical", 1),
            (Bytes{{"nvswitch", 2 * 7 / 8.0 * 64}, {"ndr", 2 * 3 / 4.0 * 8}}));
  EXPECT_EQ(sent(Verb::all_to_all, {8, 4}, "spread_out", 1), (Bytes{{"nvswitch", 7 * 2}, {"ndr", 24 * 2}}));
  EXPECT_EQ(sent(Verb::all_to_all, {8, 4}, "hierarchical", 1), (Bytes{{"nvswitch", 7 * 8}, {"ndr", 48}}));
  EXPECT_EQ(sent(Verb::reduce_scatter, {8, 4}, "ring", 1), (Bytes{{"nvswitch and ndr", 31 * 2}}));
  EXPECT_EQ(sent(Verb::send_recv, {1, 2}, "message", 0.5), (Bytes{{"ndr", 32}})) << "half of the messages come in";
}

// What goes to the fullest expert takes as long to bring as to compute: room for less cuts both.
TEST(Plan, CapsWhatExpertsGetAlikeOnTheWayAndThere) {
  const auto bytes = [](const JobWords& more) {
    const JobPlan plan = plan_of(with({{"model", "mixtral-8x7b"},
                                       {"cluster", "dgx-h100:1"},
                                       {"strategy", "ep8.zero3"},
                                       {"seq", "4096"},
                                       {"micro-batch", "1"}},
                                      more));
    return std::pair(phrase_of(plan, "tokens to experts and back")->bytes, plan.time.products);
  };
  const auto even = bytes({}), uneven = bytes({{"imbalance", "1.5"}}),
             room = bytes({{"imbalance", "1.5"}, {"capacity-factor", "1.25"}});
  EXPECT_DOUBLE_EQ(uneven.first, 1.5 * even.first);
  EXPECT_DOUBLE_EQ(room.first, 1.25 * even.first);
  EXPECT_GT(uneven.second, room.second);
  EXPECT_GT(room.second, even.second);
}

TEST(Plan, ServersCarryWhatAllWorkersPush) {
  const JobWords job{{"model", "gpt2"}, {"cluster", "dgx-h100:4"}, {"micro-batch", "1"}, {"seq", "1024"}};
  const auto with = [&](const std::string& strategy, const std::string& batch) {
    JobWords words = job;
    words["strategy"] = strategy;
    words["global-batch"] = batch;
    return plan_of(words);
  };
  const JobPlan one = with("ps1", "31"), four = with("ps4", "28");
  ASSERT_EQ(one.sentence.size(), 3U);
  EXPECT_EQ(one.job.parallel.dp, 31);
  EXPECT_EQ(four.job.parallel.dp, 28);
  for (const JobPlan* plan : {&one, &four})
    EXPECT_NEAR(plan->sentence[0].total_bytes(), 4 * plan->parameters, 1e-4 * plan->parameters)
        << "a worker's gradients, whatever the servers, and commands";
  EXPECT_NEAR(one.time.dp / four.time.dp, 31.0 / 7, 0.3) << "the links of servers are what all wait for";
  EXPECT_GT(one.time.dp, with("dp32", "32").time.dp) << "an all_reduce has no such link";
  EXPECT_THROW(with("tp2.ps2", "15"), Error);
}

TEST(Plan, ActorsAreSentWeightsBehindTheStep) {
  const JobWords job{{"model", "gpt2"}, {"cluster", "dgx-h100:4"},    {"micro-batch", "1"},
                     {"seq", "1024"},   {"strategy", "dp8.actors24"}, {"global-batch", "64"}};
  const JobPlan plan = plan_of(job);
  EXPECT_EQ(plan.job.devices(), 32);
  const auto weights = std::ranges::find(plan.sentence, "weights to actors", &JobPhrase::what);
  ASSERT_NE(weights, plan.sentence.end());
  EXPECT_EQ(weights->times, 3) << "actors of a learner";
  EXPECT_DOUBLE_EQ(weights->bytes, 4 * plan.parameters);
  EXPECT_LT(weights->exposed_s, weights->total_s());
  // Ranks that have a part each send it to all actors of their replica.
  const JobPlan cut = plan_of(with(job, {{"strategy", "tp4.dp2.actors24"}}));
  const JobPhrase* parts = phrase_of(cut, "weights to actors");
  ASSERT_NE(parts, nullptr);
  EXPECT_EQ(parts->times, 12);
  EXPECT_NEAR(parts->bytes * parts->times * 8, 24 * 4 * cut.parameters, 0.03 * 24 * 4 * cut.parameters)
      << "and norms and places, which all have";
}

TEST(Plan, PricesStagesByTheirSlowestBoundary) {
  const JobWords job{{"model", "gpt3-13b"}, {"cluster", "dgx-a100:2"}, {"micro-batch", "1"}, {"global-batch", "16"}};
  const auto links = [&](const std::string& strategy) {
    const JobPlan plan = plan_of(with(job, {{"strategy", strategy}}));
    return phrase_of(plan, "activations and their gradients between stages")->span.hosts;
  };
  EXPECT_EQ(links("tp4.pp4"), 2) << "two of the four stages have another host behind them";
  EXPECT_EQ(links("tp8.pp2"), 2);
  EXPECT_EQ(links("tp4.pp2"), 1);
}

// GPT-2's embedding is its output layer: the first stage and the last one add its gradients up.
TEST(Plan, AddsGradientsOfATiedEmbeddingUpBetweenItsStages) {
  const auto summed = [](const char* model, const char* strategy) -> std::optional<JobPhrase> {
    const JobPlan plan = plan_of({{"model", model}, {"strategy", strategy}, {"accelerator", "h100"}, {"gpus", "16"}});
    for (const JobPhrase& phrase : plan.sentence)
      if (phrase.what.ends_with("reduce_tied()")) return phrase;
    return std::nullopt;
  };
  const auto near = summed("gpt2", "tp2.pp4.dp2");
  ASSERT_TRUE(near);
  EXPECT_EQ(near->verb, Verb::all_reduce);
  EXPECT_NEAR(near->bytes, 2. * 50'257 * 768 / 2, 2. * 768) << "cut along tp, in 16 bits";
  EXPECT_EQ(near->times, 1);
  EXPECT_EQ(near->span, (GroupSpan{2, 1})) << "8 devices of a host";
  EXPECT_GT(near->exposed_s, 0);
  const auto far = summed("gpt2", "tp4.pp4.dp1");
  ASSERT_TRUE(far);
  EXPECT_EQ(far->span, (GroupSpan{1, 2}));
  EXPECT_FALSE(summed("gpt2", "tp2.dp8")) << "one stage";
  EXPECT_FALSE(summed("llama3-8b", "tp2.pp4.dp2")) << "two matrices";
}

TEST(Plan, PositionsBelongToTheFirstStageAlone) {
  const JobPlan plan = plan_of({{"model", "gpt2"}, {"strategy", "pp2"}, {"accelerator", "h100"}, {"gpus", "2"}});
  const ModelShape& model = plan.job.model;
  ASSERT_TRUE(model.tied && model.positions > 0);
  double layers = 0, behind = 0;
  for (const ModelTensor& tensor : tensors_of(model)) {
    if (tensor.layer >= model.layers / 2 && tensor.layer < model.layers) layers += tensor.all_elements();
    if (tensor.layer == model.layers) behind += tensor.all_elements();
  }
  const double hidden = model.hidden, embedding = hidden * model.vocab;
  EXPECT_EQ(plan.stages[1].parameters, layers + behind + embedding);
  EXPECT_EQ(plan.stages[0].parameters, layers + embedding + hidden * model.positions);
}

TEST(Plan, HoldsTheUnitsThatAreGathered) {
  const JobWords job = with(kLlama, {{"strategy", "zero3"}});
  const JobPlan plan = plan_of(job);
  const double of_layer = plan.parameters / plan.job.model.layers;
  const auto working = [&](const JobWords& more) { return plan_of(with(job, more)).memory.working; };
  EXPECT_NEAR(working({}) - working({{"strategy", "zero2"}}), 3 * 2 * of_layer, 1e-3 * of_layer);
  const JobWords alone{{"cluster", ""}, {"accelerator", "h100"}, {"gpus", "1"}, {"global-batch", "1"}};
  EXPECT_EQ(working(alone), working(with(alone, {{"strategy", "zero2"}}))) << "nobody has anything to gather";
}

}  // namespace
}  // namespace tutti::plan
