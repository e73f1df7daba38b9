// tutti/torch.h and tutti/train/torch.h as a libtorch project uses them: tensor_verbs, module_strategies and
// tensor_parallel, on several ranks. The examples are in cpp_torch_gpt_test.cc.
#include <optional>
#include <utility>

#include "libtorch_projects.h"

namespace tutti::testing {
namespace {

class CppTorch : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string torch = torch_folder();
    if (torch.empty()) GTEST_SKIP() << kNoTorch;
    projects_.emplace(torch);
  }
  // The programs of tests/torch/NAME.
  void build(const std::string& name) { projects_->build(kSource / "tests/torch" / name, name); }
  void expect_all_right(const std::string& name, const std::string& program, int ranks,
                        const std::string& transport = "auto") {
    const std::string told = projects_->run(name, program, ranks, transport);
    EXPECT_EQ(count_of(told, "all right"), ranks) << program << " over " << transport << "\n" << told;
  }

  std::optional<LibtorchProjects> projects_;
};

TEST_F(CppTorch, EveryFunctionOnTensors) {
  build("tensor_verbs");
  expect_all_right("tensor_verbs", "tensor_verbs", 4);
}

TEST_F(CppTorch, StrategiesTrainModules) {
  build("module_strategies");
  expect_all_right("module_strategies", "module_strategies", 4);
  for (const int ranks : {2, 3})
    for (const char* transport : {"shm", "tcp"})
      expect_all_right("module_strategies", "module_units", ranks, transport);
}

TEST_F(CppTorch, StagesAndExpertsAreOneProcess) {
  build("module_strategies");
  for (const char* program : {"module_pipeline", "module_experts"})
    for (const auto& [ranks, transport] :
         {std::pair(1, "shm"), std::pair(2, "tcp"), std::pair(3, "shm"), std::pair(4, "shm")})
      expect_all_right("module_strategies", program, ranks, transport);
}

TEST_F(CppTorch, LayersCutOverRanksTrainAsOneProcess) {
  build("tensor_parallel");
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (const char* transport : {"shm", "tcp"})
      expect_all_right("tensor_parallel", "tensor_parallel", ranks, transport);
}

}  // namespace
}  // namespace tutti::testing
