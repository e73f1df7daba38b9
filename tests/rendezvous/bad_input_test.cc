// What real processes are told when the meeting cannot work.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cstring>
#include <functional>

#include "rendezvous/address.h"
#include "rendezvous/forked_ranks.h"
#include "rendezvous/lobby_server.h"
#include "rendezvous/sockets.h"

namespace tutti::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string error_of(const MeetingOptions& options) {
  try {
    meet(options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// What each rank of a group said that did not meet.
std::vector<std::string> errors_of(int size, const Endpoint& lobby,
                                   const std::function<void(MeetingOptions&)>& change) {
  std::vector<std::string> words;
  for (const ChildEnd& end : meet_forked(size, lobby, change, [](Met&) {})) {
    EXPECT_EQ(end.exit_code, 1);
    words.push_back(end.message);
  }
  return words;
}

TEST(BadInput, APortInUseIsNamed) {
  const Listener occupied = listen_at("127.0.0.1:0");
  const std::string port = std::to_string(parse(occupied.endpoint)->port);
  EXPECT_THAT(
      error_of(options_for(0, 2, occupied.endpoint)),
      AllOf(HasSubstr("port " + port + " is in use"), HasSubstr("TUTTI_RENDEZVOUS"), HasSubstr("--rendezvous")));
}

TEST(BadInput, ALobbyElsewhereIsNoAddressOfThisHost) {
  MeetingOptions options = options_for(0, 2, "192.0.2.1:29400");  // an address for documentation: nobody has it
  EXPECT_THAT(error_of(options), HasSubstr("no address of this host"));
}

TEST(BadInput, ALobbyThatNobodyKeeps) {
  MeetingOptions options = options_for(1, 2, fresh_tcp_endpoint("127.0.0.1"));
  options.deadline = Deadline::after(milliseconds(300));
  EXPECT_THAT(error_of(options), AllOf(HasSubstr("rank 1 cannot meet the others"), HasSubstr(options.lobby),
                                       HasSubstr("Connection refused"), HasSubstr("TUTTI_RENDEZVOUS")));
}

TEST(BadInput, AHostWithoutAnAddress) {
  const MeetingOptions options = options_for(1, 2, "nowhere.test:29400");  // answered at once (deadline_test.cc)
  EXPECT_THAT(error_of(options), AllOf(HasSubstr("nowhere.test"), HasSubstr("cannot be resolved")));
}

TEST(BadInput, OptionsThatCannotBe) {
  EXPECT_THAT(error_of(options_for(2, 2, "127.0.0.1:1")), HasSubstr("rank 2 is out of range"));
  EXPECT_THAT(error_of(options_for(1, 2, "nonsense")), HasSubstr("neither host:port"));
  EXPECT_THAT(error_of(options_for(1, 2, "")), HasSubstr("TUTTI_RENDEZVOUS"));
  MeetingOptions options = options_for(1, 2, "127.0.0.1:1");
  options.token.reset();
  EXPECT_THAT(error_of(options), AllOf(HasSubstr("needs a token"), HasSubstr("TUTTI_TOKEN_FILE")));
  options = options_for(1, 2, "127.0.0.1:1");
  options.interface = "no-such-interface";
  EXPECT_THAT(error_of(options), AllOf(HasSubstr("TUTTI_INTERFACE"), HasSubstr("no-such-interface")));
}

TEST(BadInput, SomethingElseListensThere) {
  const Listener server = listen_at("127.0.0.1:0");
  ForkedGroup group(1, [&](int) { throw std::runtime_error(error_of(options_for(1, 2, server.endpoint))); });
  pollfd entry{server.socket.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&entry, 1, 20'000), 1);
  const FileDescriptor client(::accept(server.socket.get(), nullptr, nullptr));
  ASSERT_EQ(::send(client.get(), "SSH-2.0-Open\r\n", 14, MSG_NOSIGNAL), 14);
  EXPECT_THAT(group.wait()[0].message, AllOf(HasSubstr(server.endpoint), HasSubstr("is not Tutti")));
}

TEST(BadInput, WrongTokenIsSaidAtOnceToThatRank) {
  const auto words = errors_of(3, fresh_tcp_endpoint("127.0.0.1"), [](MeetingOptions& options) {
    if (options.rank == 2) options.token = Token::random();
    if (options.rank == 0) options.deadline = Deadline::after(milliseconds(1500));
  });
  EXPECT_THAT(words[2], HasSubstr("give all ranks the same TUTTI_TOKEN_FILE"));
  for (const int rank : {0, 1})
    EXPECT_THAT(words[static_cast<std::size_t>(rank)],
                AllOf(HasSubstr("rank 2 has not joined within 1."), HasSubstr("127.0.0.1"), HasSubstr("wrong token")));
}

TEST(BadInput, WorldSizesThatDifferAreToldToAll) {
  for (const std::string& words : errors_of(3, fresh_unix_endpoint(), [](MeetingOptions& options) {
         if (options.rank == 2) options.size = 8;
       })) {
    EXPECT_THAT(words, HasSubstr("was started for 8 ranks, the lobby for 3"));
  }
}

TEST(BadInput, TwoRanksWithOneNumberAreToldToAll) {
  for (const std::string& words : errors_of(3, fresh_unix_endpoint(), [](MeetingOptions& options) {
         if (options.rank == 2) options.rank = 1;
       })) {
    EXPECT_THAT(words, HasSubstr("two processes say that they are rank 1"));
  }
}

TEST(BadInput, TooFewDescriptors) {
  const auto words = errors_of(3, fresh_unix_endpoint(), [](MeetingOptions& options) {
    options.wanted = TransportKind::tcp;
    options.channels = 16;
    if (options.rank != 1) return;
    const rlimit few{64, 64};
    ::setrlimit(RLIMIT_NOFILE, &few);
  });
  for (const std::string& each : words)
    EXPECT_THAT(each, AllOf(HasSubstr("rank 1"), HasSubstr("may open only 64"), HasSubstr("ulimit -n")));
}

TEST(BadInput, ASoftLimitOfDescriptorsIsRaised) {
  expect_all_ok(meet_forked(
      3, fresh_unix_endpoint(),
      [](MeetingOptions& options) {
        options.wanted = TransportKind::tcp;
        options.channels = 16;
        rlimit limit{};
        ::getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = 64;
        ::setrlimit(RLIMIT_NOFILE, &limit);
      },
      [](Met& met) { exchange_everywhere(met, 16); }));
}

}  // namespace
}  // namespace tutti::rendezvous
