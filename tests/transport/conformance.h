// The fixture of the conformance suite: a test runs once per transport.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "transport/harness.h"

namespace tutti::testing {

class Conformance : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (const std::string why = why_missing(GetParam()); !why.empty()) GTEST_SKIP() << why;
  }

  // Every rank must end in good order.
  void run(int ranks, const Body& body) {
    const auto words = run_transport(GetParam(), ranks, body);
    for (std::size_t rank = 0; rank < words.size(); ++rank) EXPECT_EQ(words[rank], "") << "rank " << rank;
  }
};

inline auto every_kind() {
  std::vector<Kind> kinds;
  for (const KindFacts& facts : kKinds) kinds.push_back(facts.kind);
  return ::testing::ValuesIn(kinds);
}
inline const auto kind_name = [](const auto& test) { return name_of(test.param); };

}  // namespace tutti::testing
