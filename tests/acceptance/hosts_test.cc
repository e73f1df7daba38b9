// A job over four hosts (network namespaces): shared memory inside, TCP across, and what a cut cable does to it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include "shell.h"

namespace tutti::testing {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrelude = R"sh(
set -u
first=${ADDRESSES%% *}
host_of() { echo $HOSTS | cut -d' ' -f$(($1 + 1)); }
# launch K OPTION... -- PROGRAM...: under tutti run on host K
launch() { k=$1; shift; ip netns exec $(host_of $k) $TUTTI run --node-rank $k --rendezvous $first:29444 "$@"; }
)sh";

class Hosts : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tutti-hosts-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    ASSERT_EQ(shell(TUTTI_TOOL " token " + path("token")).exit_code, 0);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // Runs `script` among `count` hosts.
  Ended among(int count, const std::string& script) {
    std::ofstream(path("script")) << kPrelude << script;
    return shell("TUTTI=" TUTTI_TOOL " WORKER=" TUTTI_WORKER " TUTTI_TOKEN_FILE=" + path("token") +
                 " timeout 100 " TUTTI_HOSTS_SCRIPT " " + std::to_string(count) + " sh " + path("script"));
  }

  fs::path folder_;
};

TEST_F(Hosts, FourRunAJobWithSharedMemoryInsideAndTcpAcross) {
  const Ended ended = among(4, R"sh(
export TUTTI_LOG=info
for k in 1 2 3; do launch $k --nnodes 4 -n 2 -- $WORKER verbs & done
launch 0 --nnodes 4 -n 2 -- $WORKER verbs
code=$?
wait
exit $code
)sh");
  if (ended.exit_code == 77) GTEST_SKIP() << ended.output;
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_EQ(count_of(ended.output, " of 8 ok"), 8) << ended.output;
  EXPECT_NE(ended.output.find("8 ranks on 4 hosts"), std::string::npos) << ended.output;
  EXPECT_NE(ended.output.find("shared memory inside hosts, TCP across"), std::string::npos) << ended.output;
  // These hosts are one machine, and somebody should know why they are slow.
  EXPECT_NE(ended.output.find("ranks 0-1 and ranks 2-3 run on one machine but use TCP"), std::string::npos)
      << ended.output;
  EXPECT_NE(ended.output.find("their network namespaces differ"), std::string::npos) << ended.output;
}

// A black hole: packets to and from one host vanish, and no connection ends. Only silence tells.
TEST_F(Hosts, ACutCableIsNoticedWithinASecond) {
  const Ended ended = among(3, R"sh(
for k in 1 2; do launch $k --nnodes 3 -n 1 --grace 5 -- $WORKER until-failure > $TUTTI_TOKEN_FILE.$k 2>&1 & done
launch 0 --nnodes 3 -n 1 --grace 5 -- $WORKER until-failure > $TUTTI_TOKEN_FILE.0 2>&1 &
until [ $(cat $TUTTI_TOKEN_FILE.? | grep -c '\] met') = 3 ]; do :; done
switch=${HOSTS%%-*}-switch
echo "cut $($WORKER now)"
ip -n $switch link set port2 down
wait
cat $TUTTI_TOKEN_FILE.?
)sh");
  if (ended.exit_code == 77) GTEST_SKIP() << ended.output;
  std::smatch cut;
  ASSERT_TRUE(std::regex_search(ended.output, cut, std::regex("cut ([0-9]+)"))) << ended.output;
  const long long cut_ns = std::stoll(cut[1]);
  // Ranks 0 and 1 still see each other and blame rank 2; rank 2 sees nobody and blames either of them.
  const std::regex failed(R"(\[([0-9])\] failed ([0-9]+) code ([a-z_]+) peer (-?[0-9]+))");
  int told = 0;
  for (std::sregex_iterator it(ended.output.begin(), ended.output.end(), failed), end; it != end; ++it) {
    const int rank = std::stoi((*it)[1]), peer = std::stoi((*it)[4]);
    EXPECT_EQ((*it)[3], "peer_lost") << ended.output;
    EXPECT_TRUE(rank == 2 ? peer == 0 || peer == 1 : peer == 2) << ended.output;
    EXPECT_LE(std::stoll((*it)[2]) - cut_ns, 1'000'000'000) << ended.output;
    ++told;
  }
  EXPECT_EQ(told, 3) << ended.output;
}

}  // namespace
}  // namespace tutti::testing
