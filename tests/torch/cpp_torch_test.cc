// tutti/torch.h and tutti/train/torch.h as a libtorch project uses them: Tutti is installed into a folder of its own,
// examples/cpp_torch, tensor_verbs and module_strategies are built against it and against the libtorch of $TORCH_PYTHON
// (or python3), and run on four ranks.
#include <gtest/gtest.h>

#include <filesystem>

#include "shell.h"

namespace tutti::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kRanks = 4;
const fs::path kSource = TUTTI_SOURCE_DIRECTORY;

class CppTorch : public ::testing::Test {
 protected:
  void SetUp() override {
    const Ended found =
        shell("${TORCH_PYTHON:-python3} -c 'import torch; print(torch.utils.cmake_prefix_path)'", "2>/dev/null");
    if (found.exit_code != 0) GTEST_SKIP() << "no PyTorch for python3; TORCH_PYTHON names a python that has it";
    torch_ = found.output.substr(0, found.output.find('\n'));
    std::string name = (fs::temp_directory_path() / "tutti_cpp_torch_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    run("cmake --install " TUTTI_BUILD_DIRECTORY " --prefix " + (folder_ / "tutti").string());
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string run(const std::string& command) {
    const Ended ended = shell("( " + command + " )");
    EXPECT_EQ(ended.exit_code, 0) << command << "\n" << ended.output;
    return ended.output;
  }
  // Builds the project in `source`, in a folder of this name.
  void build_project(const fs::path& source, const std::string& name) {
    const std::string build = (folder_ / name).string();
    run("cmake -S " + source.string() + " -B " + build + " -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH='" + torch_ +
        ";" + (folder_ / "tutti").string() + "' -DCMAKE_CXX_COMPILER=" TUTTI_CXX_COMPILER " && cmake --build " + build);
  }
  // Runs a program of that folder, with its arguments, on all ranks.
  std::string run_program(const std::string& name, const std::string& program, int ranks = kRanks,
                          const std::string& transport = "auto") {
    if (HasFailure()) return "";
    return run("TUTTI_TRANSPORT=" + transport + " timeout 120 " + (folder_ / "tutti/bin/tutti").string() + " run -n " +
               std::to_string(ranks) + " --no-prefix -- " + (folder_ / name).string() + "/" + program);
  }
  std::string run_project(const fs::path& source, const std::string& program) {
    build_project(source, program);
    return run_program(program, program);
  }

  fs::path folder_;
  std::string torch_;
};

TEST_F(CppTorch, TheExamplesLearnAndAllRanksHoldTheSameParameters) {
  build_project(kSource / "examples/cpp_torch", "examples");
  const std::string output = run_program("examples", "train");
  EXPECT_EQ(count_of(output, "the same parameters as rank 0"), kRanks) << output;
  const auto losses = [&](const std::string& strategy) {
    const std::string told = run_program("examples", "gpt --strategy " + strategy);
    EXPECT_EQ(count_of(told, "the same values on all ranks"), 1) << told;
    return told.substr(0, told.find("ranks:"));
  };
  const std::string data_parallel = losses("dp");
  for (const char* strategy : {"zero1", "zero2", "zero3", "dp --no-overlap"})
    EXPECT_EQ(losses(strategy), data_parallel) << strategy;

  // Stopped and gone on with, under another strategy, it tells what the run that never stopped did.
  const std::string saved = (folder_ / "saved").string();
  run_program("examples", "gpt --steps 30 --strategy zero3 --save " + saved);
  for (const char* strategy : {"zero1", "zero3"}) {
    const std::string told = losses(strategy + (" --resume " + saved));
    EXPECT_EQ(count_of(told, "goes on from step 30"), 1) << told;
    EXPECT_EQ(told.substr(told.find("step   40")), data_parallel.substr(data_parallel.find("step   40")));
  }

  // Replicas that seldom exchange: each by itself, and two of two ranks each in fragments of few bits.
  for (const char* how : {"10", "10 --replica-ranks 2 --strategy zero1 --fragments 3 --overlap 2 --few-bits"}) {
    const std::string told = run_program("examples", std::string("gpt --report --local-updates ") + how);
    EXPECT_EQ(count_of(told, "the same values on all ranks"), 1) << told;
    EXPECT_EQ(count_of(told, "local updates every 10 steps"), 1) << told;
  }
  // Their checkpoints, a folder for each replica.
  const std::string replicas = "dp --local-updates 10 --replica-ranks 2",
                    saved_replicas = (folder_ / "replicas").string();
  const std::string whole = losses(replicas);
  run_program("examples", "gpt --steps 30 --strategy " + replicas + " --save " + saved_replicas);
  const std::string resumed = losses(replicas + " --resume " + saved_replicas);
  EXPECT_EQ(resumed.substr(resumed.find("step   40")), whole.substr(whole.find("step   40")));

  // Gradients in fewer bytes, and advice.
  const std::string told =
      run_program("examples", "gpt --report --advise --held-out 8 --compress int8 --compress-from 5");
  for (const char* part : {"int8 gradients of bucket", "recommended: "}) EXPECT_GE(count_of(told, part), 1) << told;
  EXPECT_EQ(count_of(told, "the same values on all ranks"), 1) << told;

  const std::string figures = run_program("examples", "gpt --json --steps 4 --layers 1 --width 24 --heads 3 --no-clip");
  for (const char* name : {"\"ranks\": 4, ", "\"step_ms\": ", "\"waiting_ms\": ", "\"updating_ms\": "})
    EXPECT_EQ(count_of(figures, name), 1) << figures;
}

TEST_F(CppTorch, EveryFunctionOnTensors) {
  const std::string output = run_project(kSource / "tests/torch/tensor_verbs", "tensor_verbs");
  EXPECT_EQ(count_of(output, "all right"), kRanks) << output;
}

TEST_F(CppTorch, StrategiesTrainModules) {
  build_project(kSource / "tests/torch/module_strategies", "strategies");
  const std::string output = run_program("strategies", "module_strategies");
  EXPECT_EQ(count_of(output, "all right"), kRanks) << output;
  for (const int ranks : {2, 3}) {
    for (const char* transport : {"shm", "tcp"}) {
      const std::string told = run_program("strategies", "module_units", ranks, transport);
      EXPECT_EQ(count_of(told, "all right"), ranks) << transport << "\n" << told;
    }
  }
}

}  // namespace
}  // namespace tutti::testing
