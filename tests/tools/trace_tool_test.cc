// `tutti trace` as people call it: one screen, which docs/trace.md shows, JSON, a picture, and bad input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "shell.h"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using tutti::testing::Ended;

const std::string kGolden = TUTTI_SOURCE_DIRECTORY "/tests/golden/trace/";

Ended trace(const std::string& arguments) { return tutti::testing::shell(TUTTI_TOOL " trace " + arguments); }

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// A file that goes with the test.
class Written {
 public:
  explicit Written(const std::string& text)
      : path_(std::filesystem::temp_directory_path() /
              ("tutti-trace-test-" + std::to_string(::getpid()) + "-" + std::to_string(count_++) + ".json")) {
    std::ofstream(path_) << text;
  }
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;
  ~Written() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  static inline int count_ = 0;
  std::filesystem::path path_;
};

void expect_refused(const std::string& arguments, const std::string& words) {
  const Ended ended = trace(arguments);
  EXPECT_EQ(ended.exit_code, 2) << arguments << "\n" << ended.output;
  EXPECT_THAT(ended.output, HasSubstr(words)) << arguments;
}

TEST(TraceTool, TellsInOneScreenWhatTheDocumentationShows) {
  const Ended ended = trace(kGolden + "three_ranks.json");
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_EQ(ended.output, text_of(kGolden + "three_ranks.txt"));
  EXPECT_THAT(text_of(TUTTI_SOURCE_DIRECTORY "/docs/trace.md"), HasSubstr(ended.output));
}

TEST(TraceTool, TellsTheExampleOfAllEvents) {
  const Ended ended = trace(kGolden + "two_ranks.json");
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_THAT(ended.output,
              AllOf(HasSubstr("2 ranks on 2 hosts"), HasSubstr("12.5 us off"), HasSubstr("lost its oldest"),
                    HasSubstr("rank 1 was killed, or still ran"), HasSubstr("that takes 3 steps")));
}

TEST(TraceTool, TellsTheSameAsJson) {
  const Ended ended = trace(kGolden + "three_ranks.json --json");
  ASSERT_EQ(ended.exit_code, 0) << ended.output;
  const json told = json::parse(ended.output);
  EXPECT_EQ(told.at("job"), "51ce");
  EXPECT_EQ(told.at("steps").size(), 4U);
  EXPECT_DOUBLE_EQ(told.at("mean").at("mean").at("compute_us"), 840);
  EXPECT_EQ(told.at("straggler").at("rank"), 2);
  EXPECT_EQ(told.at("straggler").at("since_step"), 1);
  EXPECT_EQ(told.at("outliers").size(), 1U);
  EXPECT_EQ(told.at("slowest_call").at("critical_path").size(), 3U);
}

TEST(TraceTool, TellsAStepOrACallAlone) {
  const json step = json::parse(trace(kGolden + "three_ranks.json --step 1 --json").output);
  EXPECT_EQ(step.at("steps").size(), 1U);
  EXPECT_EQ(step.at("slowest_call").at("seq"), 1);
  EXPECT_THAT(trace(kGolden + "three_ranks.json --call 7b#3").output, HasSubstr("the call all_reduce 7b#3"));
  EXPECT_THAT(trace(kGolden + "three_ranks.json --call 3").output, HasSubstr("the call all_reduce 7b#3"));
  expect_refused(kGolden + "three_ranks.json --call 9", "no collective of the trace is called that");
  expect_refused(kGolden + "three_ranks.json --step 9", "--step 9: the trace has steps 0 to 3");
}

TEST(TraceTool, DrawsAPicture) {
  const Written picture("");
  EXPECT_EQ(trace(kGolden + "three_ranks.json --svg " + picture.path()).exit_code, 0);
  EXPECT_THAT(text_of(picture.path()), AllOf(HasSubstr("<svg"), HasSubstr("rank 2"), HasSubstr("exposed")));
}

TEST(TraceTool, ReadsFilesOfTorchProfiler) {
  const Ended ended = trace(kGolden + "torch_nccl_rank0.json " + kGolden + "torch_nccl_rank1.json");
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_THAT(ended.output,
              AllOf(HasSubstr("torch.profiler of nccl, 2 ranks"), HasSubstr("raw 0.231"), HasSubstr("exposed 0.192")));
}

TEST(TraceTool, RefusesInWords) {
  expect_refused("", "FILE");
  expect_refused("/no/such/file", "cannot read '/no/such/file'");
  const Written nothing("not a trace"), other(R"({"a": 1})"), later(R"({"tutti": {"format": 9}, "traceEvents": []})"),
      headless(R"({"tutti": {"ranks": 2}, "trace)");
  expect_refused(nothing.path(), "is no trace that can be read: it is not JSON");
  expect_refused(other.path(), "it has no traceEvents");
  expect_refused(later.path(), "its format is 9, this build reads 1; read it with the version that wrote it");
  expect_refused(headless.path(), "no line of it is an event");
  expect_refused(kGolden + "two_ranks.json " + kGolden + "three_ranks.json",
                 "two_ranks.json is of job 9f3c, " + kGolden + "three_ranks.json is of job 51ce");
  expect_refused(kGolden + "two_ranks.json " + kGolden + "torch_nccl_rank0.json", "is not of Tutti, and others are");
}

TEST(TraceTool, ShowsWhatIsReadableOfOneThatIsCutOff) {
  const std::string whole = text_of(kGolden + "three_ranks.json");
  const Written cut(whole.substr(0, whole.size() / 2));
  const Ended ended = trace(cut.path());
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_THAT(ended.output, AllOf(HasSubstr("cut off: "), HasSubstr("events are readable"), HasSubstr("all_reduce")));
}

TEST(TraceTool, HelpTeaches) {
  EXPECT_THAT(trace("--help").output, AllOf(HasSubstr("Examples:\n  tutti trace "), HasSubstr("How to read it")));
}

}  // namespace
