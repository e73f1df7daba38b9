// `tutti run` keeps the lobby: programs that use Tutti meet there, and learn there who will not come.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "tools/launched.h"

namespace tutti::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// A socket that listens at a port of the loopback interface.
class Listener {
 public:
  Listener() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    auto* place = reinterpret_cast<sockaddr*>(&address);
    if (::bind(socket_, place, bytes) != 0 || ::listen(socket_, 1) != 0) std::abort();
    if (::getsockname(socket_, place, &bytes) != 0) std::abort();
    port_ = ntohs(address.sin_port);
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener() { ::close(socket_); }
  std::string place() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  int socket_;
  int port_ = 0;
};

class RunMeeting : public ::testing::Test {
 protected:
  RunMeeting() { launch({"token", token()}); }

  std::string token() const { return folder_.path("token"); }
  std::vector<std::string> host(int host, const std::string& place) const {
    return {"run", "--nnodes",     "2",   "--node-rank", std::to_string(host), "-n",
            "2",   "--rendezvous", place, "--",          TUTTI_MEETING_PROBE};
  }
  Launched::Setup with_token() const {
    Launched::Setup setup;
    setup.environment = {{"TUTTI_TOKEN_FILE", token()}};
    return setup;
  }

  Folder folder_;
};

TEST_F(RunMeeting, RankZeroTellsWhoIsWhereAndWhatRunsOnceAVerbIsCalled) {
  Launched::Setup setup;
  setup.environment = {{"TUTTI_LOG", "info"}};
  const LaunchedEnd end = launch({"run", "-n", "2", "--", TUTTI_MEETING_PROBE}, setup);
  EXPECT_EQ(end.exit_code, 0) << end.errors;
  EXPECT_THAT(end.errors, HasSubstr("2 ranks on 1 host"));
  EXPECT_THAT(end.errors, AnyOf(HasSubstr("rank 0] sharing a socket"), HasSubstr("rank 0] sharing a cache"),
                                HasSubstr("no two ranks are known to share a socket")));
  EXPECT_THAT(end.errors, ContainsRegex("rank 0] all_reduce up to [0-9]+ bytes: [a-z_]+ \\(.*; [0-9]+ bytes in [0-9.]+ "
                                        "us, by [a-z_]+ [0-9.]+ us\\)"));
  EXPECT_THAT(end.errors, Not(HasSubstr("all_gather"))) << "nobody called it";
}

TEST_F(RunMeeting, RanksOfOneHostMeet) {
  const LaunchedEnd end = launch({"run", "-n", "3", TUTTI_MEETING_PROBE});
  EXPECT_EQ(end.exit_code, 0) << end.errors;
  EXPECT_EQ(end.errors, "");
  for (const char* rank : {"0", "1", "2"}) {
    EXPECT_THAT(end.output, HasSubstr(std::string("[") + rank + "] sum 3 of 3\n"));
  }
}

TEST_F(RunMeeting, ChildrenOfRanksDoNotInheritTheToken) {
  const LaunchedEnd end = launch({"run", "-n", "2", TUTTI_MEETING_PROBE, "children"});
  EXPECT_EQ(end.exit_code, 0) << end.errors;
  for (const std::string rank : {"[0] ", "[1] "}) {
    EXPECT_THAT(end.output, HasSubstr(rank + "0\n")) << "a child has the token";
    EXPECT_THAT(end.output, HasSubstr(rank + "met 2 again\n"));
  }
}

// One rank that judges silence, checks calls or chooses algorithms otherwise would end a healthy job, or compute
// something else.
TEST_F(RunMeeting, RanksThatWantDifferentThingsDoNotBegin) {
  const std::pair<const char*, const char*> wishes[] = {{"TUTTI_SILENCE_MS=5000", "TUTTI_SILENCE_MS=10000"},
                                                        {"TUTTI_SUSPECT_MS=500", "TUTTI_SUSPECT_MS=1000"},
                                                        {"TUTTI_SHARED_BUCKETS=0", "TUTTI_SHARED_BUCKETS=1"},
                                                        {"TUTTI_CHECK=full", "TUTTI_CHECK=quick"},
                                                        {"TUTTI_ALGORITHM=staged", "TUTTI_ALGORITHM=unset"}};
  for (const auto& [one, all] : wishes) {
    const std::string script = std::string("[ $TUTTI_RANK = 1 ] && export ") + one + "; exec " + TUTTI_MEETING_PROBE;
    const LaunchedEnd end = launch({"run", "-n", "2", "--", "sh", "-c", script});
    EXPECT_NE(end.exit_code, 0) << one;
    EXPECT_THAT(end.errors, HasSubstr(std::string("wants ") + one + ", rank 0 " + all)) << one;
    EXPECT_EQ(end.output, "") << one << ": nobody has met";
  }
}

TEST_F(RunMeeting, SurvivorsNameARankThatDiesBeforeItComes) {
  const LaunchedEnd end = launch({"run", "-n", "3", TUTTI_MEETING_PROBE, "1"});
  EXPECT_EQ(end.exit_code, 128 + SIGKILL) << end.errors;
  EXPECT_EQ(count_of(end.errors, "rank 1 was killed by signal 9 (SIGKILL)"), 2) << end.errors;
  EXPECT_THAT(end.errors, HasSubstr("; the other 2 ranks then failed, too\n")) << "they were not waited for";
}

TEST_F(RunMeeting, RanksGoRoundTheHostsWhereThatIsAskedFor) {
  const std::string place = Listener().place();  // free again
  const auto round = [&](int number) {
    std::vector<std::string> arguments = host(number, place);
    arguments.insert(arguments.begin() + 1, {"--map-by", "node"});
    return arguments;
  };
  Launched first(round(0), with_token());
  Launched second(round(1), with_token());
  const LaunchedEnd one = first.finish(), other = second.finish();
  EXPECT_EQ(one.exit_code, 0) << one.errors;
  EXPECT_EQ(other.exit_code, 0) << other.errors;
  EXPECT_THAT(one.output, AllOf(HasSubstr("[0] sum 4 of 4\n"), HasSubstr("[2] sum 4 of 4\n")));
  EXPECT_THAT(other.output, AllOf(HasSubstr("[1] sum 4 of 4\n"), HasSubstr("[3] sum 4 of 4\n")));
}

TEST_F(RunMeeting, AnOrderThatThereIsNoneOfIsRefused) {
  EXPECT_THAT(launch({"run", "-n", "2", "--map-by", "nodes", "true"}).errors,
              HasSubstr("--map-by: no order 'nodes'; did you mean node? there are: slot, node, socket, l3cache"));
  EXPECT_THAT(launch({"run", "-n", "2", "--map-by", "socket", "true"}).errors, HasSubstr("add --bind core"));
  EXPECT_EQ(launch({"run", "-n", "2", "--bind", "core", "--map-by", "socket", "true"}).exit_code, 0);
}

TEST_F(RunMeeting, SeveralLaunchersMakeOneJob) {
  const std::string place = Listener().place();  // free again
  Launched first(host(0, place), with_token());
  Launched second(host(1, place), with_token());
  const LaunchedEnd one = first.finish();
  const LaunchedEnd two = second.finish();
  EXPECT_EQ(one.exit_code, 0) << one.errors;
  EXPECT_EQ(two.exit_code, 0) << two.errors;
  EXPECT_EQ(count_of(one.output, "sum 4 of 4\n"), 2);
  EXPECT_THAT(two.output, HasSubstr("[3] sum 4 of 4\n"));
}

TEST_F(RunMeeting, APortInUseIsSaidBeforeAnyRankStarts) {
  const Listener listener;
  const LaunchedEnd end = launch(host(0, listener.place()), with_token());
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_THAT(end.errors, HasSubstr("is in use"));
  EXPECT_THAT(end.errors, HasSubstr("--rendezvous host:port"));
  EXPECT_EQ(lines_of(end.errors).size(), 1U) << end.errors;
}

TEST_F(RunMeeting, MoreRanksThanAJobCanHaveAreRefused) {
  for (const char* hosts : {"2147483647", "1073741824", "524288"}) {
    const LaunchedEnd end = launch(
        {"run", "--nnodes", hosts, "--node-rank", "1", "-n", "2", "--rendezvous", "127.0.0.1:29400", "--", "true"},
        with_token());
    EXPECT_EQ(end.exit_code, 2) << hosts;
    EXPECT_THAT(end.errors, HasSubstr("a job has fewer than 1048576")) << hosts;
  }
}

TEST_F(RunMeeting, NodeZeroMustBeTheHostOfTheRendezvous) {
  const LaunchedEnd end = launch(host(0, "192.0.2.1:29400"), with_token());
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_THAT(end.errors, HasSubstr("this is no address of this host"));
}

}  // namespace
}  // namespace tutti::testing
