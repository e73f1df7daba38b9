// Slurm's short forms, written out.
#include "rendezvous/launch/hostlist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tutti/error.h"

namespace tutti::rendezvous {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

TEST(Hostlist, IsWrittenOut) {
  EXPECT_THAT(hosts_of("vm"), ElementsAre("vm"));
  EXPECT_THAT(hosts_of("node[01-03,7],gpu5"), ElementsAre("node01", "node02", "node03", "node7", "gpu5"));
  EXPECT_THAT(hosts_of("n[098-101]"), ElementsAre("n098", "n099", "n100", "n101"));
  EXPECT_THAT(hosts_of("r[1-2]n[1-2]"), ElementsAre("r1n1", "r1n2", "r2n1", "r2n2"));
  EXPECT_THAT(hosts_of("r[1-2]-x,a"), ElementsAre("r1-x", "r2-x", "a"));
  EXPECT_THAT(hosts_of("a-b.c,d[5]"), ElementsAre("a-b.c", "d5"));
  EXPECT_THAT(hosts_of("n[1-100000]"), SizeIs(100000));
}

TEST(Hostlist, NonsenseIsRefused) {
  for (const char* list : {"", ",", "a,", "a[", "a[1", "a]", "a[1]]", "a[]", "a[x]", "a[1-]", "a[-1]", "a[3-1]",
                           "a[1,,2]", "a[[1]]", "a[1-999999999]", "a[1-1000]b[1-1000]", "a[99999999999]"}) {
    EXPECT_THROW(hosts_of(list), Error) << list;
  }
  try {
    hosts_of("n[3-1]");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr("'n[3-1]'"));
    EXPECT_THAT(error.what(), HasSubstr("backwards"));
  }
}

TEST(Counts, AreWrittenOut) {
  EXPECT_THAT(counts_of("2"), ElementsAre(2));
  EXPECT_THAT(counts_of("2(x3),1"), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(counts_of("1,16(x2)"), ElementsAre(1, 16, 16));
  for (const char* list : {"", "x", "2(x", "2(x)", "2(3)", "2(x999999999)", "1,"}) {
    EXPECT_THROW(counts_of(list), Error) << list;
  }
}

}  // namespace
}  // namespace tutti::rendezvous
