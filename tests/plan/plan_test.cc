// Plans: the calibrated runs, memory by its table, bills that add up, prices that follow the simulator, the search.
#include "plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>

#include "plan/search.h"
#include "plan/told.h"
#include "strategy/pipeline_play.h"
#include "topology/presets.h"
#include "tutti/error.h"

namespace tutti::plan {
namespace {

using testing::HasSubstr;

Job job_of(const JobWords& words) {
  return question_of(words, [](const std::string& path) -> std::string { throw std::runtime_error(path); }).job;
}

JobPlan plan_of(const JobWords& words) {
  const Job job = job_of(words);
  require_possible(job);
  CollectivePrices prices(job.cluster, job.accelerator, job.stack);
  return plan_job(job, prices);
}

std::string why_not(const JobWords& words) {
  try {
    plan_of(words);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

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
    EXPECT_NEAR(h100.model_flops_per_device() / 1e12, 419.7, 0.04 * 419.7) << strategy;
  }
}

const JobWords kLlama{
    {"model", "llama3-8b"}, {"cluster", "dgx-h100:8"}, {"global-batch", "1024"}, {"micro-batch", "1"}, {"seq", "8192"}};

JobWords with(JobWords words, const JobWords& more) {
  for (const auto& [name, value] : more) words[name] = value;
  return words;
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
  EXPECT_NEAR(said(plan_of(with(kLlama, {{"strategy", "dp"}})), Verb::all_reduce, "dp"), 2 * parameters, 1e3);
  const JobPlan first = plan_of(with(kLlama, {{"strategy", "zero1"}}));
  EXPECT_NEAR(said(first, Verb::reduce_scatter, "dp"), 2 * parameters, 1e3);
  EXPECT_NEAR(said(first, Verb::all_gather, "dp"), 2 * parameters, 1e3);
  const JobPlan third = plan_of(with(kLlama, {{"strategy", "zero3"}}));
  EXPECT_EQ(third.job.microbatches(), 16);
  EXPECT_NEAR(said(third, Verb::all_gather, "dp"), 2 * 16 * 2 * parameters, 1e4) << "twice in every micro-batch";
  const JobPlan tensor = plan_of(with(kLlama, {{"strategy", "tp8"}}));
  EXPECT_NEAR(said(tensor, Verb::all_reduce, "tp"), 128.0 * (32 * 4 + 2) * 2 * 8192 * 4096, 1)
      << "four in every layer, the embedding's and the output layer's";
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

TEST(Prices, OfManyHostsFollowTheSimulator) {
  const Accelerator& h100 = find_accelerator("h100");
  const topology::Topology cluster = topology::find_preset("dgx-h100:32");
  for (const char* stack : {"tutti", "flat-ring"}) {
    CollectivePrices carried_on(cluster, h100, find_stack(stack)), played(cluster, h100, find_stack(stack), 32);
    for (const Verb verb : {Verb::all_reduce, Verb::all_gather, Verb::reduce_scatter}) {
      for (const GroupSpan& span : {GroupSpan{4, 32}, GroupSpan{1, 32}, GroupSpan{4, 24}}) {
        for (const double bytes : {1e4, 1e7, 1e9}) {
          const double exact = played.seconds(verb, span, bytes);
          EXPECT_NEAR(carried_on.seconds(verb, span, bytes), exact, 0.15 * exact)
              << stack << " " << name_of(verb) << " of " << bytes << " on " << span.hosts << " hosts by "
              << played.algorithm(verb, span, bytes);
        }
      }
    }
  }
  CollectivePrices prices(cluster, h100, find_stack("tutti"));
  EXPECT_EQ(prices.seconds(Verb::all_reduce, {1, 1}, 1e9), 0);
  // 1 GB among 8 by NVLink: 2 (p - 1) / p bytes at 450 GB/s, and the share that links give.
  EXPECT_NEAR(prices.seconds(Verb::all_reduce, {8, 1}, 1e9), 1.75e9 / 450e9 / h100.link_share, 4e-4);
}

TEST(Prices, OfSiblingsThatShareANic) {
  const Accelerator& l40s = find_accelerator("l40s");
  CollectivePrices prices(topology::find_preset("l40s-pcie:2"), l40s, find_stack("tutti"));
  // Eight groups of a pair share two NICs of 25 GB/s.
  const double shared = prices.seconds(Verb::send_recv, {1, 2}, 1e9);
  EXPECT_GT(shared, 3.5 * 1e9 / 25e9);
}

TEST(Search, FindsWhatFitsAndRanksIt) {
  Job job = job_of({{"model", "llama3-70b"}, {"cluster", "dgx-h100:8"}, {"global-batch", "256"}, {"seq", "4096"}});
  CollectivePrices prices(job.cluster, job.accelerator, job.stack);
  const Found found = find_strategies(job, prices, 10);
  ASSERT_EQ(found.best.size(), 10u);
  EXPECT_GT(found.tried, found.fitting);
  for (std::size_t i = 0; i < found.best.size(); ++i) {
    EXPECT_TRUE(found.best[i].fits());
    EXPECT_EQ(found.best[i].job.devices(), 64);
    if (i > 0) {
      EXPECT_LE(found.best[i].tokens_per_s(), found.best[i - 1].tokens_per_s());
    }
  }
  EXPECT_FALSE(differences(found.best[1], found.best[0]).empty());
  job.parallel = {};  // one device
  job.cluster.hosts = 1;
  EXPECT_TRUE(find_strategies(job, prices, 10).best.empty());
}

TEST(Verdict, NamesChangesByWhatTheyGain) {
  const JobPlan plan = plan_of({{"model", "gpt3-13b"},
                                {"accelerator", "a100-80"},
                                {"gpus", "64"},
                                {"tp", "8"},
                                {"pp", "8"},
                                {"recompute", "full"},
                                {"global-batch", "64"},
                                {"micro-batch", "8"},
                                {"overlap", "none"}});
  CollectivePrices prices(plan.job.cluster, plan.job.accelerator, plan.job.stack);
  const JobVerdict verdict = verdict_of(plan, prices);
  ASSERT_EQ(verdict.changes.size(), 3u);
  for (const PlannedChange& change : verdict.changes)
    EXPECT_DOUBLE_EQ(change.gain, change.plan.tokens_per_s() / plan.tokens_per_s() - 1);
  EXPECT_GE(verdict.changes[0].gain, verdict.changes[2].gain);
  EXPECT_THAT(verdict.bound, HasSubstr("% of the step is"));
}

TEST(Verdict, TellsTheStoryOfALocalBatchThatFell) {
  const JobWords job{{"model", "llama2-7b"}, {"accelerator", "a100-80"}, {"seq", "1"}, {"global-batch", "512"}};
  const JobPlan few = plan_of(with(job, {{"gpus", "16"}, {"micro-batch", "32"}}));
  const JobPlan many = plan_of(with(job, {{"gpus", "64"}, {"micro-batch", "8"}}));
  EXPECT_LT(many.tokens_per_s(), 1.3 * few.tokens_per_s());
  std::string words;
  for (const std::string& sentence : differences(few, many)) words += sentence + "\n";
  EXPECT_THAT(words, HasSubstr("because the local batch fell from 32 to 8"));
  EXPECT_THAT(words, HasSubstr("keep the local batch (--global-batch 2048)"));
}

TEST(Job, ThatIsImpossibleIsRefusedWithWhatWouldBeRight) {
  EXPECT_THAT(why_not(with(kLlama, {{"strategy", "tp8.pp4.dp16"}})),
              HasSubstr("makes 512 devices, and there are 64; take dp2"));
  EXPECT_THAT(why_not(with(kLlama, {{"tp", "3"}})), HasSubstr("no multiple of tp 3"));
  EXPECT_THAT(why_not(with(kLlama, {{"global-batch", "100"}})), HasSubstr("64 or 128 would"));
  EXPECT_THAT(why_not(with(kLlama, {{"strategy", "zerro3"}})), HasSubstr("did you mean zero3"));
  EXPECT_THAT(why_not(with(kLlama, {{"modle", "x"}})), HasSubstr("did you mean model"));
  EXPECT_THAT(why_not(with(kLlama, {{"cluster", "dgx-h10:8"}})), HasSubstr("did you mean dgx-h100"));
  EXPECT_THAT(why_not(with(kLlama, {{"strategy", "ep8"}})), HasSubstr("has no experts"));
  EXPECT_THAT(why_not(with(kLlama, {{"strategy", "pp64"}, {"global-batch", "64"}})),
              HasSubstr("32 layers are too few"));
  EXPECT_THAT(why_not(with(kLlama, {{"seq", "many"}})), HasSubstr("--seq many: a number from"));
  EXPECT_THAT(why_not(with(kLlama, {{"recompute", "ful"}})), HasSubstr("did you mean full"));
  EXPECT_THAT(why_not(with(kLlama, {{"global-batch", "60"}})), HasSubstr("micro-batches of 1; 64 would"));
  EXPECT_THAT(why_not(with(kLlama, {{"price", "2"}})), HasSubstr("give --tokens as well"));
  EXPECT_EQ(to_text(job_of(with(kLlama, {{"strategy", "tp8.sp.pp4.v2.dp2.zero1"}})).parallel),
            "tp8.sp.pp4.v2.dp2.zero1");
}

// Two of parameters, layers and width say the third; all three must agree.
TEST(Job, HasTheModelThatItsParametersSay) {
  const auto model = [](const JobWords& words) { return job_of(with(words, {{"accelerator", "h100"}})).model; };
  EXPECT_EQ(model({{"params", "7e9"}, {"hidden", "4096"}}).layers, 34);
  EXPECT_EQ(model({{"params", "7e9"}, {"layers", "32"}}).hidden, 4224);
  const JobWords experts{{"hidden", "4096"}, {"ffn", "14336"}, {"gated", "1"}, {"experts", "8"}};
  EXPECT_EQ(model(with(experts, {{"params", "47e9"}})).layers, 32) << "layers of eight experts";
  for (const JobWords& wrong : {JobWords{{"params", "7e9"}, {"hidden", "1024"}, {"layers", "32"}},
                                JobWords{{"params", "70e9"}, {"model", "llama3-8b"}}})
    EXPECT_THAT(why_not(with(wrong, {{"accelerator", "h100"}})), HasSubstr("leave --params out"));
  EXPECT_THAT(why_not({{"params", "7e9"}, {"accelerator", "h100"}}),
              HasSubstr("two of --hidden, --layers and --params"));
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
    JobPhrase found;
    for (const JobPhrase& phrase : plan.sentence)
      if (phrase.group == "pp" && phrase.verb == verb) found = phrase;
    return found;
  };
  EXPECT_DOUBLE_EQ(between(whole, Verb::send_recv).bytes, 8 * between(cut, Verb::send_recv).bytes);
  EXPECT_DOUBLE_EQ(between(cut, Verb::all_gather).bytes, between(whole, Verb::send_recv).bytes);
  EXPECT_EQ(between(cut, Verb::all_gather).times, between(cut, Verb::send_recv).times);
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

TEST(Plan, ServersCarryWhatAllWorkersPush) {
  const JobWords job{{"model", "gpt2"}, {"cluster", "dgx-h100:4"}, {"micro-batch", "1"}, {"seq", "1024"}};
  const auto with = [&](const std::string& strategy, const std::string& batch) {
    JobWords words = job;
    words["strategy"] = strategy;
    words["global-batch"] = batch;
    return plan_of(words);
  };
  const JobPlan one = with("ps1", "31"), four = with("ps4", "28");
  ASSERT_EQ(one.sentence.size(), 2U);
  EXPECT_EQ(one.job.parallel.dp, 31);
  EXPECT_EQ(four.job.parallel.dp, 28);
  EXPECT_DOUBLE_EQ(one.sentence[0].total_bytes(), 2 * one.parameters) << "a worker's gradients, whatever the servers";
  EXPECT_DOUBLE_EQ(four.sentence[0].total_bytes(), 2 * four.parameters);
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
  EXPECT_DOUBLE_EQ(weights->bytes, 2 * plan.parameters);
  EXPECT_LT(weights->exposed_s, weights->total_s());
}

}  // namespace
}  // namespace tutti::plan
