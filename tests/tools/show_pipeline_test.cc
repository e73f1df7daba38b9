// tutti show pipeline, as a user meets it: text, JSON, refusals.
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

TEST(ShowPipeline, DrawsThePicturesOfTheDocuments) {
  const std::string drawn = ::testing::TempDir() + "tutti_pipeline_" + std::to_string(::getpid()) + ".svg";
  const auto contents = [](const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  };
  for (const std::string schedule : {"1f1b", "interleaved", "zb-h1"}) {
    EXPECT_EQ(show("--schedule " + schedule + " --svg " + drawn).exit_code, 0);
    const std::string page = TUTTI_SOURCE_DIRECTORY "/docs/plots/pipeline-" + schedule + ".svg";
    EXPECT_EQ(contents(drawn), contents(page)) << page << ": draw it anew";
    EXPECT_THAT(contents(page), HasSubstr("<svg"));
  }
  std::filesystem::remove(drawn);
}

TEST(ShowPipeline, OfUnevenStagesIsPlayed) {
  EXPECT_THAT(show("--microbatches 16 --factors 1,1,2,1").output, HasSubstr("103 forwards, of which 96 are work of"));
  EXPECT_THAT(show("--stages 2 --microbatches 2 --message 0.5").output, HasSubstr("takes       10 forwards"));
}

// By the simulator of collectives, on the links between neighbouring stages.
TEST(ShowPipeline, MessagesTakeWhatTheyTakeOnACluster) {
  const auto message = [](const std::string& how) {
    return json::parse(show("--json --bytes 64M --forward-ms 10 " + how).output)["message"].get<double>();
  };
  const Ended simulated = shell(std::string(TUTTI_TOOL) + " sim send_recv --topology dgx-h100:2 -b 64M --json");
  const double seconds = json::parse(simulated.output)["algorithms"][0]["seconds"];
  const double inside = message("--topology dgx-h100:2 --stages 2");
  EXPECT_NEAR(inside, seconds / 10e-3, 1e-3 * inside);
  const double across = message("--topology dgx-h100:2 --stages 2 --apart 8");
  EXPECT_GT(across, 5 * inside) << "450 GB/s and 50 GB/s";
  EXPECT_DOUBLE_EQ(message("--topology dgx-h100:3 --stages 3 --apart 8"), across);
  EXPECT_NEAR(message("--topology dgx-h100:2 --stages 16"), across, 0.2 * across) << "the slowest counts";
  // 25 Gbit/s are 3.125 GB/s, besides latency.
  EXPECT_NEAR(message("--topology cpu-25gbe:2 --stages 2 --apart 16"), (64 << 20) / 3.125e9 / 10e-3, 0.02);

  const Ended told = show("--topology cpu-25gbe:4 --apart 16 --bytes 64M --forward-ms 10");
  EXPECT_THAT(told.output, HasSubstr("\n  a message   21.49 ms on cpu-25gbe:4, 2.149 forwards\n"));
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
  refused("--topology dgx-h100 --bytes 1M --forward-ms 0", "--forward-ms is a time above 0");
  refused("--topology dgx-h100:2 --apart 8 --bytes 1M --forward-ms 1", "do not lie on the 16 ranks of dgx-h100:2");
}

TEST(ShowPipeline, HelpTeachesToReadIt) {
  const Ended ended = show("--help");
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_THAT(ended.output,
              AllOf(HasSubstr("How to read it"), HasSubstr("zb-h1        1f1b with backward in two parts")));
}

}  // namespace
}  // namespace tutti::testing
