// Files of events, whole, cut off anywhere, or with what is none among them.
#include "tools/trace/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "golden_trace.h"
#include "tools/trace/told.h"

namespace tutti::analysis {
namespace {

using ::testing::HasSubstr;

TEST(EventFile, LeavesOutWhatNestsTooDeep) {
  const std::string deep(200'000, '[');
  const std::string text =
      R"({"traceEvents": [{"ph": "X", "args": )" + deep + std::string(deep.size(), ']') + R"(}, {"x": 1}]})";
  const EventFile file(text);
  std::size_t taken = 0;
  EXPECT_EQ(file.for_each([&](const Json&) { ++taken; }), 1U);
  EXPECT_EQ(taken, 1U);
  const std::string members = R"({"tutti": )" + deep + std::string(deep.size(), ']') + R"(, "traceEvents": []})";
  EXPECT_THAT(EventFile(members).problem(), HasSubstr("nests too deep"));
  const EventFile behind(R"({"traceEvents": [], "tutti": )" + deep + std::string(deep.size(), ']') + "}");
  EXPECT_FALSE(behind.is_whole());
  EXPECT_FALSE(nests_too_deep(golden_text("three_ranks.json")));
}

TEST(EventFile, ReadsTheMembersBehindAndKnowsEventsOnlyByTheirPlace) {
  const EventFile file(R"( {"a": "\"traceEvents\": [", "b": {"traceEvents": [1]}, "traceEvents" : [ {"x": "}]"},
{"x": [{}]} ], "c": 3} )");
  EXPECT_EQ(file.problem(), "");
  EXPECT_TRUE(file.is_whole());
  EXPECT_EQ(file.size(), 2U);
  EXPECT_EQ(file.members().at("c"), 3);
  EXPECT_EQ(EventFile(R"([{"ph": "X"}, {"ph": "M"}])").size(), 2U) << "an array alone is the oldest form";
  EXPECT_THAT(EventFile("").problem(), HasSubstr("not JSON"));
  EXPECT_THAT(EventFile("\x1f\x8b\x08").problem(), HasSubstr("gunzip"));
  EXPECT_THAT(EventFile(R"({"a": 1})").problem(), HasSubstr("no traceEvents"));
  EXPECT_EQ(EventFile(R"({"traceEvents": [1, {"x": 1}, null], "c": 3})").members().at("c"), 3) << "not all are events";
  EXPECT_FALSE(EventFile(R"({"traceEvents": [{"x": 1}, }]})").is_whole()) << "nothing where a value should be";
  const EventFile cut(R"({"traceEvents": [{"x": 1}, {"x": )");
  EXPECT_FALSE(cut.is_whole());
  EXPECT_EQ(cut.size(), 1U);
}

// Whatever is cut off where, nothing is read that is not there, and nothing fails in a way that is not told.
TEST(EventFile, MayEndAnywhere) {
  const std::string whole = golden_text("two_ranks.json");
  std::size_t read_before = 0;
  for (std::size_t length = 0; length < whole.size(); length += 7) {
    const std::string text = whole.substr(0, length);
    const EventFile file(text);
    if (!file.problem().empty()) continue;
    EXPECT_FALSE(file.is_whole()) << length;
    EXPECT_GE(file.size(), read_before);
    read_before = file.size();
    EXPECT_NO_THROW(static_cast<void>(to_text(read(text), "cut.json", std::nullopt))) << length;
  }
  EXPECT_GT(read_before, 30U);
}

}  // namespace
}  // namespace tutti::analysis
