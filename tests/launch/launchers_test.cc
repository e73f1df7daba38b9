// Real launchers start a probe, and its ranks recognise each other. A launcher that is not there is a printed skip.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <thread>

#include "base/deadline.h"
#include "launch/child.h"
#include "process_state.h"

namespace tutti::rendezvous {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr int kSkipped = 77;
constexpr std::string_view kPid = "pid ";  // begins the line of a probe's process

// The probe's lines, sorted by rank, without their first word.
std::vector<std::string> lines_of(const std::string& output) {
  std::istringstream stream(output);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    if (const std::size_t at = line.find("probe "); at != std::string::npos) lines.push_back(line.substr(at + 6));
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

// What the probes say, in the order of their ranks; nothing where the test is skipped or has failed.
std::vector<std::string> said_by(const std::vector<std::string>& command) {
  Child child(command);
  const std::string output = child.read_all(60s);
  const int status = child.wait();
  if (status == kSkipped) std::cout << output;
  if (status != 0 && status != kSkipped) ADD_FAILURE() << command[0] << " ended with " << status << ": " << output;
  return status == 0 ? lines_of(output) : std::vector<std::string>{};
}

// Two ranks that name one place, another one at every start.
void expect_two_that_meet(const std::vector<std::string>& command) {
  std::set<std::string> places;
  for (int start = 0; start < 2; ++start) {
    const std::vector<std::string> lines = said_by(command);
    if (lines.empty()) GTEST_SKIP() << command[0] << " cannot run here; its reason is above";
    ASSERT_THAT(lines, SizeIs(2));
    EXPECT_THAT(lines[0], StartsWith("0/2 0/2 unix:@tutti-"));
    EXPECT_THAT(lines[1], StartsWith("1/2 1/2 unix:@tutti-"));
    EXPECT_EQ(lines[0].substr(8), lines[1].substr(8));
    places.insert(lines[0].substr(8));
  }
  EXPECT_THAT(places, SizeIs(2));
}

// The Python that has torch, or nothing.
std::optional<std::string> torch_python() {
  const char* named = std::getenv("TORCH_PYTHON");
  const std::string program = named != nullptr && *named != '\0' ? named : "python3";
  Child probe({"sh", "-c", "'" + program + "' -c 'import torch.distributed.run' 2>/dev/null"});
  probe.read_all(60s);
  if (probe.wait() == 0) return program;
  std::cout << program << " has no torch; set TORCH_PYTHON to a Python that has\n";
  return std::nullopt;
}

TEST(Launchers, OpenMpi) {
  if (!is_installed("mpirun.openmpi")) GTEST_SKIP() << "mpirun.openmpi is not installed";
  expect_two_that_meet({"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "2", TUTTI_PROBE, "arrange"});
}

// Whether nothing of it is left but what its parent may want to know.
bool is_over(const std::string& pid) {
  const char state = testing::state_of(pid);
  return state == '?' || state == 'Z';
}

// Fails the test where one of the probes that said these lines does not end.
void expect_ends(const std::string& said) {
  const Deadline deadline = Deadline::after(30s);
  std::istringstream stream(said);
  for (std::string line; std::getline(stream, line);) {
    const std::size_t at = line.find(kPid);
    if (at == std::string::npos) continue;
    const std::string pid = line.substr(at + kPid.size());
    while (!is_over(pid) && !deadline.passed()) std::this_thread::sleep_for(10ms);
    EXPECT_TRUE(is_over(pid)) << "the probe does not end: " << said;
  }
}

// What two probes say that two daemons of Open MPI started: two names of this host are two hosts to mpirun. Nothing
// where this build or this machine cannot.
std::vector<std::string> said_across_hosts(const char* mode) {
  if (!is_installed("mpirun.openmpi")) return {};
  std::string folder = ::testing::TempDir() + "tutti_launch.XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return {};
  std::vector<std::string> lines;
  {
    Child child({"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "plm_rsh_agent",
                 TUTTI_SAME_HOST_AGENT, "--host", "127.0.0.2:1,127.0.0.3:1", "-n", "2", TUTTI_PROBE, mode},
                // Daemons that share a host disturb each other's PMIx store, if that is in shared memory.
                {"TMPDIR=" + folder, "PMIX_MCA_gds=hash"});
    std::string output;
    int probes = 0;
    for (std::optional<std::string> line; probes < 2 && (line = child.read_line(60s)); output += *line + "\n")
      probes += line->find(kPid) != std::string::npos ? 1 : 0;
    expect_ends(output);
    // A daemon of Open MPI 4.1.4 may wait for itself when it ends after somebody asked for what is not there
    // (pmix_pending_resolve, from PMIx_server_finalize; once in a thousand starts), and mpirun for the daemon.
    const bool ends = child.says_within(15s);
    if (!ends) std::cout << "mpirun did not end, though both ranks have\n";
    if (ends) output += child.read_all(60s);
    if (!ends || child.wait() == 0) {
      lines = lines_of(output);
    } else if (output.find("because pmix.h was not found") == std::string::npos) {
      ADD_FAILURE() << output;
    }
  }
  std::filesystem::remove_all(folder);
  return lines;
}

constexpr char kNoMpirun[] = "no mpirun.openmpi, or this build has no PMIx";

TEST(Launchers, OpenMpiAndPmix) {
  const std::vector<std::string> lines = said_across_hosts("pmix");
  if (lines.empty() && !HasFailure()) GTEST_SKIP() << kNoMpirun;
  EXPECT_THAT(lines, ElementsAre("0/2 0/1 hello again timeout", "1/2 0/1 hello again timeout"));
}

TEST(Launchers, OpenMpiAcrossHosts) {
  const std::vector<std::string> lines = said_across_hosts("arrange");
  if (lines.empty() && !HasFailure()) GTEST_SKIP() << kNoMpirun;
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_THAT(lines[0], HasSubstr(":4567 "));
  EXPECT_EQ(lines[0].substr(8), lines[1].substr(8)) << "address and token";
}

TEST(Launchers, PmixWithoutAServerSaysSo) {
  Child child({TUTTI_PROBE, "pmix"});
  const std::string output = child.read_all(60s);
  EXPECT_EQ(child.wait(), 1) << output;
  EXPECT_THAT(output, HasSubstr("TUTTI_RENDEZVOUS"));
}

TEST(Launchers, Mpich) {
  if (!is_installed("mpirun.mpich")) GTEST_SKIP() << "mpirun.mpich is not installed";
  expect_two_that_meet({"mpirun.mpich", "-n", "2", TUTTI_PROBE, "arrange"});
}

TEST(Launchers, MpichThroughAShell) {
  if (!is_installed("mpirun.mpich")) GTEST_SKIP() << "mpirun.mpich is not installed";
  // The parent of each rank is a shell of its own.
  expect_two_that_meet({"mpirun.mpich", "-n", "2", "sh", "-c", "'" TUTTI_PROBE "' arrange; exit $?"});
}

TEST(Launchers, Torchrun) {
  const auto python = torch_python();
  if (!python) GTEST_SKIP();
  expect_two_that_meet({*python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python",
                        TUTTI_PROBE, "arrange"});
}

TEST(Launchers, TorchrunWithTwoAgents) {
  const auto python = torch_python();
  if (!python) GTEST_SKIP();
  const std::string port = std::to_string(15000 + ::getpid() % 5000);
  const auto agent = [&](const char* node) {
    return std::vector<std::string>{*python,
                                    "-m",
                                    "torch.distributed.run",
                                    "--nnodes",
                                    "2",
                                    "--node-rank",
                                    node,
                                    "--master-addr",
                                    "127.0.0.1",
                                    "--master-port",
                                    port,
                                    "--nproc-per-node",
                                    "2",
                                    "--no-python",
                                    TUTTI_PROBE,
                                    "arrange"};
  };
  Child first(agent("0"));
  Child second(agent("1"));
  const std::string output = first.read_all(60s) + second.read_all(60s);
  EXPECT_EQ(first.wait(), 0) << output;
  EXPECT_EQ(second.wait(), 0) << output;
  const std::vector<std::string> lines = lines_of(output);
  ASSERT_THAT(lines, SizeIs(4)) << output;
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_THAT(lines[rank],
                StartsWith(std::to_string(rank) + "/4 " + std::to_string(rank % 2) + "/2 127.0.0.1:4567 "));
    EXPECT_EQ(lines[rank].substr(8), lines[0].substr(8)) << "address and token";
  }
}

TEST(Launchers, Slurm) { expect_two_that_meet({TUTTI_SLURM, "srun", "-n", "2", TUTTI_PROBE, "arrange"}); }

}  // namespace
}  // namespace tutti::rendezvous
