// examples/cpp_torch as its users run it: whatever cuts the GPT over ranks, its losses are those of one process.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "libtorch_projects.h"

namespace tutti::testing {
namespace {

constexpr int kRanks = 4;
// Relative, of losses over 100 steps. Runs were within 2e-7.
constexpr double kApart = 1e-6;
// Gradient descent, for AdamW does not mind gradients that are off by a factor.
const std::string kSgd = " --sgd --rate 0.2";

using Losses = std::vector<double>;

// The largest relative difference.
double apart(const Losses& a, const Losses& b) {
  double most = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) most = std::max(most, std::abs(a[i] - b[i]) / b[i]);
  return most;
}

// All tests share what is built, as it takes the longest; so they are one program of ctest.
class CppTorchGpt : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::string torch = torch_folder();
    if (torch.empty()) return;
    projects_ = std::make_unique<LibtorchProjects>(torch);
    projects_->build(kSource / "examples/cpp_torch", "examples");
  }
  static void TearDownTestSuite() { projects_.reset(); }
  void SetUp() override {
    if (!projects_) GTEST_SKIP() << kNoTorch;
  }

  static std::string gpt(const std::string& options, int ranks = kRanks) {
    return projects_->run("examples", "gpt " + options, ranks);
  }
  // What a run tells of its losses, and that ranks came to the same values.
  static std::string told_by(const std::string& options) {
    const std::string told = gpt(options);
    EXPECT_EQ(count_of(told, "the same values on all ranks"), 1) << options << "\n" << told;
    return told.substr(0, told.find("ranks:"));
  }
  static std::string folder(const std::string& name) { return projects_->path(name); }
  // Of every step.
  static Losses losses_of(const std::string& options, int ranks) {
    const std::string told = gpt(options + " --tell 1 --losses " + folder("losses"), ranks);
    EXPECT_EQ(count_of(told, "the same values on all ranks"), 1) << options << "\n" << told;
    std::ifstream file(folder("losses"));
    Losses losses;
    for (double step = 0, loss = 0; file >> step >> loss;) losses.push_back(loss);
    return losses;
  }
  // 100 steps of one process.
  static const Losses& one_process(const std::string& options) {
    Losses& losses = of_one_process_[options];
    if (losses.empty()) losses = losses_of("--steps 100 " + options, 1);
    EXPECT_EQ(losses.size(), 100) << options;
    return losses;
  }
  static void expect_one_curve(const std::string& model, const std::string& how, int ranks = kRanks) {
    EXPECT_LT(apart(losses_of("--steps 100 " + model + " " + how, ranks), one_process(model)), kApart)
        << model << " " << how;
  }
  // Steps 30 to 60 of a run that goes on with what is in `saved`.
  static void expect_goes_on(const std::string& model, const std::string& how, const std::string& saved) {
    const Losses& all = one_process(model);
    const Losses resumed = losses_of("--steps 60 " + model + " " + how + " --resume " + saved, kRanks);
    EXPECT_LT(apart(resumed, {all.begin() + 30, all.begin() + 60}), kApart) << model << " " << how;
  }
  static void save_at_30(const std::string& model, const std::string& how, const std::string& saved) {
    gpt("--steps 30 " + model + " " + how + " --save " + saved);
  }

  static inline std::unique_ptr<LibtorchProjects> projects_;

 private:
  static inline std::map<std::string, Losses> of_one_process_;
};

TEST_F(CppTorchGpt, TheSmallExampleLearns) {
  const std::string told = projects_->run("examples", "train", kRanks);
  EXPECT_EQ(count_of(told, "the same parameters as rank 0"), kRanks) << told;
}

TEST_F(CppTorchGpt, EveryStageTellsTheLossesOfDataParallel) {
  const std::string data_parallel = told_by("--strategy dp");
  for (const char* strategy : {"zero1", "zero2", "zero3", "dp --no-overlap"})
    EXPECT_EQ(told_by(std::string("--strategy ") + strategy), data_parallel) << strategy;
  for (const char* strategy : {"--strategy dp", "--strategy zero3"}) expect_one_curve("", strategy);
}

// Stopped and gone on with, under another strategy, it tells what the run that never stopped did.
TEST_F(CppTorchGpt, GoesOnUnderAnotherStrategy) {
  const std::string all = told_by("--strategy dp"), saved = folder("saved");
  save_at_30("", "--strategy zero3", saved);
  for (const char* strategy : {"zero1", "zero3"}) {
    const std::string told = told_by(std::string("--strategy ") + strategy + " --resume " + saved);
    EXPECT_EQ(count_of(told, "goes on from step 30"), 1) << told;
    EXPECT_EQ(told.substr(told.find("step   40")), all.substr(all.find("step   40"))) << strategy;
  }
}

TEST_F(CppTorchGpt, ReplicasSeldomExchange) {
  // Each by itself, and two of two ranks each in fragments of few bits.
  for (const char* how : {"10", "10 --replica-ranks 2 --strategy zero1 --fragments 3 --overlap 2 --few-bits"})
    EXPECT_EQ(count_of(told_by(std::string("--report --local-updates ") + how), "local updates every 10 steps"), 1);
  // Their checkpoints, a folder for each replica.
  const std::string replicas = "--local-updates 10 --replica-ranks 2", saved = folder("replicas");
  const std::string whole = told_by(replicas);
  save_at_30("", replicas, saved);
  const std::string resumed = told_by(replicas + " --resume " + saved);
  EXPECT_EQ(resumed.substr(resumed.find("step   40")), whole.substr(whole.find("step   40")));
}

// Four workers; and three that begin with what data parallel has saved.
TEST_F(CppTorchGpt, ASynchronousServerIsOneProcess) {
  const std::string model = kSgd + " --no-clip";
  expect_one_curve(model, "--strategy server", 5);
  const std::string of_three = model + " --batch 12", saved = folder("for-a-server");
  save_at_30(of_three, "--strategy dp", saved);
  expect_goes_on(of_three, "--strategy server", saved);
}

TEST_F(CppTorchGpt, CutLayersAreOneProcess) {
  for (const char* how :
       {"--mesh dp2.tp2", "--mesh dp2.tp2 --sequence-parallel --strategy zero3", "--mesh tp4 --strategy zero1"})
    expect_one_curve("", how);
  const std::string told = gpt("--mesh dp2.tp2 --report");
  for (const char* part : {"mesh dp2.tp2, 4 ranks; nearest to each other: tp, then dp", "along tp:"})
    EXPECT_EQ(count_of(told, part), 1) << told;
}

// The examples go through stages in micro-batches. Four layers, for interleaving has two chunks on each stage.
TEST_F(CppTorchGpt, StagesAreOneProcess) {
  for (const char* how : {"--mesh pp2.dp2 --schedule zb-h1 --strategy zero1", "--mesh pp2.tp2 --schedule gpipe"})
    expect_one_curve(kSgd, how);
  for (const char* schedule : {"1f1b", "interleaved"})
    expect_one_curve(kSgd + " --layers 4", std::string("--mesh pp2.dp2 --schedule ") + schedule);
}

TEST_F(CppTorchGpt, LayersAndStagesAndDataAreOneProcess) { expect_one_curve(kSgd, "--mesh dp2.tp2.pp2", 8); }

// Without the loss that balances loads, which is that of a rank's own tokens.
TEST_F(CppTorchGpt, ExpertsAreOneProcess) {
  for (const char* mesh : {"dp2.ep2", "ep4", "dp2.tp2", "pp2.ep2"})
    expect_one_curve(kSgd + " --experts 8 --top-k 2 --balance 0", std::string("--mesh ") + mesh);
}

// Whole parameters by their names, whoever has them.
TEST_F(CppTorchGpt, GoesOnUnderAnotherMesh) {
  const std::string layers = folder("layers"), stages = folder("stages"), whole = folder("whole");
  save_at_30("", "--mesh dp2.tp2 --sequence-parallel --strategy zero1", layers);
  for (const char* how : {"--strategy zero3", "--mesh tp4"}) expect_goes_on("", how, layers);
  save_at_30("", "--mesh pp2.dp2 --strategy zero1", stages);
  for (const char* how : {"--strategy dp", "--mesh pp2.tp2"}) expect_goes_on("", how, stages);
  save_at_30("", "--strategy dp", whole);
  for (const char* how : {"--mesh pp2.dp2", "--mesh dp2.tp2", "--mesh tp4 --sequence-parallel", "--strategy zero3"})
    expect_goes_on("", how, whole);
}

TEST_F(CppTorchGpt, ExpertsGoOnUnderAnotherMesh) {
  const std::string model = "--experts 8 --top-k 2 --balance 0", saved = folder("experts");
  save_at_30(model, "--mesh dp2.ep2 --strategy zero1", saved);
  for (const char* how : {"--mesh pp2.ep2", "--strategy dp"}) expect_goes_on(model, how, saved);
  const std::string whole = folder("whole-experts");
  save_at_30(model, "--strategy dp", whole);
  expect_goes_on(model, "--mesh ep4", whole);
}

TEST_F(CppTorchGpt, GradientsInFewerBytesAndAdvice) {
  const std::string told = gpt("--report --advise --held-out 8 --compress int8 --compress-from 5");
  for (const char* part : {"int8 gradients of bucket", "recommended: "}) EXPECT_GE(count_of(told, part), 1) << told;
  EXPECT_EQ(count_of(told, "the same values on all ranks"), 1) << told;
}

// A hook may learn more in its 300 steps than none does: what freezes variances often does.
TEST_F(CppTorchGpt, LearnsWithinTwoPercentInFewerBytesAndWithoutFeedbackDoesNot) {
  const auto loss_with = [&](const std::string& how) {
    const std::string told = gpt("--held-out 64 --steps 301 --tell 300 --json " + how);
    const std::string name = "\"loss\": ";
    const std::size_t at = told.find(name);
    if (at == std::string::npos) ADD_FAILURE() << how << " tells no loss: " << told;
    return at == std::string::npos ? 0 : std::stod(told.substr(at + name.size()));
  };
  const double plain = loss_with("--compress none");
  ASSERT_GT(plain, 1);
  for (const char* hook : {"bf16", "fp16", "int8", "int4", "e4m3", "e5m2", "e3m0"})
    EXPECT_LT(loss_with(std::string("--compress ") + hook), 1.02 * plain) << hook;
  for (const char* hook : {"topk --by-deviation", "power_sgd --power-rank 2 --by-deviation", "one_bit"}) {
    const std::string how = std::string("--compress ") + hook + " --compress-from 50";
    EXPECT_LT(loss_with(how), 1.02 * plain) << hook;
    EXPECT_GT(loss_with(how + " --no-error-feedback"), 1.02 * plain) << hook << " without error feedback";
  }
}

TEST_F(CppTorchGpt, FiguresForScripts) {
  const std::string figures = gpt("--json --steps 4 --layers 1 --width 24 --heads 3 --no-clip");
  for (const char* name : {"\"ranks\": 4, ", "\"step_ms\": ", "\"waiting_ms\": ", "\"updating_ms\": "})
    EXPECT_EQ(count_of(figures, name), 1) << figures;
}

}  // namespace
}  // namespace tutti::testing
