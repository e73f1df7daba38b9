// The fixture of the conformance suite: a test runs once per transport.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "transport/harness.h"

namespace tutti::testing {

class Conformance : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (GetParam() == Kind::tcp_v6 && !connect_loopback(AF_INET6).first.valid()) GTEST_SKIP() << "no IPv6 here";
  }

  // Every rank must end in good order.
  void run(int ranks, const Body& body) {
    const auto words = run_transport(GetParam(), ranks, body);
    for (std::size_t rank = 0; rank < words.size(); ++rank) EXPECT_EQ(words[rank], "") << "rank " << rank;
  }
};

inline auto every_kind() {
  return ::testing::Values(Kind::threads, Kind::shm, Kind::tcp_threads, Kind::tcp, Kind::tcp_v6, Kind::mixed_threads,
                           Kind::mixed);
}
inline const auto kind_name = [](const auto& test) { return name_of(test.param); };

}  // namespace tutti::testing
