// What the system does not give: threads, or the calls that shared memory needs.
#include "rendezvous/denied.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/forked_ranks.h"
#include "rendezvous/host.h"

namespace tutti::rendezvous {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Denied, AThreadThatOneRankCannotHaveIsToldToAll) {
  const auto ends = meet_forked(
      3, fresh_unix_endpoint(),
      [](MeetingOptions& options) {
        options.wanted = TransportKind::tcp;
        if (options.rank == 1) deny({SYS_clone, SYS_clone3}, EAGAIN);
      },
      [](Met&) {});
  for (const ChildEnd& end : ends) {
    EXPECT_EQ(end.exit_code, 1);
    EXPECT_THAT(end.message, AllOf(HasSubstr("rank 1: the system gave this process no thread to watch the other ranks"),
                                   HasSubstr("ulimit -u")));
  }
}

// Calls of which each is enough to go without shared memory.
class DeniedCall : public ::testing::TestWithParam<std::pair<const char*, long>> {};

TEST_P(DeniedCall, LetsRanksMeetOverTcp) {
  expect_all_ok(meet_forked(
      3, fresh_unix_endpoint(), [&](MeetingOptions&) { deny({GetParam().second}, EPERM); },
      [](Met& met) {
        require(met.memory_ranks == std::vector<int>{met.rank}, "no memory is shared");
        require(met.links != nullptr, "there are links instead");
        exchange_everywhere(met);
      }));
}

TEST_P(DeniedCall, IsNamedWhereSharedMemoryWasAskedFor) {
  const auto ends = meet_forked(
      3, fresh_unix_endpoint(),
      [&](MeetingOptions& options) {
        options.wanted = TransportKind::shm;
        if (options.rank == 2) deny({GetParam().second}, EPERM);
      },
      [](Met&) {});
  for (const ChildEnd& end : ends) {
    EXPECT_EQ(end.exit_code, 1);
    EXPECT_THAT(end.message,
                AllOf(HasSubstr(std::string("rank 2: ") + GetParam().first), HasSubstr("seccomp profile")));
  }
}

INSTANTIATE_TEST_SUITE_P(Calls, DeniedCall,
                         ::testing::Values(std::pair("memfd_create", SYS_memfd_create),
                                           std::pair("pidfd_open", SYS_pidfd_open)),
                         [](const auto& test) { return std::string(test.param.first); });

TEST(Denied, WatchingAProcessSaysWhatToAllow) {
  ForkedGroup group(1, [](int) {
    deny({SYS_pidfd_open}, EPERM);
    watch_process(::getpid());
  });
  EXPECT_THAT(group.wait()[0].message, AllOf(HasSubstr("pidfd_open"), HasSubstr("seccomp profile")));
}

}  // namespace
}  // namespace tutti::rendezvous
