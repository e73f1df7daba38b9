// Meetings that cannot come about end in time: names that do not resolve, networks that lead nowhere, descriptors and
// threads that the system does not give.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netdb.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "rendezvous/forked_ranks.h"

// Stands before the system's: a host that has no address, and one whose name service never answers.
extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints, addrinfo** found) {
  using Function = decltype(&::getaddrinfo);
  static const auto kSystem = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  const bool asks = hints == nullptr || (hints->ai_flags & AI_NUMERICHOST) == 0;
  while (asks && std::strcmp(host, "silent.test") == 0) ::pause();
  if (asks && std::strcmp(host, "nowhere.test") == 0) return EAI_NONAME;
  return kSystem(host, service, hints, found);
}

namespace tutti::rendezvous {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

// What a process of its own says that tries to meet after `prepare`. One that hangs is ended by SIGALRM.
ChildEnd attempt(const MeetingOptions& options, const std::function<void()>& prepare = {}) {
  ForkedGroup group(1, [&](int) {
    ::alarm(60);
    if (prepare) prepare();
    MeetingOptions own = options;
    own.deadline = Deadline::after(milliseconds(300));
    meet(own);
  });
  return group.wait()[0];
}

MeetingOptions over_loopback(int rank, const Endpoint& lobby) {
  MeetingOptions options = options_for(rank, 2, lobby);
  options.wanted = TransportKind::tcp;
  options.interface = "127.0.0.1";
  return options;
}

TEST(MeetingDeadline, ANameThatDoesNotResolve) {
  const ChildEnd end = attempt(over_loopback(1, "nowhere.test:29400"));
  EXPECT_EQ(end.signal, 0) << "it hung";
  EXPECT_THAT(end.message, AllOf(HasSubstr("nowhere.test"), HasSubstr("cannot be resolved")));
}

TEST(MeetingDeadline, ANameServiceThatDoesNotAnswer) {
  MeetingOptions options = over_loopback(1, "silent.test:29400");
  for (const bool keeps : {false, true}) {
    for (const char* interface : {"127.0.0.1", ""}) {
      options.keep_lobby = keeps;
      options.interface = interface;
      const ChildEnd end = attempt(options);
      EXPECT_EQ(end.signal, 0) << "it hung, " << keeps << " '" << interface << "'";
      EXPECT_THAT(end.message, AllOf(HasSubstr("silent.test"), HasSubstr("TUTTI_RENDEZVOUS")));
    }
  }
}

// A network of this process alone, with nothing but loopback in it; false where the system allows none.
bool own_network() {
  if (::unshare(CLONE_NEWNET) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP;
  return ::ioctl(socket.get(), SIOCSIFFLAGS, &request) == 0;
}

TEST(MeetingDeadline, ANetworkThatLeadsNowhere) {
  const ChildEnd end = attempt(over_loopback(1, "192.0.2.1:29400"), [] {
    if (!own_network()) throw std::runtime_error("no network of its own");
  });
  if (end.message == "no network of its own") GTEST_SKIP() << end.message;
  EXPECT_EQ(end.signal, 0) << "it hung";
  EXPECT_THAT(end.message, AllOf(HasSubstr("192.0.2.1:29400"), HasSubstr("Network is unreachable")));
}

TEST(MeetingDeadline, DescriptorsThatRunOutAtTheFirstDial) {
  const ChildEnd end = attempt(over_loopback(1, "127.0.0.1:9"), [] {
    const rlimit few{64, 64};
    ::setrlimit(RLIMIT_NOFILE, &few);
    int last = 0;
    for (int more = 0; (more = ::dup(0)) >= 0;) last = more;
    ::close(last);      // room for its epoll
    ::close(last - 1);  // and for where it listens
  });
  EXPECT_EQ(end.signal, 0) << "it hung";
  EXPECT_THAT(end.message, AllOf(HasSubstr("cannot meet the others"), HasSubstr("may open only"), HasSubstr("ulimit")));
}

}  // namespace
}  // namespace tutti::rendezvous
