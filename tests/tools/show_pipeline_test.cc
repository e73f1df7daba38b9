// tutti show pipeline, as a user meets it: text, JSON, refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "shell.h"

namespace tutti::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

Ended show(const std::string& arguments) { return shell(std::string(TUTTI_TOOL) + " show pipeline " + arguments); }

TEST(ShowPipeline, DrawsWhatWasAskedFor) {
  const Ended ended = show("--schedule 1f1b --stages 4 --microbatches 8");
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_THAT(ended.output, AllOf(HasSubstr("by its formula (p - 1) / m: 37.5 %"),
                                  HasSubstr("\nstage 3  .. .. .. F0 B0--- F1 B1--- F2")));
  EXPECT_EQ(show("").output, ended.output) << "as if left out";
  EXPECT_THAT(show("--schedule interleaved").output, HasSubstr("2 chunks of the model on every stage"));
  EXPECT_THAT(show("--microbatches 900").output, HasSubstr("too wide to draw as text; --svg FILE"));
}

TEST(ShowPipeline, OfUnevenStagesIsPlayed) {
  EXPECT_THAT(show("--microbatches 16 --factors 1,1,2,1").output, HasSubstr("103 forwards, of which 96 are work of"));
  EXPECT_THAT(show("--stages 2 --microbatches 2 --message 0.5").output, HasSubstr("takes       10 forwards"));
}

TEST(ShowPipeline, AsJsonHasProgramsOfAllStages) {
  const json document = json::parse(show("--schedule zb-h1 --stages 3 --microbatches 4 --json").output);
  EXPECT_EQ(document["programs"].size(), 3u);
  EXPECT_DOUBLE_EQ(document["bubble"], 2.0 / 12);
  std::size_t sends = 0, receives = 0, weight_gradients = 0;
  for (const json& program : document["programs"]) {
    for (const json& step : program["steps"]) {
      for (const json& message : step["batch"]) ++(message["sends"] ? sends : receives);
      weight_gradients += step.contains("action") && step["action"]["work"] == "weight gradient" ? 1 : 0;
    }
  }
  EXPECT_EQ(sends, 2u * 2 * 4);
  EXPECT_EQ(receives, sends);
  EXPECT_EQ(weight_gradients, 3u * 4);
}

TEST(ShowPipeline, ThatIsImpossibleIsRefusedWithTheRemedy) {
  const auto refused = [](const std::string& arguments, const std::string& words) {
    const Ended ended = show(arguments);
    EXPECT_EQ(ended.exit_code, 2) << arguments;
    EXPECT_THAT(ended.output, HasSubstr(words));
  };
  refused("--schedule 1b1f", "did you mean 1f1b?");
  refused("--schedule interleaved --microbatches 6", "take 8, or another schedule");
  refused("--chunks 2", "take the schedule interleaved for several");
  refused("--stages 0", "a pipeline of 0 stages");
  refused("--stages 2000", "1024 at most");
  refused("--factors 1,2", "2 numbers for 4 stages");
  refused("--factors 1,x,1,1", "one for each stage, belong there");
  refused("--message -1", "--message is a time");
}

TEST(ShowPipeline, HelpTeachesToReadIt) {
  const Ended ended = show("--help");
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_THAT(ended.output,
              AllOf(HasSubstr("How to read it"), HasSubstr("zb-h1        1f1b with backward in two parts")));
}

}  // namespace
}  // namespace tutti::testing
