// `tutti tune`: what it keeps is what later jobs choose by, and what it cannot do it says before it measures anything.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "shell.h"
#include "tools/launched.h"

namespace tutti::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

Ended tutti(const std::string& arguments, const std::string& variables = "") {
  return shell("env -u TUTTI_COSTS " + variables + " " + TUTTI_TOOL + " " + arguments);
}

json content_of(const std::string& path) { return json::parse(std::ifstream(path)); }

// Seconds a step or a call: whatever factor the algorithm got from the few calls of a quick tune, the price of a call
// is seconds then, where it is microseconds otherwise.
constexpr double kVerySlow = 100;

// In the surveys, which hold before what holds where none was made.
void replace(const std::string& path, const char* kind, const char* rate, double value) {
  json costs = content_of(path);
  int surveys = 0;
  for (json& survey : costs["surveys"]) {
    if (survey["kind"] != kind) continue;
    survey["rates"][rate] = value;
    EXPECT_FALSE(survey["factors"].at("all_gather/ring").empty());
    ++surveys;
  }
  EXPECT_EQ(surveys, 1) << kind;
  std::ofstream(path) << costs;
}

// What a job expects of a call.
double predicted_us(const Folder& folder, const std::string& variables, const std::string& transport = "shm") {
  const std::string rows = folder.path("rows.json");
  const Ended ended = tutti(
      "bench all_gather -b 4K -e 4K --rounds 1 --iterations 1 --transport " + transport + " --json " + rows, variables);
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  return ended.exit_code == 0 ? content_of(rows).at(0).at("predicted_us").get<double>() : -1;
}

TEST(Tune, WhatItKeepsALaterJobTakes) {
  const Folder folder;
  const std::string file = folder.path("costs.json"), named = "TUTTI_COSTS=" + file;
  const Ended ended = tutti("tune --quick -n 2 --file " + file);
  ASSERT_EQ(ended.exit_code, 0) << ended.output;
  for (const char* words :
       {"2 ranks, shared memory: the rates are off by a factor of", "2 ranks, TCP: the rates are off by"})
    EXPECT_THAT(ended.output, HasSubstr(words));
  EXPECT_THAT(ended.output, HasSubstr("wrote " + file));
  for (const char* kind : {"memory", "streams"}) EXPECT_GT(content_of(file).at(kind).at("step").get<double>(), 0);
  EXPECT_LT(predicted_us(folder, named), 1e6);
  replace(file, "memory", "step", kVerySlow);
  EXPECT_GT(predicted_us(folder, named), 2e6);
  EXPECT_LT(predicted_us(folder, named, "tcp"), 1e6) << "streams have rates of their own";
  replace(file, "streams", "call", kVerySlow);
  EXPECT_GT(predicted_us(folder, named, "tcp"), 2e6);
}

// Of ranks that share memory, by all stages; plans for this host go by them.
TEST(Tune, KeepsStepsOfStrategies) {
  const Folder folder;
  const std::string file = folder.path("costs.json");
  const Ended ended = tutti("tune --quick --json -n 2 --file " + file);
  ASSERT_EQ(ended.exit_code, 0) << ended.output;
  const json costs = content_of(file), told = json::parse(ended.output);
  for (const json& survey : costs.at("surveys")) {
    ASSERT_EQ(survey.contains("steps"), survey.at("kind") == "memory");
    if (!survey.contains("steps")) continue;
    std::set<int> stages;
    for (const json& step : survey.at("steps")) {
      stages.insert(step.at("stage").get<int>());
      EXPECT_GT(step.at("seconds").get<double>(), 0);
      EXPECT_LT(step.at("seconds").get<double>(), 60);
    }
    EXPECT_EQ(stages, (std::set<int>{0, 1, 2, 3}));
    EXPECT_EQ(told.at("groups").at(0).at("steps"), survey.at("steps"));
  }
  EXPECT_FALSE(told.at("groups").at(1).contains("steps")) << "TCP";
  const auto plan = [&](const std::string& of) {
    return tutti("plan --cluster here --gpus 2 --layers 2 --hidden 64 --seq 64 --strategy zero3", "TUTTI_COSTS=" + of);
  };
  EXPECT_THAT(plan(file).output, HasSubstr("in steps that it timed"));
  json older = costs;
  for (json& survey : older["surveys"]) survey.erase("steps");
  std::ofstream(folder.path("older.json")) << older;
  const Ended by_calls = plan(folder.path("older.json"));
  EXPECT_THAT(by_calls.output, HasSubstr("as communicators here predict them"));
  EXPECT_THAT(by_calls.output, Not(HasSubstr("in steps that it timed")));
}

TEST(Tune, JobsFindItInTheCache) {
  const Folder folder;
  const std::string cache = folder.path("cache"), variables = "XDG_CACHE_HOME=" + cache;
  ASSERT_EQ(tutti("tune --quick -n 2", variables).exit_code, 0);
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(cache + "/tutti")) {
    if (!entry.path().filename().string().starts_with("speeds-")) files.push_back(entry.path());
  }
  ASSERT_EQ(files.size(), 1U) << "and nothing beside it";
  replace(files[0], "memory", "step", kVerySlow);
  EXPECT_GT(predicted_us(folder, variables), 2e6);
  std::ofstream(files[0]) << "{";
  EXPECT_LT(predicted_us(folder, variables), 1e6) << "one that is broken is as good as none";
  ASSERT_EQ(tutti("tune --quick -n 2", variables).exit_code, 0);
  EXPECT_GT(content_of(files[0]).at("memory").at("step").get<double>(), 0) << "and is replaced";
}

TEST(Tune, BuiltInCostsAreNoFileToKeepTheResultIn) {
  const Folder folder;
  const std::string variables =
      "-C " + folder.path("") + " TUTTI_COSTS=built-in XDG_CACHE_HOME=" + folder.path("cache");
  const Ended ended = tutti("tune --quick -n 2", variables);
  ASSERT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_FALSE(fs::exists(folder.path("built-in")));
  EXPECT_TRUE(fs::exists(folder.path("cache/tutti"))) << ended.output;
}

TEST(Tune, GroupsOfOtherSizesKeepTheirSurveys) {
  const Folder folder;
  const std::string file = folder.path("costs.json");
  for (const char* ranks : {"2", "3", "2"}) {
    const Ended ended = tutti(std::string("tune --quick -n ") + ranks + " --file " + file);
    ASSERT_EQ(ended.exit_code, 0) << ended.output;
  }
  std::multiset<std::string> found;
  const json costs = content_of(file);
  for (const json& survey : costs.at("surveys"))
    found.insert(survey.at("kind").get<std::string>() + std::to_string(survey.at("ranks").get<int>()));
  EXPECT_EQ(found, (std::multiset<std::string>{"memory2", "memory3", "streams2", "streams3"}));
}

TEST(Tune, TheFileThatIsNamedNeedNotBeThereYet) {
  const Folder folder;
  const std::string file = folder.path("new/folder/costs.json");
  for (const char* time : {"the first time", "and again"}) {
    const Ended ended = tutti("tune --quick -n 2", "TUTTI_COSTS=" + file);
    EXPECT_EQ(ended.exit_code, 0) << time << "\n" << ended.output;
    EXPECT_TRUE(fs::exists(file)) << time;
  }
}

TEST(Tune, TheRanksOfAJobMeasureIt) {
  const Folder folder;
  const std::string file = folder.path("costs.json");
  const Ended ended = tutti("run -n 3 -- " TUTTI_TOOL " tune --job --quick --show --file " + file,
                            "TUTTI_TRANSPORT=tcp TUTTI_COSTS=" + file);
  ASSERT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_EQ(count_of(ended.output, "wrote "), 1) << "by one rank\n" << ended.output;
  EXPECT_EQ(count_of(ended.output, "the job: the rates are off by"), 1);
  for (const char* words : {"measured us", "all_reduce", "recursive_halving", "barrier"})
    EXPECT_THAT(ended.output, HasSubstr(words));
  EXPECT_GT(content_of(file).at("streams").at("message").get<double>(), 0);
}

TEST(Tune, ForScriptsItIsOneObjectOfJson) {
  const Folder folder;
  const std::string file = folder.path("costs.json");
  const Ended here = shell("env -u TUTTI_COSTS " TUTTI_TOOL " tune --quick -n 2 --json --file " + file, "2>/dev/null");
  ASSERT_EQ(here.exit_code, 0) << here.output;
  const json told = json::parse(here.output, nullptr, false);
  ASSERT_TRUE(told.is_object()) << here.output;
  EXPECT_EQ(told["file"], file);
  ASSERT_EQ(told["groups"].size(), 2U);
  for (const json& group : told["groups"]) {
    EXPECT_EQ(group["ranks"], 2);
    EXPECT_GE(group["error"], 1);
    EXPECT_FALSE(group["calls"].empty());
  }
  const Ended job = tutti("run -n 2 -- " TUTTI_TOOL " tune --job --quick --json --file " + file);
  ASSERT_EQ(job.exit_code, 0) << job.output;
  EXPECT_EQ(count_of(job.output, "\"group\": \"the job\""), 1) << "by one rank\n" << job.output;
  EXPECT_THAT(job.output, Not(HasSubstr("wrote "))) << "which is no JSON";
}

TEST(Tune, SaysBeforeItMeasuresThatTheResultCannotBeKept) {
  const Folder folder;
  std::ofstream(folder.path("file")) << "text";
  const std::string dir = folder.path("");
  for (const std::string& path : {folder.path("file") + "/costs.json", std::string("/proc/no/such/costs.json"), dir}) {
    const Ended ended = tutti("tune --file " + path);
    EXPECT_EQ(ended.exit_code, 2) << path;
    EXPECT_THAT(ended.output, HasSubstr("cannot write '" + path + "'")) << path;
    EXPECT_THAT(ended.output, HasSubstr("name another file with --file")) << path;
    EXPECT_THAT(ended.output, Not(HasSubstr("ranks on"))) << "nothing was measured";
  }
  const Ended homeless = shell("env -i " TUTTI_TOOL " tune");
  EXPECT_EQ(homeless.exit_code, 2);
  EXPECT_THAT(homeless.output, HasSubstr("there is no HOME to keep the costs in; name a file with --file"));
}

TEST(Tune, WrongUsageNamesTheRemedy) {
  for (const auto& [arguments, words] : {std::pair("-n 1", "not in range 2 to 64"),
                                         {"-n 65", "not in range 2 to 64"},
                                         {"-n many", "many"},
                                         {"--dance", "--dance"},
                                         {"--file", "--file"}}) {
    const Ended ended = tutti(std::string("tune ") + arguments);
    EXPECT_EQ(ended.exit_code, 2) << arguments;
    EXPECT_THAT(ended.output, HasSubstr(words)) << arguments;
    EXPECT_THAT(ended.output, HasSubstr("tutti tune --help")) << arguments;
  }
  const Folder folder;
  const Ended alone = tutti("tune --job --file " + folder.path("costs.json"));
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_THAT(alone.output, HasSubstr("a group of one has nothing to measure"));
  EXPECT_TRUE(fs::is_empty(folder.path(""))) << "nothing is left of what was begun";
}

TEST(Tune, AFileThatIsNoTableOfCostsIsRefusedWhereItWasNamed) {
  const Folder folder;
  const std::string file = folder.path("costs.json");
  const auto refused = [&](const std::string& words) {
    const Ended ended = tutti("run -n 2 -- " TUTTI_MEETING_PROBE, "TUTTI_COSTS=" + file);
    EXPECT_NE(ended.exit_code, 0);
    EXPECT_THAT(ended.output, HasSubstr("TUTTI_COSTS is '" + file + "': "));
    EXPECT_THAT(ended.output, HasSubstr(words));
    EXPECT_THAT(ended.output, HasSubstr("`tutti tune` makes"));
  };
  refused("it cannot be read");
  std::ofstream(file) << "not a table";
  refused("not a JSON object");
  ASSERT_EQ(tutti("tune --quick -n 2 --file " + file).exit_code, 0);
  EXPECT_EQ(tutti("run -n 2 -- " TUTTI_MEETING_PROBE, "TUTTI_COSTS=" + file).exit_code, 0);
  replace(file, "memory", "copy", -1);
  refused("'copy' is negative or not finite");
}

}  // namespace
}  // namespace tutti::testing
