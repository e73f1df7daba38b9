// `tutti env`: the table, with the values that hold, without secrets, and with slips pointed out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/environment.h"
#include "shell.h"
#include "tools/launched.h"
#include "tutti/types.h"

namespace tutti::testing {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kSecret(64, 'e');

Launched::Setup some_variables() {
  Launched::Setup setup;
  setup.environment = {
      {"TUTTI_LOG", "info"}, {"TUTTI_TOKEN", kSecret}, {"TUTTI_TRANSPROT", "tcp"}, {"TUTTI_TEA_AND_BISCUITS", "two"}};
  return setup;
}

TEST(Env, ShowsEveryVariableWithWhatHolds) {
  const LaunchedEnd end = launch({"env"}, some_variables());
  EXPECT_EQ(end.exit_code, 0);
  for (const Variable& variable : variables()) {
    EXPECT_THAT(end.output, HasSubstr(std::string(variable.name)));
    EXPECT_THAT(end.output, HasSubstr(std::string(variable.meaning)));
  }
  EXPECT_THAT(end.output, ContainsRegex("\\* TUTTI_LOG +info "));
  EXPECT_THAT(end.output, ContainsRegex("  TUTTI_CHECK +\\(quick\\) "));
}

TEST(Env, HidesSecrets) {
  EXPECT_THAT(launch({"env"}, some_variables()).output, ContainsRegex("\\* TUTTI_TOKEN +set \\(hidden\\) "));
  for (const char* form : {"--json", "--markdown"}) {
    const LaunchedEnd end = launch({"env", form}, some_variables());
    EXPECT_THAT(end.output + end.errors, Not(HasSubstr(kSecret))) << form;
  }
}

TEST(Env, PointsOutSlips) {
  const LaunchedEnd end = launch({"env"}, some_variables());
  EXPECT_THAT(end.output,
              HasSubstr("unknown: TUTTI_TRANSPROT is set, but nothing reads it; do you mean TUTTI_TRANSPORT?\n"));
  EXPECT_THAT(end.output, HasSubstr("unknown: TUTTI_TEA_AND_BISCUITS is set, but nothing reads it\n"));
}

struct Invalid {
  const char* name;
  const char* value;
  std::string complaint;
};

std::string every_transport_word() {
  std::string words;
  for (const std::string_view word : kTransportWords) words += (words.empty() ? "" : ", ") + std::string(word);
  return words;
}

const Invalid kInvalid[] = {
    {"TUTTI_TRANSPORT", "rdma", "TUTTI_TRANSPORT is 'rdma'; it may be: " + every_transport_word()},
    {"TUTTI_CHECK", "x", "TUTTI_CHECK is 'x'; it may be: quick, full"},
    {"TUTTI_LOG", "blah", "TUTTI_LOG is 'blah'; it may be: off, warn, info, debug"},
    {"TUTTI_TIMEOUT_MS", "soon", "TUTTI_TIMEOUT_MS is 'soon'; it must be a number from 1 to 1000000000"},
    {"TUTTI_SILENCE_MS", "-1", "TUTTI_SILENCE_MS is '-1'; it must be a number from 0 to 1000000000"},
};

TEST(Env, MarksWhatTheLibraryWouldRefuse) {
  for (const auto& [name, value, complaint] : kInvalid) {
    Launched::Setup setup;
    setup.environment = {{name, value}};
    const LaunchedEnd end = launch({"env"}, setup);
    EXPECT_EQ(end.exit_code, 0);
    EXPECT_THAT(end.output, ContainsRegex(std::string("! ") + name + " +" + value + " "));
    EXPECT_THAT(end.output, HasSubstr(std::string("\n! invalid: ") + complaint + "\n"));
    EXPECT_THAT(launch({"env", "--json"}, setup).output, HasSubstr(std::string("\"invalid\": \"") + complaint));
    const Ended refused = shell(std::string(name) + "=" + value + " TUTTI_RANK=0 TUTTI_SIZE=1 " TUTTI_MEETING_PROBE);
    EXPECT_THAT(refused.output, HasSubstr(complaint)) << "the library says the same";
  }
  EXPECT_THAT(launch({"env"}, some_variables()).output, Not(HasSubstr("invalid")));
}

TEST(Env, SpeaksJson) {
  const json found = json::parse(launch({"env", "--json"}, some_variables()).output);
  EXPECT_EQ(found.at("variables").size(), variables().size());
  for (const json& entry : found.at("variables")) {
    if (entry.at("name") == "TUTTI_LOG") {
      EXPECT_EQ(entry.at("value"), "info");
    }
    if (entry.at("name") == "TUTTI_TOKEN") {
      EXPECT_TRUE(entry.at("set"));
      EXPECT_FALSE(entry.contains("value"));
    }
  }
  ASSERT_EQ(found.at("unknown").size(), 2U);
  EXPECT_EQ(found.at("unknown")[1], (json{{"name", "TUTTI_TRANSPROT"}, {"nearest", "TUTTI_TRANSPORT"}}));
}

TEST(Env, KnowsWhatRunTellsItsRanks) {
  const LaunchedEnd end = launch({"run", "-n", "1", TUTTI_TOOL, "env"});
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_THAT(end.output, Not(HasSubstr("unknown: ")));
}

TEST(Env, TheDocumentIsWhatTheTableSays) {
  std::ifstream file(TUTTI_SOURCE_DIRECTORY "/docs/environment.md");
  const std::string document{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(document, launch({"env", "--markdown"}, some_variables()).output)
      << "make it anew: build/bin/tutti env --markdown > docs/environment.md";
}

}  // namespace
}  // namespace tutti::testing
