// The transport over UCX from the inside: what goes on while a rank computes, endpoints that end while they are being
// made, and the frames with which processes get to know each other.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <future>
#include <string>

#include "base/system_error.h"
#include "check.h"
#include "transport/conformance.h"
#include "transport/talk.h"
#include "transport/ucx/link.h"

namespace tutti::transport {
namespace {

using testing::Kind;
using testing::require;
using testing::Talk;
using testing::text_of;

class UcxRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = testing::why_missing(Kind::ucx); !why.empty()) GTEST_SKIP() << why;
  }

  static void expect_all_well(const std::vector<std::string>& words) {
    for (const std::string& each : words) EXPECT_EQ(each, "");
  }
};

TEST_F(UcxRanks, FetchLargeMessagesWhileTheyCompute) {
  constexpr std::size_t kLarge = 200 << 10;
  std::promise<void> gone;
  expect_all_well(testing::run_transport(Kind::ucx_threads, 2, [&](Transport& transport) {
    Talk talk(transport, 0);
    if (transport.rank() == 0) {
      talk.send(1, text_of(kLarge, 7));
      talk.flush();
      gone.set_value();
    } else {
      // Nothing of this rank calls the transport until the message has left the other.
      const bool left = gone.get_future().wait_for(testing::soon().left()) == std::future_status::ready;
      require(left, "the message did not leave");
      require(talk.receive(0, kLarge) == text_of(kLarge, 7), "another message than was sent");
    }
  }));
}

// UCX aborts the process where that goes wrong. Every rank sends to all and leaves, in every other round once it has
// heard from one: some endpoints are made by then, some are not, and of some the other end has left.
TEST_F(UcxRanks, MayLeaveWhileTheirEndpointsAreBeingMade) {
  for (int round = 0; round < 12; ++round) {
    expect_all_well(testing::run_transport(Kind::ucx, 4, [&](Transport& transport) {
      Talk talk(transport, 0);
      for (int ahead = 1; ahead < transport.size(); ++ahead)
        talk.try_send((transport.rank() + ahead) % transport.size(), text_of(30, round));
      if (round % 2 == 1) {
        const int before = (transport.rank() + transport.size() - 1) % transport.size();
        require(talk.receive(before, 30) == text_of(30, round), "another message than was sent");
      }
    }));
  }
}

class UcxLinks : public ::testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw_errno("socketpair");
    near_.start(FileDescriptor(ends[0]), {});
    far_ = FileDescriptor(ends[1]);
  }

  void put(const void* data, std::size_t bytes) {
    ASSERT_EQ(::send(far_.get(), data, bytes, 0), static_cast<ssize_t>(bytes));
  }

  UcxLink near_;
  FileDescriptor far_;
};

TEST_F(UcxLinks, TakeFramesByteByByte) {
  const std::string body = "an address";
  const LinkFrame frame{LinkFrame::Kind::hello, static_cast<std::uint32_t>(body.size()), 3, 5};
  std::string bytes(sizeof frame, '-');
  std::memcpy(bytes.data(), &frame, sizeof frame);
  bytes += body;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_FALSE(near_.next()) << "byte " << i;
    put(bytes.data() + i, 1);
  }
  const auto message = near_.next();
  ASSERT_TRUE(message);
  EXPECT_EQ(message->frame.first, 3u);
  EXPECT_EQ(message->frame.second, 5u);
  EXPECT_EQ(std::memcmp(message->body.data(), body.data(), body.size()), 0);
  EXPECT_FALSE(near_.next());
  EXPECT_FALSE(near_.ended());
}

TEST_F(UcxLinks, EndAtFramesThatCannotBe) {
  LinkFrame frame;
  frame.bytes = UcxLink::kMostBytes + 1;
  put(&frame, sizeof frame);
  EXPECT_FALSE(near_.next());
  EXPECT_TRUE(near_.ended());
  EXPECT_EQ(near_.number(), EPROTO);
}

TEST_F(UcxLinks, BringWhatCameBeforeTheEnd) {
  const LinkFrame frame{LinkFrame::Kind::arrived, 0, 0, 0};
  put(&frame, sizeof frame);
  far_.reset();
  EXPECT_TRUE(near_.next());
  EXPECT_FALSE(near_.next());
  EXPECT_TRUE(near_.ended());
}

}  // namespace
}  // namespace tutti::transport
