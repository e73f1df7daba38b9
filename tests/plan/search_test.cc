// What becomes of plans: the search among strategies, verdicts, prices that follow the simulator, refused jobs.
#include "plan/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>

#include "plan/jobs.h"
#include "plan/told.h"
#include "topology/presets.h"

namespace tutti::plan {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

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

// Hosts of many ranks, of which a few are simulated: what takes seconds takes milliseconds.
TEST(Prices, OfManyRanksOfAHostFollowTheSimulator) {
  const Accelerator& gb200 = find_accelerator("gb200");
  const topology::Topology cluster = topology::find_preset("gb200-nvl72:4");
  CollectivePrices carried_on(cluster, gb200, find_stack("tutti")), played(cluster, gb200, find_stack("tutti"), 12, 72);
  for (const Verb verb : {Verb::all_reduce, Verb::all_gather, Verb::reduce_scatter}) {
    for (const GroupSpan& span : {GroupSpan{72, 2}, GroupSpan{36, 3}, GroupSpan{64, 2}}) {
      for (const double bytes : {1e5, 1e7, 1e9}) {
        const double exact = played.seconds(verb, span, bytes);
        EXPECT_NEAR(carried_on.seconds(verb, span, bytes), exact, 0.15 * exact)
            << name_of(verb) << " of " << bytes << " among " << span.per_host << " on each of " << span.hosts
            << " hosts by " << carried_on.algorithm(verb, span, bytes) << ", " << played.algorithm(verb, span, bytes);
      }
    }
  }
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
  const Found none = find_strategies(job, prices, 10);
  EXPECT_EQ(none.fitting, 0U);
  ASSERT_EQ(none.best.size(), 1U) << "the one that needs the least memory";
  EXPECT_FALSE(none.best.front().fits());
  EXPECT_EQ(none.best.front().job.recompute, Recompute::full);
  EXPECT_EQ(none.best.front().job.micro_batch, 1);
}

TEST(Search, KeepsWhatWasSaid) {
  const JobWords words{{"model", "llama3-70b"}, {"cluster", "dgx-h100:8"}, {"global-batch", "256"},
                       {"seq", "4096"},         {"strategy", "auto"},      {"tp", "4"},
                       {"zero", "2"},           {"recompute", "full"},     {"micro-batch", "4"}};
  const auto found_of = [](const JobWords& said) {
    const JobQuestion question = question_of(said, {});
    CollectivePrices prices = prices_for(question.job);
    return find_strategies(question.job, prices, 10, question.fixed);
  };
  const Found found = found_of(words);
  ASSERT_GT(found.fitting, 0U);
  for (const JobPlan& plan : found.best) {
    EXPECT_EQ(plan.job.parallel.tp, 4);
    EXPECT_EQ(plan.job.parallel.zero, 2);
    EXPECT_EQ(plan.job.recompute, Recompute::full);
    EXPECT_EQ(plan.job.micro_batch, 4);
  }
  // Also where the search would not have looked by itself.
  for (const JobPlan& plan : found_of({{"model", "llama3-8b"},
                                       {"cluster", "dgx-h100:3"},
                                       {"global-batch", "144"},
                                       {"strategy", "auto"},
                                       {"micro-batch", "3"},
                                       {"interleave", "8"}})
                                 .best) {
    EXPECT_EQ(plan.job.micro_batch, 3);
    EXPECT_EQ(plan.job.parallel.interleave, 8);
  }
  EXPECT_THAT(why_not(with(words, {{"diloco", "10"}})),
              HasSubstr("--strategy auto looks among synchronous strategies"));
  try {
    found_of(with(words, {{"tp", "3"}}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("auto with --tp 3 --zero 2 --micro-batch 4 --recompute full"),
                                    HasSubstr("no strategy of 64 devices is possible")));
  }
}

// Sequences from 4,096 tokens on are worth cutting, and stages into as many chunks as divide them.
TEST(Search, IsNotSlowerThanWhatItCouldHaveTried) {
  const JobWords large{
      {"model", "llama3-405b"}, {"accelerator", "h100"}, {"gpus", "576"}, {"seq", "8192"}, {"global-batch", "252"}},
      small{{"model", "llama3-70b"}, {"accelerator", "h100"}, {"gpus", "64"}, {"seq", "8192"}, {"global-batch", "128"}};
  for (const auto& [job, strategy] :
       {std::pair(large, "tp8.sp.cp2.pp9.v7.zero1"), {small, "tp4.sp.cp2.pp4.v5.zero1"}}) {
    const JobPlan named = plan_of(with(job, {{"strategy", strategy}, {"micro-batch", "1"}}));
    CollectivePrices prices = prices_for(named.job);
    const JobPlan found = answer(question_of(with(job, {{"strategy", "auto"}}), {}), prices);
    EXPECT_TRUE(named.fits() && found.fits());
    EXPECT_LE(found.step_s(), named.step_s() * (1 + 1e-9)) << to_text(found.job.parallel);
  }
}

TEST(Search, CutsShortSequencesWhereNothingElseKeepsActivations) {
  const JobWords job{{"model", "llama3-8b"}, {"cluster", "dgx-h100:1"}, {"seq", "2048"}, {"tp", "1"}, {"pp", "1"},
                     {"global-batch", "64"}, {"strategy", "auto"}};
  const auto found_of = [&](const char* micro_batch) {
    const JobQuestion question = question_of(with(job, {{"micro-batch", micro_batch}}), {});
    CollectivePrices prices = prices_for(question.job);
    return find_strategies(question.job, prices, 1000, question.fixed).best;
  };
  const auto cuts = [](const JobPlan& plan) { return plan.job.parallel.cp > 1; };
  EXPECT_TRUE(std::ranges::none_of(found_of("1"), cuts)) << "all is kept";
  EXPECT_TRUE(cuts(found_of("8").front())) << "else all is computed again";
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

// What does not fit is as slow as can be: what makes it fit comes first, then what makes the most room.
TEST(Verdict, OfWhatDoesNotFitNamesWhatMakesRoom) {
  const auto verdict = [](const JobPlan& plan) {
    CollectivePrices prices = prices_for(plan.job);
    return verdict_of(plan, prices);
  };
  const JobPlan close = plan_of(with(kLlama, {{"strategy", "zero1"}, {"model", "llama2-13b"}}));
  ASSERT_FALSE(close.fits());
  const std::vector<PlannedChange> helped = verdict(close).changes;
  ASSERT_EQ(helped.size(), 3U);
  EXPECT_TRUE(helped[0].plan.fits());
  const JobPlan far = plan_of(with(kLlama, {{"strategy", "dp"}, {"model", "llama3-405b"}}));
  ASSERT_FALSE(far.fits());
  const std::vector<PlannedChange> changes = verdict(far).changes;
  ASSERT_EQ(changes.size(), 3U);
  EXPECT_EQ(changes[0].words, "--zero 3");
  for (std::size_t i = 1; i < changes.size(); ++i)
    EXPECT_GE(changes[i].plan.missing_bytes(), changes[i - 1].plan.missing_bytes());
  EXPECT_THAT(words_of(changes[0], false), HasSubstr("still missing by --zero 3"));
}

TEST(Verdict, TellsPlansApartWhoseStrategiesReadAlike) {
  const JobPlan first = plan_of(with(kLlama, {{"strategy", "zero1"}})),
                second = plan_of(with(kLlama, {{"strategy", "zero1"}, {"micro-batch", "2"}}));
  EXPECT_THAT(differences(first, second).front(), AllOf(HasSubstr("dp64.zero1 with micro-batches of 2 is"),
                                                        HasSubstr("than dp64.zero1 with micro-batches of 1")));
  EXPECT_THAT(differences(first, second, "one", "two").front(), AllOf(HasSubstr("two is"), HasSubstr("than one")));
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

// It takes the same cut for a smaller batch to be what makes replicas wait for their gradients.
TEST(Verdict, DoesNotBlameTheLocalBatchWhereTheModelIsCutOtherwise) {
  const JobWords job{
      {"model", "llama3-70b"}, {"cluster", "dgx-a100:64"}, {"stack", "deepspeed-2021"}, {"global-batch", "512"},
      {"seq", "2048"},         {"micro-batch", "1"}};
  const JobPlan cut = plan_of(with(job, {{"strategy", "tp8.zero1"}})),
                whole = plan_of(with(job, {{"strategy", "zero3"}}));
  ASSERT_LT(whole.tokens_per_s(), cut.tokens_per_s());
  for (const std::string& sentence : differences(cut, whole)) EXPECT_THAT(sentence, Not(HasSubstr("local batch")));
}

TEST(Verdict, OffersNothingThatIsInForce) {
  const JobWords slow = with(
      kLlama,
      {{"strategy", "dp"}, {"cluster", "dgx-h100:8"}, {"recompute", "full"}, {"global-batch", "64"}, {"seq", "512"}});
  const auto words_of_changes = [](const JobPlan& plan) {
    CollectivePrices prices = prices_for(plan.job);
    std::string words;
    for (const PlannedChange& change : verdict_of(plan, prices).changes) words += change.words + "\n";
    return words;
  };
  EXPECT_THAT(words_of_changes(plan_of(slow)), Not(HasSubstr("--recompute selective"))) << "flash keeps no scores";
  EXPECT_THAT(words_of_changes(plan_of(with(slow, {{"compress", "4"}}))), Not(HasSubstr("--compress")));
}

JobVerdict verdict_on(const JobPlan& plan) {
  CollectivePrices prices = prices_for(plan.job);
  return verdict_of(plan, prices);
}

// As if put behind what was said: of two options alike the later one counts.
JobWords with_advice(JobWords words, const std::string& advice) {
  std::istringstream all(advice);
  for (std::string name, value; all >> name >> value;) words[name.substr(2)] = value;
  return words;
}

TEST(Verdict, LeavesServersOut) {
  const JobWords job{{"model", "llama3-8b"}, {"cluster", "dgx-h100:8"}, {"seq", "8192"}, {"micro-batch", "1"}};
  const auto best = [&](const JobWords& words) { return verdict_on(plan_of(with(job, words))).changes.front(); };
  const PlannedChange idle = best({{"strategy", "dp62.ps2"}, {"global-batch", "124"}});
  EXPECT_EQ(idle.words, "--strategy dp62.zero1 --gpus 62");
  EXPECT_THAT(idle.why, HasSubstr("the servers' devices are idle"));
  EXPECT_GT(idle.gain, 10);
  const PlannedChange all = best({{"strategy", "dp56.ps8"}, {"global-batch", "448"}});
  EXPECT_EQ(all.words, "--strategy dp64.zero1") << "448 sequences are 7 for each of 64";
  EXPECT_EQ(best({{"servers", "8"}, {"global-batch", "448"}}).words, "--strategy dp64.zero1 --servers 0");
}

// What is advised can be put behind the words of the job, however these say it, and is what was planned.
TEST(Verdict, AdvisesWhatCanBeSaid) {
  const JobWords job{{"model", "llama3-8b"}, {"cluster", "dgx-h100:8"}, {"global-batch", "128"}, {"micro-batch", "1"}};
  for (const JobWords& words :
       {JobWords{{"strategy", "zero3"}}, JobWords{{"zero", "3"}}, JobWords{{"strategy", "zero2"}},
        JobWords{{"strategy", "dp"}, {"overlap", "none"}}, JobWords{{"strategy", "tp8.pp4.v2"}},
        JobWords{{"tp", "8"}, {"pp", "4"}, {"interleave", "2"}}, JobWords{{"strategy", "tp8.zero3"}, {"sp", "0"}},
        JobWords{{"strategy", "pp4"}, {"dp", "16"}}, JobWords{{"strategy", "zero1"}, {"tp", "8"}, {"seq", "32768"}},
        JobWords{{"strategy", "dp60.ps4"}, {"global-batch", "120"}}}) {
    for (const PlannedChange& change : verdict_on(plan_of(with(job, words))).changes) {
      const JobWords advised = with_advice(with(job, words), change.words);
      EXPECT_EQ(why_not(advised), "") << change.words;
      EXPECT_NEAR(plan_of(advised).step_s(), change.plan.step_s(), 1e-9) << change.words;
    }
  }
}

TEST(Verdict, AdvisesOnWhatWasSearchedForByItsName) {
  const JobWords job{{"model", "llama3-8b"},
                     {"cluster", "dgx-h100:8"},
                     {"global-batch", "128"},
                     {"seq", "2048"},
                     {"micro-batch", "1"},
                     {"strategy", "auto"},
                     {"tp", "4"},
                     {"overlap", "none"},
                     {"zero", "0"},
                     {"pp", "1"}};
  const JobQuestion question = question_of(job, {});
  CollectivePrices prices = prices_for(question.job);
  const JobPlan found = answer(question, prices);
  int strategies = 0;
  for (const PlannedChange& change : verdict_of(found, prices).changes) {
    const JobWords advised = with_advice(job, change.words);
    if (advised.at("strategy") == "auto") continue;
    ++strategies;
    EXPECT_EQ(why_not(advised), "") << change.words;
    EXPECT_EQ(job_of(advised).parallel, change.plan.job.parallel);
  }
  EXPECT_GT(strategies, 0);
}

TEST(Verdict, SaysWhatAStageOfZeroChangesFromWhereItIs) {
  const auto why = [](const char* strategy, const char* stage) {
    for (const PlannedChange& change :
         verdict_on(
             plan_of(with(kLlama, {{"strategy", strategy}, {"overlap", "none"}, {"compress", "4"}, {"seq", "512"}})))
             .changes)
      if (change.words.find(stage) != std::string::npos) return change.why;
    return std::string();
  };
  EXPECT_THAT(why("zero3", "zero1"), HasSubstr("parameters and gradients stay whole"));
  EXPECT_THAT(why("zero2", "zero1"), HasSubstr("reduced once in a step"));
}

TEST(Verdict, AdvisesAgainstALocalBatchThatFellByWhatIsNotInForce) {
  const JobWords job{{"model", "llama2-7b"}, {"accelerator", "a100-80"}, {"seq", "1"}, {"global-batch", "512"}};
  const auto remedy = [&](const JobWords& more) {
    const JobPlan few = plan_of(with(with(job, {{"gpus", "16"}, {"micro-batch", "32"}}), more)),
                  many = plan_of(with(with(job, {{"gpus", "64"}, {"micro-batch", "8"}}), more));
    for (const std::string& sentence : differences(few, many))
      if (sentence.starts_with("remedy")) return sentence;
    return std::string();
  };
  EXPECT_EQ(remedy({}), "remedy: keep the local batch (--global-batch 2048), or send less (--compress, --diloco)");
  EXPECT_THAT(remedy({{"overlap", "none"}}), HasSubstr(", exchange in buckets behind backward (--overlap dp), or"));
}

TEST(Job, OfWhatMeansNothingIsRefused) {
  for (const char* of_experts : {"top-k", "capacity-factor", "imbalance", "expert-ffn"})
    EXPECT_THAT(why_not(with(kLlama, {{of_experts, "2"}})), HasSubstr("llama3-8b has no experts, which alone"));
  EXPECT_EQ(why_not(with(kLlama, {{"experts", "8"}, {"top-k", "2"}, {"imbalance", "1.5"}})), "");
  const JobWords own{{"accelerator", "h100"}, {"layers", "4"}, {"hidden", "1000"}};
  EXPECT_THAT(why_not(with(own, {{"heads", "7"}})), HasSubstr("a width of 1000 is not cut evenly among so many"));
  EXPECT_EQ(job_of(own).model.heads, 5) << "the most that divide it, of those of 128 numbers or more";
  EXPECT_THAT(why_not(with(own, {{"hidden", "536870912"}})), HasSubstr("a whole number up to 16777216"));
  for (const char* quantity : {"tokens", "price", "flops", "critical-batch"})
    EXPECT_THAT(why_not(with(kLlama, {{quantity, "1e300"}, {"strategy", "dp"}})), HasSubstr("no such quantity"));
  EXPECT_THAT(why_not(with(kLlama, {{"critical-batch", "1e-300"}})), HasSubstr("no such quantity"));
  const ModelShape of_many =
      job_of({{"accelerator", "h100"}, {"layers", "32"}, {"params", "7e9"}, {"heads", "25"}}).model;
  EXPECT_EQ(of_many.hidden, of_many.heads * of_many.head_size);
  EXPECT_NEAR(parameters_of(of_many).all / 7e9, 1, 0.1);
}

TEST(Job, BeyondTheModelsPlacesIsRefused) {
  const JobWords job{{"model", "gpt2"}, {"accelerator", "h100"}};
  EXPECT_EQ(job_of(job).sequence, 1024) << "as many as it has";
  EXPECT_THAT(why_not(with(job, {{"seq", "2048"}})), HasSubstr("model gpt2 has 1024 positions"));
  EXPECT_THAT(why_not({{"accelerator", "h100"}, {"layers", "1e9"}, {"hidden", "64"}}),
              HasSubstr("up to 100000 are planned"));
  EXPECT_THAT(why_not({{"accelerator", "h100"}, {"params", "1e14"}, {"hidden", "64"}}),
              HasSubstr("up to 100000 are planned"));
}

// Ranks of this host share its memory, however many they are said to be.
TEST(Job, OfThisHostSharesItsMemory) {
  const auto read = [](const std::string& path) -> std::string { throw std::runtime_error(path); };
  const auto job = [&](const JobWords& words) {
    return question_of(with({{"cluster", "here"}, {"model", "gpt2"}}, words), read,
                       [] {
                         return HostCosts{{}, false, 2, 64e9};
                       })
        .job;
  };
  EXPECT_EQ(job({}).accelerator.memory_bytes, 32e9);
  for (const JobWords& four : {JobWords{{"strategy", "dp4"}}, JobWords{{"strategy", "dp4"}, {"gpus", "4"}}}) {
    EXPECT_EQ(job(four).accelerator.memory_bytes, 16e9);
    EXPECT_EQ(job(four).cluster.hosts, 1);
    EXPECT_EQ(job(four).cluster.ranks(), 4);
  }
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
  EXPECT_THAT(why_not(with(kLlama, {{"strategy", "tp"}})), HasSubstr("tp needs a number, such as tp8"));
  EXPECT_THAT(why_not(with(kLlama, {{"strategy", "tp8.tp4"}})), HasSubstr("tp is said twice, as 8 and as 4"));
  EXPECT_THAT(why_not(with(kLlama, {{"strategy", "tp8.zero1"}, {"tp", "4"}})),
              HasSubstr("--strategy tp8.zero1 and --tp 4 contradict each other"));
  EXPECT_EQ(why_not(with(kLlama, {{"strategy", "tp8"}, {"tp", "8"}})), "");
  EXPECT_THAT(why_not(with(kLlama, {{"strategy", "diloco10.zero1"}})), HasSubstr("leave zero out, or diloco"));
  EXPECT_EQ(to_text(job_of(with(kLlama, {{"strategy", "tp8.sp.pp4.v2.dp2.zero1"}})).parallel),
            "tp8.sp.pp4.v2.dp2.zero1");
}

// Products of numbers that are possible each are not, together.
TEST(Job, WithDegreesBeyondAllNumbersIsRefused) {
  EXPECT_THAT(why_not(with(kLlama, {{"tp", "65536"}, {"pp", "65536"}})), HasSubstr("more than the 64 devices"));
  EXPECT_THAT(why_not(with(kLlama, {{"tp", "65536"}, {"pp", "65536"}, {"dp", "65536"}, {"cp", "65536"}})),
              HasSubstr("makes more than"));
  EXPECT_THAT(why_not(with(kLlama, {{"servers", "1073741824"}, {"actors", "1073741824"}})), HasSubstr("take fewer"));
  EXPECT_THAT(why_not(with(kLlama, {{"micro-batch", "67108864"}, {"global-batch", "64"}})),
              HasSubstr("micro-batches of 67108864; 4294967296 would"));
  JobWords no_batch = with(kLlama, {{"micro-batch", "67108864"}});
  no_batch.erase("global-batch");
  EXPECT_THAT(why_not(no_batch), HasSubstr("or a smaller --micro-batch"));
  EXPECT_THAT(why_not(with(kLlama, {{"pp", "2"}, {"interleave", "1073741824"}})), HasSubstr("32 layers are too few"));
}

// Two of parameters, layers and width say the third; all three must agree.
TEST(Job, HasTheModelThatItsParametersSay) {
  const auto model = [](const JobWords& words) { return job_of(with(words, {{"accelerator", "h100"}})).model; };
  EXPECT_EQ(model({{"params", "7e9"}, {"hidden", "4096"}}).layers, 34);
  EXPECT_EQ(model({{"params", "7e9"}, {"layers", "32"}}).hidden, 4224);
  // What stands before the layers counts, and so does whatever shape they are said to have.
  EXPECT_EQ(model({{"params", "125e6"}, {"layers", "12"}}).hidden, 768);
  EXPECT_EQ(model({{"params", "1.3e9"}, {"layers", "24"}}).hidden, 2048);
  for (const JobWords& words :
       {JobWords{{"params", "350e6"}, {"layers", "24"}}, JobWords{{"params", "70e9"}, {"layers", "80"}, {"gated", "1"}},
        JobWords{{"params", "47e9"}, {"layers", "32"}, {"experts", "8"}, {"top-k", "2"}}}) {
    const ModelShape found = model(words);
    EXPECT_NEAR(parameters_of(found).all / std::stod(words.at("params")), 1, 0.05) << found.hidden;
    EXPECT_EQ(found.heads, found.hidden / 128);
  }
  const JobWords experts{{"hidden", "4096"}, {"ffn", "14336"}, {"gated", "1"}, {"experts", "8"}};
  EXPECT_EQ(model(with(experts, {{"params", "47e9"}})).layers, 32) << "layers of eight experts";
  for (const JobWords& wrong : {JobWords{{"params", "7e9"}, {"hidden", "1024"}, {"layers", "32"}},
                                JobWords{{"params", "70e9"}, {"model", "llama3-8b"}}})
    EXPECT_THAT(why_not(with(wrong, {{"accelerator", "h100"}})), HasSubstr("leave --params out"));
  EXPECT_THAT(why_not({{"params", "7e9"}, {"accelerator", "h100"}}),
              HasSubstr("two of --hidden, --layers and --params"));
}

}  // namespace
}  // namespace tutti::plan
