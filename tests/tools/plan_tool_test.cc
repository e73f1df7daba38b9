// tutti plan, as a user meets it: the plan as text, JSON and page, what does not fit, search, compare, scale.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "shell.h"

namespace tutti::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Ended plan(const std::string& arguments) { return shell(std::string(TUTTI_TOOL) + " plan " + arguments, "2>&1"); }

const std::string kJob = "--model llama3-8b --cluster dgx-h100:8 --global-batch 1024 --seq 8192 ";

TEST(PlanTool, TellsSentenceBillAndVerdict) {
  const Ended ended = plan(kJob + "--strategy zero3 --tokens 1e12 --price 2 --critical-batch 512");
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_THAT(ended.output, AllOf(HasSubstr("on 64 h100 of dgx-h100:8 by dp64.zero3"), HasSubstr("collectives: tutti"),
                                  HasSubstr("all_gather"), HasSubstr("over nvswitch and ndr"), HasSubstr("fits: true"),
                                  HasSubstr("a rank sends"), HasSubstr("in a step over ndr"), HasSubstr("device-hours"),
                                  HasSubstr("3.00 times the tokens"), HasSubstr("the verdict")));
}

TEST(PlanTool, HasTheKeysThatScriptsRead) {
  const json document = json::parse(plan(kJob + "--strategy tp8.sp.zero1 --json").output);
  for (const char* key : {"step_seconds", "tokens_per_second", "model_tflops_per_gpu", "hardware_tflops_per_gpu", "mfu",
                          "memory_bytes_per_gpu", "fits", "gamma_raw", "gamma_exposed", "sentence", "bill", "verdict"})
    EXPECT_TRUE(document.contains(key)) << key;
  EXPECT_EQ(document["strategy"], "tp8.sp.dp8.zero1");
  EXPECT_EQ(json::parse(plan(kJob + "--tp 8 --sp --json").output)["strategy"], "tp8.sp.dp8") << "sp stands alone";
  EXPECT_NEAR(document["tokens_per_second"].get<double>() * document["step_seconds"].get<double>(), 1024.0 * 8192, 1);
}

TEST(PlanTool, PlansWhatDoesNotFit) {
  const Ended ended = plan("--model llama3-70b --cluster dgx-h100:8 --global-batch 64 --strategy dp");
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_THAT(ended.output, AllOf(HasSubstr("fits: false"), HasSubstr("it does not fit"), HasSubstr("the sentence")));
}

TEST(PlanTool, FindsWhatNeedsLeastWhereNothingFits) {
  const std::string job = "--model llama3-405b --cluster dgx-h100:1 --strategy auto --global-batch 8 ";
  const Ended ended = plan(job);
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_THAT(ended.output, AllOf(HasSubstr("fits into memory; the one that needs least:"), HasSubstr("fits: false"),
                                  HasSubstr("it does not fit")));
  const Ended as_json = plan(job + "--json");
  EXPECT_EQ(as_json.exit_code, 3);
  const json document = json::parse(as_json.output);
  EXPECT_FALSE(document["fits"]);
  EXPECT_EQ(document["found"]["fitting"], 0);
}

TEST(PlanTool, SaysWhatWouldMakeItFit) {
  const std::string job = "--model llama2-13b --cluster dgx-h100:8 --global-batch 64 --seq 8192 --strategy zero1 ";
  EXPECT_THAT(plan(job).output, HasSubstr("fits, with "));
  const json changes = json::parse(plan(job + "--json").output)["verdict"]["changes"];
  EXPECT_TRUE(changes[0]["fits"]);
  EXPECT_EQ(changes[0]["missing_bytes"], 0);
}

TEST(PlanTool, KeepsWhatWasSaidBesideAuto) {
  const json document = json::parse(plan("--model llama3-70b --cluster dgx-h100:8 --strategy auto --global-batch 256 "
                                         "--seq 4096 --tp 4 --micro-batch 4 --recompute full --zero 2 --json")
                                        .output);
  EXPECT_EQ(document["micro_batch"], 4);
  EXPECT_EQ(document["recompute"], "full");
  for (const json& found : document["found"]["best"])
    EXPECT_THAT(found["strategy"].get<std::string>(), AllOf(HasSubstr("tp4"), HasSubstr("zero2")));
}

TEST(PlanTool, PrintsUnevenStages) {
  EXPECT_THAT(plan("--model llama3-405b --cluster dgx-h100:64 --strategy tp8.sp.pp16.zero1 --global-batch 64").output,
              HasSubstr("stages are uneven"));
}

TEST(PlanTool, FindsTheBestTen) {
  const Ended ended = plan("--model llama3-70b --cluster dgx-h100:8 --strategy auto --global-batch 256 --seq 4096");
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_THAT(ended.output, AllOf(HasSubstr("that were tried; the best:"), HasSubstr("why the first beats the second"),
                                  HasSubstr("quicker than")));
  const json document = json::parse(
      plan("--model llama3-70b --cluster dgx-h100:8 --strategy auto --global-batch 256 --seq 4096 --json").output);
  EXPECT_EQ(document["found"]["best"].size(), 10U);
  EXPECT_EQ(document["found"]["best"][0]["strategy"], document["strategy"]);
  EXPECT_FALSE(document["found"]["why"].empty());
}

TEST(PlanTool, ComparesInWordsThatNameTheCause) {
  const Ended ended = plan(
      "compare gpus=16 gpus=64 --strategy zero1 --model llama2-7b --accelerator a100-80 --seq 1 --global-batch 512");
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_THAT(ended.output, AllOf(HasSubstr("because the local batch fell from 32 to 8"), HasSubstr("remedy: keep")));
  const json both = json::parse(plan("compare zero1 zero3 --json " + kJob).output);
  EXPECT_EQ(both["first"]["strategy"], "dp64.zero1");
  EXPECT_EQ(both["second"]["strategy"], "dp64.zero3");
}

TEST(PlanTool, ComparesStrategiesOfSeveralWords) {
  const json both = json::parse(plan("compare tp8,zero1 gpus=64,strategy=tp8,zero3 --json " + kJob).output);
  EXPECT_EQ(both["first"]["strategy"], "tp8.dp8.zero1");
  EXPECT_EQ(both["second"]["strategy"], "tp8.dp8.zero3");
}

// What a verdict advises is put behind what was said.
TEST(PlanTool, TakesTheLaterOfTwoOptionsAlike) {
  const json made = json::parse(plan(kJob + "--tp 8 --sp --strategy zero3 --strategy dp8.zero1 --json").output);
  EXPECT_EQ(made["strategy"], "tp8.sp.dp8.zero1");
}

TEST(PlanTool, ComparesSidesThatReadAlikeByTheirOwnWords) {
  const std::string sides =
      "compare stack=tutti stack=flat-ring --model gpt3-13b --cluster dgx-a100:8 --strategy zero3 ";
  EXPECT_THAT(plan(sides).output, HasSubstr("slower than stack=tutti"));
  const Ended neither = plan("compare dp zero1 --model llama3-405b --cluster dgx-h100:1 --global-batch 8");
  EXPECT_EQ(neither.exit_code, 3);
  EXPECT_THAT(neither.output, HasSubstr("neither fits into memory"));
}

TEST(PlanTool, ScalesToTheLastRowThatIsPossible) {
  const std::string job = "scale --gpus 8..64 --model gpt3-1.3b --accelerator h100 --global-batch 16 --strategy dp ";
  EXPECT_THAT(plan(job).output, AllOf(HasSubstr("more devices pay up to 16, the last row that can run"),
                                      HasSubstr("a global batch of 16 sequences does not divide into 64")));
  const json document = json::parse(plan(job + "--json").output);
  EXPECT_EQ(document["pays_up_to"], 16);
  EXPECT_THAT(document["rows"][3]["not_possible"].get<std::string>(), HasSubstr("does not divide"));
}

TEST(PlanTool, RecommendsNoDevicesOnWhichTheJobDoesNotFit) {
  const std::string job = "scale --gpus 8..64 --model llama3-70b --accelerator h100 --global-batch 64 --strategy dp ";
  const Ended none = plan(job);
  EXPECT_EQ(none.exit_code, 3);
  EXPECT_THAT(none.output, HasSubstr("no row can run with this batch: the others do not fit into memory"));
  EXPECT_TRUE(json::parse(plan(job + "--json").output)["pays_up_to"].is_null());
}

TEST(PlanTool, ScalesUntilItStopsPaying) {
  const json document = json::parse(plan("scale --gpus 8..512 --model llama2-7b --accelerator a100-80 --seq 16 "
                                         "--global-batch 512 --strategy zero1 --json")
                                        .output);
  EXPECT_EQ(document["rows"].size(), 7u);
  EXPECT_LT(document["pays_up_to"], 512);
  EXPECT_GT(document["rows"][6]["weak"]["tokens_per_second"], document["rows"][6]["strong"]["tokens_per_second"]);
  EXPECT_DOUBLE_EQ(document["rows"][6]["weak"]["steps_to_loss_factor"], 1.0 / 64) << "no critical batch is known";
}

TEST(PlanTool, TellsTheCatchOfWeakScaling) {
  const Ended ended = plan(
      "scale --gpus 8..16 --model llama3-8b --accelerator h100 --strategy zero3 --global-batch 64 "
      "--critical-batch 64");
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  // Of batches of 64 and 128: 3 / 2 times the tokens, 3 / 4 of the steps, 4 / 3 of the learning rate.
  EXPECT_THAT(ended.output, AllOf(HasSubstr("critical batch 64"), HasSubstr("1.333       0.75")));
}

TEST(PlanTool, WritesAPageThatNeedsNothingElse) {
  const auto path = std::filesystem::temp_directory_path() / ("plan-" + std::to_string(getpid()) + ".html");
  EXPECT_EQ(plan(kJob + "--strategy zero1 --recompute full --bucket 400 --html " + path.string()).exit_code, 0);
  std::ifstream file(path);
  std::ostringstream page;
  page << file.rdbuf();
  std::filesystem::remove(path);
  EXPECT_THAT(page.str(), AllOf(HasSubstr("<h2>A step</h2>"), HasSubstr("<h2>The timeline of a step</h2>"),
                                HasSubstr("backward of micro-batch 0"), HasSubstr("bytes that a rank sends in a step"),
                                HasSubstr("Memory of a device: fits"), HasSubstr("Gradients behind backward"),
                                HasSubstr("reduce_scatter"), Not(HasSubstr("src=")), Not(HasSubstr("href="))));
}

TEST(PlanTool, PlansForTheHostItRunsOn) {
  const std::string job = "--layers 2 --hidden 64 --heads 4 --vocab 256 --seq 64 --cluster here --gpus 2 --json ";
  const json untuned = json::parse(shell("TUTTI_COSTS=built-in " TUTTI_TOOL " plan " + job).output);
  EXPECT_THAT(untuned["collectives"].get<std::string>(), HasSubstr("by built-in costs"));
  EXPECT_EQ(untuned["cluster"], "here");
  const json& gradients = untuned["sentence"][0];
  EXPECT_EQ(gradients["verb"], "all_reduce");
  // float32 on a CPU, and what parameters begin at multiples of in their bucket.
  const double bytes = gradients["bytes"].get<double>() * gradients["times"].get<double>();
  EXPECT_GE(bytes, 4 * untuned["parameters"].get<double>());
  EXPECT_LT(bytes, 1.05 * 4 * untuned["parameters"].get<double>());
  EXPECT_GT(gradients["seconds"].get<double>(), 0);
  const json quicker = json::parse(shell("TUTTI_COSTS=built-in " TUTTI_TOOL " plan --flops 0.1 " + job).output);
  EXPECT_LT(quicker["step_seconds"], untuned["step_seconds"]);
}

TEST(PlanTool, FindsTheCapThatExposesLeast) {
  const std::string job =
      "--model llama3-8b --accelerator h100 --gpus 64 --global-batch 64 --seq 2048 --overlap dp --json --bucket ";
  const auto exposed = [&](const std::string& cap) {
    const json plan_of = json::parse(plan(job + cap).output);
    return std::pair(plan_of["bill"]["seconds"]["dp exposed"].get<double>(), plan_of["bucket_bytes"].get<double>());
  };
  const auto [least, chosen] = exposed("auto");
  EXPECT_GE(chosen, 1 << 20);
  for (const char* cap : {"1", "4", "16", "64"})
    EXPECT_LE(least, exposed(cap).first * 1.02) << cap << " MB instead of " << chosen;
}

TEST(PlanTool, RefusesWithTheRemedy) {
  const auto refused = [](const std::string& arguments, const std::string& words) {
    const Ended ended = plan(arguments);
    EXPECT_EQ(ended.exit_code, 2) << arguments;
    EXPECT_THAT(ended.output, HasSubstr(words));
  };
  refused("", "no model; give --model NAME");
  refused("--model llama3-8b", "no cluster; give --cluster");
  refused("--model lama3-8b --cluster dgx-h100:8", "did you mean llama3-8b");
  refused("--model nowhere/config.json --cluster dgx-h100:8", "cannot read 'nowhere/config.json'");
  refused("--model / --cluster dgx-h100:8", "cannot read '/'; is it a file?");
  refused(kJob + "--strategy tp8.dp16", "take dp8");
  refused(kJob + "--tp 8 --sp 2", "--sp 2: 0 or 1 belongs there");
  refused(kJob + "--tokens 1e300 --price 1e300", "--tokens 1e300: no such quantity is anywhere");
  refused("gamma --global-batch 1e308 --params 1e308", "--params is 1e+308; give a number from 1e-30 up to 1e30");
  refused("compare zero1 " + kJob, "compare takes two sides");
  refused("--seq 8192 scale --gpus 8..64 " + kJob, "options of scale stand behind its name: tutti plan scale --");
  refused("--json gamma", "options of gamma stand behind its name");
  refused(kJob + "--strategy tp", "tp needs a number, such as tp8");
  refused(kJob + "--tp 65536 --pp 65536", "more than the 64 devices");
  refused(kJob + "--micro-batch 67108864", "does not divide into 64 dp ranks times micro-batches of 67108864");
  refused(kJob + "--strategy diloco.zero1", "leave zero out, or diloco");
  refused(kJob + "--strategy auto --servers 2", "looks among synchronous strategies");
  refused(kJob + "--value-bytes 3", "--value-bytes is 2 or 4");
  refused(kJob + "--strategy zero3 --timeline t.svg", "has no buckets");
  refused("scale --model llama3-8b --accelerator h100 --gpus 8", "FIRST..LAST belongs there");
}

}  // namespace
}  // namespace tutti::testing
