// A job over several hosts (network namespaces): shared memory inside, TCP across, and what links that are cut, flap or
// are slow do to it, and ranks that are stopped.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include "shell.h"

namespace tutti::testing {
namespace {

namespace fs = std::filesystem;

constexpr long long kDefaultSilence_ns = 10'000'000'000;

constexpr const char* kPrelude = R"sh(
set -u
first=${ADDRESSES%% *}
host_of() { echo $HOSTS | cut -d' ' -f$(($1 + 1)); }
# launch K OPTION... -- PROGRAM...: under tutti run on host K
launch() { k=$1; shift; ip netns exec $(host_of $k) $TUTTI run --node-rank $k --rendezvous $first:29444 "$@"; }
# stop_rank_of K: the one of host K; $stopped is its process
stop_rank_of() {
  for process in $(ip netns pids $(host_of $1)); do
    [ "$(cat /proc/$process/comm)" = worker ] && stopped=$process
  done
  kill -STOP $stopped
}
log=$TUTTI_TOKEN_FILE.log
trap 'cat $log.?; exit 1' TERM  # out of time: how far it came
# Until so many lines of the logs say it; in vain, it shows them.
await() {
  tries=0
  until [ $(cat $log.? | grep -c "$1") -ge $2 ]; do
    tries=$((tries + 1))
    [ $tries -lt 1500 ] || { echo "waited in vain for: $1"; cat $log.?; exit 1; }
    sleep 0.02
  done
}
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
// Ranks of the bench are among them, in either order, and what they compute is checked.
TEST_F(Hosts, ABenchAmongThemRunsOverAllOfThem) {
  for (const std::string order : {"slot", "node"}) {
    const Ended ended =
        among(2, "$TUTTI bench all_reduce,all_gather -n 4 -b 4K -e 1M -f 256 --rounds 1 --iterations 2 --map-by " +
                     order + " --netns $(echo $HOSTS | tr ' ' ,) --json " + path("rows") + " && cat " + path("rows") +
                     "\n$TUTTI bench barrier --netns nowhere\n");
    if (ended.exit_code == 77) GTEST_SKIP() << ended.output;
    EXPECT_EQ(count_of(ended.output, "\"impl\": \"tutti\""), 8) << ended.output;
    EXPECT_EQ(count_of(ended.output, "\"impl\": \"tutti-flat\""), 8) << ended.output;
    EXPECT_EQ(count_of(ended.output, "\"wrong\": 0"), 16) << ended.output;
    EXPECT_NE(ended.output.find("network namespace 'nowhere': No such file"), std::string::npos) << ended.output;
    EXPECT_NE(ended.exit_code, 0);
  }
}

TEST_F(Hosts, ACutCableIsNoticedAfterTheSilenceThatWasAskedFor) {
  const Ended ended = among(3, R"sh(
export TUTTI_SILENCE_MS=800
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
    EXPECT_LE(std::stoll((*it)[2]) - cut_ns, kDefaultSilence_ns / 2) << ended.output;
    ++told;
  }
  EXPECT_EQ(told, 3) << ended.output;
  EXPECT_EQ(count_of(ended.output, " has been silent for 0.8 s: it is stopped, its host is down or the network is cut"),
            3)
      << ended.output;
  EXPECT_EQ(ended.output.find("has ended"), std::string::npos) << ended.output;
}

// A job of one rank on each of three hosts, which `meanwhile` does something to; the log of rank K is $log.K.
std::string job_that_lives_on(const std::string& meanwhile) {
  return R"sh(
for k in 0 1 2; do launch $k --nnodes 3 -n 1 -- $WORKER until-told $log.end > $log.$k 2>&1 & done
await '\] met' 3
switch=${HOSTS%%-*}-switch
)sh" + meanwhile +
         R"sh(
touch $log.end
wait
cat $log.?
)sh";
}

void expect_it_lives_on(const Ended& ended) {
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_EQ(count_of(ended.output, " of 3 ok"), 3) << ended.output;
}

// A virtual machine that is moved, a throttled container, a debugger.
TEST_F(Hosts, AStoppedRankIsSuspectedByNameAndGoesOn) {
  const Ended ended = among(3, job_that_lives_on(R"sh(
stop_rank_of 1
# From 1 s on, and before the error: whoever gets no processor itself says it later.
silent="rank 1 (pid $stopped on .*) has been silent for [1-9][0-9.]* s"
await "$silent: .*; an error follows at 10 s (TUTTI_SILENCE_MS)" 2
sleep 1
kill -CONT $stopped
await "rank 1 (pid $stopped on .*) is heard again after [2-9][0-9.]* s of silence" 2
)sh"));
  if (ended.exit_code == 77) GTEST_SKIP() << ended.output;
  expect_it_lives_on(ended);
}

TEST_F(Hosts, WhenASilentRankIsSuspectedIsASetting) {
  const Ended ended = among(3, "export TUTTI_SUSPECT_MS=2000\n" + job_that_lives_on(R"sh(
stop_rank_of 1
await "rank 1 (pid $stopped on .*) has been silent for [2-9][0-9.]* s: .*; an error follows at 10 s" 2
kill -CONT $stopped
)sh"));
  if (ended.exit_code == 77) GTEST_SKIP() << ended.output;
  expect_it_lives_on(ended);
  EXPECT_EQ(ended.output.find("has been silent for 1"), std::string::npos) << "the default is 1 s\n" << ended.output;
}

TEST_F(Hosts, ARankThatWakesTooLateIsToldThatItWasGivenUp) {
  const Ended ended = among(3, R"sh(
export TUTTI_SILENCE_MS=800
for k in 0 1 2; do launch $k --nnodes 3 -n 1 -- $WORKER until-failure > $log.$k 2>&1 & done
await '\] met' 3
stop_rank_of 1
await 'code peer_lost peer 1: .* rank 1 has been silent for 0.8 s' 2
kill -CONT $stopped
wait
cat $log.?
)sh");
  if (ended.exit_code == 77) GTEST_SKIP() << ended.output;
  EXPECT_EQ(count_of(ended.output, "code peer_lost peer 1: "), 3) << ended.output;
  EXPECT_EQ(count_of(ended.output, ": the others have lost this rank: they heard nothing of it for too long"), 1)
      << ended.output;
}

// Connections outlive links: once as a switch loses a port, once as a host loses its own interface, routes and all.
TEST_F(Hosts, ALinkThatFlapsEndsNothing) {
  const Ended ended = among(3, job_that_lives_on(R"sh(
for round in 1 2 3; do
  ip -n $switch link set port1 down; sleep 0.4; ip -n $switch link set port1 up; sleep 0.3
  ip -n $(host_of 1) link set eth0 down; sleep 0.4; ip -n $(host_of 1) link set eth0 up; sleep 0.3
done
)sh"));
  if (ended.exit_code == 77) GTEST_SKIP() << ended.output;
  expect_it_lives_on(ended);
}

// A queue in the middle holds what one rank sends for seconds, beats behind data: that data comes is life enough.
TEST_F(Hosts, ASlowLinkIsNoSilence) {
  const Ended ended = among(2, R"sh(
for k in 0 1; do
  tc -n ${HOSTS%%-*}-switch qdisc add dev port$k root tbf rate 500kbit burst 16kb limit 8mb || exit 77
done
export TUTTI_SILENCE_MS=1000
launch 1 --nnodes 2 -n 1 -- $WORKER reduce 150000 & launch 0 --nnodes 2 -n 1 -- $WORKER reduce 150000
code=$?
wait
exit $code
)sh");
  if (ended.exit_code == 77) GTEST_SKIP() << ended.output;
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_EQ(count_of(ended.output, " of 2 ok"), 2) << ended.output;
}

// Nobody has told how quick the wire is: the hosts find out when they begin.
TEST_F(Hosts, LearnWhatTheirWireCarries) {
  const Ended ended = among(2, R"sh(
for k in 0 1; do
  tc -n ${HOSTS%%-*}-switch qdisc add dev port$k root tbf rate 100mbit burst 32kb latency 50ms || exit 77
done
export TUTTI_LOG=info TUTTI_COSTS=built-in
launch 1 --nnodes 2 -n 1 -- $WORKER verbs & launch 0 --nnodes 2 -n 1 -- $WORKER verbs
code=$?
wait
exit $code
)sh");
  if (ended.exit_code == 77) GTEST_SKIP() << ended.output;
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  const std::string words = "between the hosts of ranks 0 and 1: ";
  ASSERT_EQ(count_of(ended.output, words), 1) << ended.output;
  const double found = std::stod(ended.output.substr(ended.output.find(words) + words.size()));
  EXPECT_GT(found, 0.01) << ended.output;  // less where the ranks get no core
  EXPECT_LT(found, 0.12) << ended.output;
}

// A rank for which silence is no loss sends no beats, and the others would take it for lost.
TEST_F(Hosts, RanksThatDisagreeOnSilenceDoNotBegin) {
  const Ended ended = among(2, R"sh(
TUTTI_SILENCE_MS=0 launch 1 --nnodes 2 -n 1 -- $WORKER verbs &
launch 0 --nnodes 2 -n 1 -- $WORKER verbs
wait
)sh");
  if (ended.exit_code == 77) GTEST_SKIP() << ended.output;
  EXPECT_EQ(count_of(ended.output, " wants TUTTI_SILENCE_MS=0, rank 0 TUTTI_SILENCE_MS=10000; set it alike on all"), 2)
      << ended.output;
  EXPECT_EQ(count_of(ended.output, " ok"), 0) << ended.output;
}

}  // namespace
}  // namespace tutti::testing
