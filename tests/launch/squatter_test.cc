// Another user of the host who takes the name of a job's meeting place before the job does.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>

#include "rendezvous/forked_group.h"
#include "rendezvous/launch/arrange.h"
#include "rendezvous/launch/refuge.h"
#include "rendezvous/meeting.h"
#include "rendezvous/sockets.h"

namespace tutti::rendezvous {
namespace {

constexpr uid_t kNobody = 65534;

class Squatter : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
    home_ = std::filesystem::temp_directory_path() / ("tutti-squatter-" + Token::random().hex().substr(0, 12));
    std::filesystem::create_directory(home_);
  }
  void TearDown() override { std::filesystem::remove_all(home_); }

  // As `mpirun` of one host sets them.
  Environment environment_of(int rank) const {
    return Environment({{"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
                        {"OMPI_COMM_WORLD_SIZE", "2"},
                        {"OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(rank)},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                        {"PMIX_NAMESPACE", "squatted " + home_.string()},
                        {"HOME", home_}});
  }
  Rendezvous arranged(int rank) const {
    const Environment environment = environment_of(rank);
    return arrange(recognise(environment), environment, 0, Deadline::after(std::chrono::seconds(30)), Log());
  }
  // Binds the name as another user; a socket of that user outlives the one who made it.
  FileDescriptor squat(bool listening) const {
    const Endpoint place = arranged(0).lobby;
    const SocketAddress address = unix_address(place.substr(std::string("unix:@").size()));
    FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(socket.get(), address.get(), address.length), 0);
    // Who listens is who sits there, as far as the kernel tells.
    EXPECT_EQ(::seteuid(kNobody), 0);
    EXPECT_EQ(listening ? ::listen(socket.get(), 16) : 0, 0);
    EXPECT_EQ(::seteuid(0), 0);
    return socket;
  }
  void expect_meeting() const {
    ForkedGroup group(2, [&](int rank) {
      const Rendezvous place = arranged(rank);
      MeetingOptions options;
      options.rank = rank;
      options.size = 2;
      options.job = place.job;
      options.lobby = place.lobby;
      options.keep_lobby = place.keep_lobby;
      options.refuge = place.refuge;
      options.deadline = Deadline::after(std::chrono::seconds(30));
      meet(options);
    });
    for (const ChildEnd& end : group.wait()) EXPECT_TRUE(end.ok()) << end.message;
  }

  std::filesystem::path home_;
};

TEST_F(Squatter, WhoListensKeepsNobodyFromMeeting) {
  const FileDescriptor squatter = squat(true);
  expect_meeting();
}

TEST_F(Squatter, WhoOnlyHoldsTheNameKeepsNobodyFromMeeting) {
  const FileDescriptor squatter = squat(false);
  expect_meeting();
}

TEST_F(Squatter, NobodyMakesASecretWithoutNeed) {
  expect_meeting();
  EXPECT_TRUE(std::filesystem::is_empty(home_));
}

TEST_F(Squatter, TheRefugeIsTheUsersOwn) {
  const Environment environment = environment_of(0);
  EXPECT_EQ(refuge_of("job", environment, false), "");
  const Endpoint refuge = refuge_of("job", environment, true);
  EXPECT_TRUE(refuge.starts_with("unix:@tutti-"));
  EXPECT_EQ(refuge_of("job", environment, false), refuge);
  EXPECT_NE(refuge_of("another job", environment, false), refuge);
  const auto secret = home_ / ".cache/tutti/meeting_secret";
  EXPECT_EQ(std::filesystem::status(secret).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  std::filesystem::remove(secret);
  EXPECT_NE(refuge_of("job", environment, true), refuge) << "the name does not follow from the secret";
}

}  // namespace
}  // namespace tutti::rendezvous
