// Groups that not all ranks call for: made by their members alone, or of one rank; and which ranks a group is made of.
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <thread>

#include "check.h"

namespace tutti {
namespace {

using testing::error_of;
using testing::impatient;
using testing::Ranks;
using testing::require;
using Clock = std::chrono::steady_clock;

bool says(const Error& error, const std::string& words) {
  return std::string(error.what()).find(words) != std::string::npos;
}

// The group has these members, in this order, and works.
void require_group(Communicator& group, int known_as, const std::vector<int>& members) {
  require(group.parent_ranks() == members, "parent_ranks");
  require(members[static_cast<std::size_t>(group.rank())] == known_as, "place");
  std::vector<int> found(members.size());
  group.all_gather(one(known_as), found);
  require(found == members, "members");
  std::vector<int> sum(3000, known_as);
  group.all_reduce(sum);
  require(sum.back() == std::accumulate(members.begin(), members.end(), 0), "sum");
}

void require_works(Communicator& comm) {
  int ranks = 1;
  comm.all_reduce(one(ranks));
  require(ranks == comm.size(), "the parent still works");
}

class CreateGroup : public ::testing::TestWithParam<Ranks> {
 protected:
  template <class How = Options>
  void run(int ranks, const RankFunction& body, const How& how = {}) {
    testing::expect_all_ok(testing::run_ranks(GetParam(), ranks, body, how));
  }
};

TEST_P(CreateGroup, OnlyItsMembersCall) {
  run(5, [](Communicator& comm) {
    const std::vector<int> members{3, 0, 4};
    const int rank = comm.rank();
    int word = 0;
    if (rank == 1 || rank == 2) {
      comm.recv(one(word), 3);  // sent when the group is there: they wait for nothing else
      require(word == 42, "word");
    } else {
      Communicator group = comm.create_group(members);
      require_group(group, rank, members);
      word = 42;
      if (rank == 3) {
        for (const int other : {1, 2}) comm.send(one(word), other);
      }
      if (group.rank() != 0) {
        const std::vector<int> last{2, 1};
        Communicator pair = group.create_group(last);
        require_group(pair, group.rank(), last);
      }
    }
    require_works(comm);
  });
}

TEST_P(CreateGroup, SeveralAreMadeAtOnce) {
  run(4, [](Communicator& comm) {
    const int rank = comm.rank(), right = (rank + 1) % 4, left = (rank + 3) % 4;
    for (int round = 0; round < 5; ++round) {
      // Around a ring, every rank in two groups; rank 0 takes them in the other order, or each would wait for the next.
      std::vector<int> with_right{rank, right}, with_left{left, rank};
      if (rank == 0) {
        Communicator second = comm.create_group(with_left, left), first = comm.create_group(with_right, rank);
        require_group(first, rank, with_right);
        require_group(second, rank, with_left);
      } else {
        Communicator first = comm.create_group(with_right, rank), second = comm.create_group(with_left, left);
        require_group(second, rank, with_left);
        require_group(first, rank, with_right);
      }
    }
    // Two disjoint ones with the same tag.
    const std::vector<int> half = rank < 2 ? std::vector{1, 0} : std::vector{2, 3};
    Communicator group = comm.create_group(half, 9);
    require_group(group, rank, half);
  });
}

TEST_P(CreateGroup, MessagesOfTheCallersAreLeftAlone) {
  run(3, [](Communicator& comm) {
    const int rank = comm.rank();
    const std::vector<int> members{0, 1};
    if (rank == 2) return require_works(comm);
    // What lies before the library's messages is not lost, and what waits takes none of them.
    int word = 0, first = 5;
    std::vector<int> large(100'000, rank == 0 ? 7 : 0);
    Work any, sent;
    if (rank == 0) sent = comm.send_async(large, 1, 3);
    if (rank == 1) any = comm.recv_async(one(word), 0, 8);
    Communicator group = comm.create_group(members, 3);
    require_group(group, rank, members);
    if (rank == 0) {
      comm.send(one(first), 1, 8);
      sent.wait();
    } else {
      any.wait();
      require(word == 5, "word");
      require(comm.probe(kAnySource, kAnyTag, DType::int32).count == large.size(), "probe");
      comm.recv(large, kAnySource, kAnyTag);
      require(large.back() == 7, "large");
      int later = 0;
      Work next = comm.recv_async(one(later), kAnySource, kAnyTag);
      Communicator again = comm.create_group(members, 3);
      require(!next.test(), "an open receive takes nothing of create_group's");
      group.barrier();
      next.wait();
      require(later == 6, "later");
      return require_works(comm);
    }
    Communicator again = comm.create_group(members, 3);
    group.barrier();
    int later = 6;
    comm.send(one(later), 1, 1);
    require_works(comm);
  });
}

TEST_P(CreateGroup, ImpossibleOnesAreRefusedBeforeAnythingMoves) {
  run(3, [](Communicator& comm) {
    const auto refused = [&](const std::vector<int>& ranks, int tag, const std::string& words) {
      const Error error = error_of([&] { comm.create_group(ranks, tag); });
      require(error.code() == ErrorCode::invalid_argument && says(error, words), error.what());
    };
    const int rank = comm.rank();
    refused({(rank + 1) % 3}, 0, "which calls, is not in the list");
    refused({}, 0, "which calls, is not in the list");
    refused({rank, rank}, 0, "is listed twice");
    refused({rank, 3}, 0, "3 is not a rank of this group of 3");
    refused({0, 1, 2}, -1, "not -1");
    refused({0, 1, 2}, 0x7fffffff, "not 2147483647");
    require_works(comm);
  });
}

TEST_P(CreateGroup, TheMemberWithAnotherListIsNamedOnAll) {
  run(4, [](Communicator& comm) {
    if (comm.rank() != 3) {
      const std::vector<int> usual{0, 1, 2}, other{0, 2, 1};
      const Error error = error_of([&] { comm.create_group(comm.rank() == 2 ? other : usual, 4); });
      require(error.code() == ErrorCode::mismatch && error.peer() == 2, error.what());
      require(says(error, "rank 2 passed another list of ranks than rank 0"), error.what());
    }
    require_works(comm);
  });
}

// Whoever it is: the first of the list keeps the others waiting, and must not be blamed for it.
TEST_P(CreateGroup, AMemberThatDoesNotComeIsNamedOnAll) {
  for (const int absent : {0, 2}) {
    run(
        4,
        [absent](Communicator& comm) {
          require_works(comm);
          int over = 0;
          if (comm.rank() == absent || comm.rank() == 3) {
            comm.set_timeout(std::chrono::minutes(1));  // until the others have given up
            const Error error = error_of([&] { comm.recv(one(over), 1); });
            require(error.peer() >= 0, error.what());
            return;
          }
          // The others come first, and wait the longer.
          if (comm.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
          const Error error = error_of([&] { comm.create_group(std::vector{0, 1, 2}); });
          require(error.peer() == absent && says(error, "create_group: "), error.what());
          require(error_of([&] { comm.create_group(std::vector{0, 1, 2}); }).code() == ErrorCode::aborted, "aborted");
        },
        impatient(2000));
  }
}

TEST_P(CreateGroup, AMemberThatLeavesIsNotWaitedFor) {
  const auto ends = testing::run_ranks(GetParam(), 4, [](Communicator& comm) {
    require_works(comm);
    if (comm.rank() == 2) throw std::runtime_error("the user's own trouble");
    if (comm.rank() == 3) return;
    const auto began = Clock::now();
    const Error error = error_of([&] { comm.create_group(std::vector{1, 0, 2}); });
    require(error.peer() == 2, error.what());
    require(Clock::now() - began < std::chrono::seconds(30), "in time");
  });
  for (const std::size_t rank : {0, 1, 3}) EXPECT_TRUE(ends[rank].ok()) << ends[rank].message;
}

TEST_P(CreateGroup, ARankAloneNeedsNobody) {
  run(3, [](Communicator& comm) {
    if (comm.rank() == 1) {
      Communicator alone = comm.self();
      require_group(alone, 1, {1});
      Communicator again = alone.self(), twin = alone.duplicate();
      require_group(again, 0, {0});
      require_group(twin, 0, {0});
      Communicator listed = comm.create_group(std::vector{1});
      require_group(listed, 1, {1});
    }
    require_works(comm);
    comm.abort();
    Communicator after = comm.self();
    require_group(after, comm.rank(), {comm.rank()});
  });
}

TEST_P(CreateGroup, EveryGroupKnowsWhichRanksItIsMadeOf) {
  run(4, [](Communicator& comm) {
    const int rank = comm.rank();
    require(comm.parent_ranks().empty(), "made of none");
    Communicator turned = comm.split(0, -rank);
    require(turned.parent_ranks() == std::vector{3, 2, 1, 0}, "split");
    Communicator odd = turned.split(rank % 2);  // by their ranks in `turned`
    require(odd.parent_ranks() == (rank % 2 == 0 ? std::vector{1, 3} : std::vector{0, 2}), "split of a split");
    require(comm.duplicate().parent_ranks() == std::vector{0, 1, 2, 3}, "duplicate");
    const std::vector<int> list{2, 0};
    Communicator listed = comm.subgroup(list);
    if (listed.valid()) require(listed.parent_ranks() == list, "subgroup");
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, CreateGroup, ::testing::ValuesIn(testing::kAlsoMixed),
                         [](const auto& test) { return testing::name_of(test.param); });

}  // namespace
}  // namespace tutti
