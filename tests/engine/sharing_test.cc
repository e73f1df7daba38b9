// Who shares what, in words.
#include "engine/sharing.h"

#include <gtest/gtest.h>

namespace tutti::engine {
namespace {

using rendezvous::Member;

Member at(int package, int cache) {
  Member member;
  member.package = package;
  member.cache = cache;
  return member;
}

TEST(Sharing, NamesSocketsWithTheirCache) {
  const std::vector<Member> members{at(0, 0), at(0, 0), at(1, 8), at(1, 8)};
  EXPECT_EQ(words_of_sharing(members, {{0, 1, 2, 3}}), "sharing a socket and its cache: ranks 0-1; ranks 2-3");
}

TEST(Sharing, NamesCachesWithinSockets) {
  const std::vector<Member> members{at(0, 0), at(0, 0), at(0, 4), at(0, 4), at(1, -1)};
  EXPECT_EQ(words_of_sharing(members, {{0, 1, 2, 3, 4}}),
            "sharing a socket: ranks 0-3, sharing a cache: ranks 0-1; ranks 2-3");
}

TEST(Sharing, EndsWithTheHost) {
  const std::vector<Member> members{at(0, 0), at(0, 0), at(0, 0), at(0, 0)};
  EXPECT_EQ(words_of_sharing(members, {{0, 2}, {1, 3}}), "sharing a socket and its cache: ranks 0, 2; ranks 1, 3");
  EXPECT_EQ(words_of_sharing(members, {{0}, {1}, {2}, {3}}), "no two ranks are known to share a socket or a cache");
}

TEST(Sharing, OfManyIsCutShort) {
  std::vector<Member> members;
  std::vector<std::vector<int>> hosts;
  for (int host = 0; host < 20; ++host) {
    members.insert(members.end(), {at(0, 0), at(0, 0)});
    hosts.push_back({2 * host, 2 * host + 1});
  }
  const std::string words = words_of_sharing(members, hosts);
  EXPECT_NE(words.find("ranks 30-31; and so on in 4 more"), std::string::npos) << words;
}

}  // namespace
}  // namespace tutti::engine
