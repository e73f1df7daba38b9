// The one table of variables, and the snapshot that everything else reads.
#include "base/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "base/log.h"
#include "base/rank_list.h"
#include "base/statement.h"
#include "tutti/error.h"

namespace tutti {
namespace {

Environment having(const std::string& name, const std::string& value) {
  return Environment(std::map<std::string, std::string, std::less<>>{{name, value}});
}

std::string complaint(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return {};
}

TEST(Variables, AreNamedOnceAndExplained) {
  std::set<std::string_view> names;
  for (const Variable& variable : variables()) {
    EXPECT_TRUE(names.insert(variable.name).second) << variable.name;
    EXPECT_TRUE(variable.name.starts_with("TUTTI_")) << variable.name;
    EXPECT_FALSE(variable.unset.empty() || variable.meaning.empty()) << variable.name;
    EXPECT_EQ(variable.secret, variable.name == "TUTTI_TOKEN") << variable.name;
  }
}

TEST(EnvironmentTest, SecretsAreTakenOutOfTheProcessAndKept) {
  const std::string digits(64, 'd');
  ASSERT_EQ(::setenv("TUTTI_TOKEN", digits.c_str(), 1), 0);
  ASSERT_EQ(::setenv("TUTTI_JOB", "mine", 1), 0);
  EXPECT_EQ(Environment::take_of_process().get("TUTTI_TOKEN"), digits);
  EXPECT_EQ(::getenv("TUTTI_TOKEN"), nullptr) << "what this process starts would inherit it";
  EXPECT_STREQ(::getenv("TUTTI_JOB"), "mine");
  EXPECT_EQ(Environment::take_of_process().get("TUTTI_TOKEN"), digits) << "a second call has lost it";
  EXPECT_EQ(Environment::of_process().get("TUTTI_TOKEN"), std::nullopt);
  ASSERT_EQ(::setenv("TUTTI_TOKEN", "another", 1), 0);
  EXPECT_EQ(Environment::take_of_process().get("TUTTI_TOKEN"), "another");
  ::unsetenv("TUTTI_JOB");
}

TEST(EnvironmentTest, EmptyValuesCountAsUnset) {
  const Environment environment({{"A", "1"}, {"B", ""}});
  EXPECT_EQ(environment.get("A"), "1");
  EXPECT_FALSE(environment.get("B"));
  EXPECT_FALSE(environment.get("C"));
}

TEST(EnvironmentTest, NumbersAreCheckedAndTheComplaintNamesTheVariable) {
  EXPECT_EQ(having("TUTTI_SILENCE_MS", "0").number("TUTTI_SILENCE_MS"), 0);
  EXPECT_FALSE(Environment().number("TUTTI_SILENCE_MS"));
  for (const char* value : {"12x", "-1", "99999999999999999999", "1000000001"}) {
    const Environment environment = having("TUTTI_SILENCE_MS", value);
    const std::string words = complaint([&] { environment.number("TUTTI_SILENCE_MS"); });
    EXPECT_EQ(words.find("TUTTI_SILENCE_MS is '" + std::string(value) + "'"), 0u) << words;
    EXPECT_NE(words.find("from 0 to 1000000000"), std::string::npos) << words;
  }
}

TEST(EnvironmentTest, WordsAreThoseOfTheTable) {
  EXPECT_EQ(having("TUTTI_CHECK", "full").word("TUTTI_CHECK"), "full");
  EXPECT_EQ(having("TUTTI_JOB", "anything").word("TUTTI_JOB"), "anything");
  for (const char* value : {"ful", "fullx", "quick|full", "|"}) {
    const Environment environment = having("TUTTI_CHECK", value);
    EXPECT_EQ(complaint([&] { environment.word("TUTTI_CHECK"); }),
              "TUTTI_CHECK is '" + std::string(value) + "'; it may be: quick, full");
  }
}

TEST(EnvironmentTest, DefaultsFillInAndNeverOverride) {
  const Environment environment =
      Environment({{"A", "set"}, {"B", ""}}).with_defaults({{"A", "x"}, {"B", "y"}, {"C", ""}});
  EXPECT_EQ(environment.get("A"), "set");
  EXPECT_EQ(environment.get("B"), "y");
  EXPECT_FALSE(environment.get("C"));
}

TEST(EnvironmentTest, OfTheProcessHoldsWhatTheProcessHas) {
  ::setenv("TUTTI_TEST_VARIABLE", "a=b", 1);
  EXPECT_EQ(Environment::of_process().get("TUTTI_TEST_VARIABLE"), "a=b");
}

TEST(EnvironmentTest, TheCacheFolderIsWhereUsersPutIt) {
  const auto folder = [](std::map<std::string, std::string, std::less<>> values) {
    return Environment(std::move(values)).cache_folder();
  };
  EXPECT_EQ(folder({{"HOME", "/a"}}), "/a/.cache/tutti");
  EXPECT_EQ(folder({{"HOME", "/a"}, {"XDG_CACHE_HOME", "/fast"}}), "/fast/tutti");
  EXPECT_EQ(folder({{"HOME", "/a"}, {"XDG_CACHE_HOME", ""}}), "/a/.cache/tutti");
  EXPECT_EQ(folder({}), "");
}

TEST(LogTest, LevelsAreWordsAndOthersAreRefused) {
  EXPECT_EQ(Log::level_of("off"), Log::Level::off);
  EXPECT_EQ(Log::level_of("debug"), Log::Level::debug);
  EXPECT_NE(complaint([] { Log::level_of("loud"); }).find("off, warn, info or debug"), std::string::npos);
}

TEST(LogTest, SaysOneLineWithTheRankAndOnlyWhatItsLevelAllows) {
  const Log log(Log::Level::warn, 3);
  ::testing::internal::CaptureStderr();
  log.warn("slow");
  log.info("detail");
  Log().warn("nobody asked");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "[tutti rank 3] warning: slow\n");
}

TEST(RankNames, AreShortened) {
  EXPECT_EQ(rank_names(std::vector{3}), "rank 3");
  EXPECT_EQ(rank_names(std::vector{0, 1}), "ranks 0-1");
  EXPECT_EQ(rank_names(std::vector{0, 2, 3, 4, 9}), "ranks 0, 2-4, 9");
  EXPECT_EQ(rank_names(std::vector{0, 2, 4, 6, 8, 10, 12, 14, 16, 17}), "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 2 more");
}

TEST(StatementTest, KindsAreUnpackedAsTheyWerePacked) {
  const std::uint64_t kinds = Statement::kinds_of(Verb::send_recv, 13, 8, 70'000, 5);
  const Statement statement{1, kinds, 9};
  EXPECT_EQ(statement.verb(), Verb::send_recv);
  EXPECT_EQ(statement.type(), 13);
  EXPECT_EQ(statement.op(), 8);
  EXPECT_EQ(statement.root(), 70'000);
  EXPECT_EQ(statement.peer(), 5);
  EXPECT_EQ((Statement{1, Statement::kinds_of(Verb::broadcast, 0, 0, 0, -1), 9}).peer(), -1);
}

}  // namespace
}  // namespace tutti
