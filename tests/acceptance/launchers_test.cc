// One program, unchanged, under every launcher: it meets, and its verbs are right.
#include <gtest/gtest.h>

#include "shell.h"

namespace tutti::testing {
namespace {

constexpr int kRanks = 3;
const std::string kWorker = std::string(TUTTI_WORKER) + " verbs";

bool has(const std::string& program) { return shell("command -v " + program).exit_code == 0; }

void expect_all_ok(const std::string& command, int ranks = kRanks) {
  const Ended ended = shell("timeout 100 " + command);
  EXPECT_EQ(ended.exit_code, 0) << command << "\n" << ended.output;
  EXPECT_EQ(count_of(ended.output, " of " + std::to_string(ranks) + " ok"), ranks) << command << "\n" << ended.output;
}

class Launchers : public ::testing::TestWithParam<std::string> {
 protected:
  // Sets TUTTI_TRANSPORT for the ranks, where it is asked for; launchers hand the environment on.
  std::string environment() const { return "env TUTTI_TRANSPORT=" + GetParam() + " "; }
};

TEST_P(Launchers, TuttiRun) { expect_all_ok(environment() + TUTTI_TOOL " run -n 3 -- " + kWorker); }

TEST_P(Launchers, OpenMpi) {
  if (!has("mpirun.openmpi")) GTEST_SKIP() << "Open MPI (package openmpi-bin) is not installed";
  expect_all_ok(environment() + "mpirun.openmpi --allow-run-as-root --oversubscribe -n 3 " + kWorker);
}

TEST_P(Launchers, Mpich) {
  if (!has("mpiexec.hydra")) GTEST_SKIP() << "MPICH (package mpich) is not installed";
  expect_all_ok(environment() + "mpiexec.hydra -n 3 " + kWorker);
}

TEST_P(Launchers, Torchrun) {
  const std::string python = "${TORCH_PYTHON:-python3}";
  if (shell(python + " -c 'import torch.distributed'").exit_code != 0) {
    GTEST_SKIP() << "no PyTorch for python3; TORCH_PYTHON names a python that has it";
  }
  expect_all_ok(environment() + python + " -m torch.distributed.run --standalone --nproc-per-node 3 --no-python " +
                kWorker);
}

TEST_P(Launchers, Slurm) {
  const Ended ended =
      shell("timeout 100 " TUTTI_SLURM_SCRIPT " " + environment() + "srun -n 3 --overcommit " + kWorker);
  if (ended.exit_code == 77) GTEST_SKIP() << ended.output;
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_EQ(count_of(ended.output, " of 3 ok"), 3) << ended.output;
}

TEST_P(Launchers, NobodyAtAll) { expect_all_ok(environment() + kWorker, 1); }

INSTANTIATE_TEST_SUITE_P(Transports, Launchers, ::testing::Values("auto", "tcp"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace tutti::testing
