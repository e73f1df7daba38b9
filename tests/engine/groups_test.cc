// Groups made of a group's ranks: who is in them, that their verbs are right, and that several work at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <numeric>
#include <thread>

#include "check.h"

namespace tutti {
namespace {

using testing::Ranks;
using testing::require;

class Groups : public ::testing::TestWithParam<Ranks> {
 protected:
  void run(int ranks, const RankFunction& body, const Options& options = {}) {
    testing::expect_all_ok(testing::run_ranks(GetParam(), ranks, body, options));
  }
};

// The members of a group by their ranks elsewhere, as its own all_gather tells them.
std::vector<int> members_of(Communicator& group, int known_as) {
  std::vector<int> members(static_cast<std::size_t>(group.size()));
  group.all_gather(one(known_as), members);
  return members;
}

// A round of verbs, each of whose results depends on who is in the group and in which order.
void require_verbs(Communicator& group, int known_as, const std::vector<int>& members, std::size_t count) {
  const int size = group.size(), rank = group.rank();
  require(size == static_cast<int>(members.size()) && members[static_cast<std::size_t>(rank)] == known_as, "place");
  require(members_of(group, known_as) == members, "members");
  const int total = std::accumulate(members.begin(), members.end(), 0);
  std::vector<int> sum(count, known_as);
  group.all_reduce(sum);
  for (const int value : sum) require(value == total, "all_reduce");
  for (int root = 0; root < size; ++root) {
    std::vector<int> data(count, rank == root ? known_as + 100 : -1);
    group.broadcast(data, root);
    for (const int value : data) require(value == members[static_cast<std::size_t>(root)] + 100, "broadcast");
  }
  std::vector<int> before(count, known_as);
  group.scan(before, before);
  const int prefix = std::accumulate(members.begin(), members.begin() + rank + 1, 0);
  for (const int value : before) require(value == prefix, "scan");
  std::vector<int> sent(static_cast<std::size_t>(size)), received(sent.size());
  for (std::size_t to = 0; to < sent.size(); ++to) sent[to] = 1000 * known_as + members[to];
  group.all_to_all(sent, received);
  for (std::size_t from = 0; from < sent.size(); ++from)
    require(received[from] == 1000 * members[from] + known_as, "all_to_all");
  const Symmetric<int> shared = group.allocate<int>(count);
  for (int& value : shared) value = known_as;
  group.all_reduce(shared);
  for (const int value : shared) require(value == total, "symmetric all_reduce");
  if (size == 1) return;
  std::vector<int> out(count, known_as), in(count, -1);
  Work going = group.send_async(out, (rank + 1) % size);
  group.recv(in, (rank + size - 1) % size);
  going.wait();
  for (const int value : in) require(value == members[static_cast<std::size_t>((rank + size - 1) % size)], "message");
  group.barrier();
}

constexpr std::size_t kCount = 5000;

TEST_P(Groups, SplitByParity) {
  run(5, [](Communicator& comm) {
    Communicator group = comm.split(comm.rank() % 2);
    require_verbs(group, comm.rank(), comm.rank() % 2 == 0 ? std::vector{0, 2, 4} : std::vector{1, 3}, kCount);
    require_verbs(comm, comm.rank(), {0, 1, 2, 3, 4}, kCount);
  });
}

TEST_P(Groups, KeysOrderAGroupAndEqualOnesKeepTheOldOrder) {
  run(5, [](Communicator& comm) {
    Communicator reversed = comm.split(7, -comm.rank());
    require_verbs(reversed, comm.rank(), {4, 3, 2, 1, 0}, kCount);
    Communicator mixed = comm.split(0, comm.rank() % 2 == 0 ? 1 : 0);
    require_verbs(mixed, comm.rank(), {1, 3, 0, 2, 4}, kCount);
  });
}

TEST_P(Groups, ANegativeColorJoinsNone) {
  run(4, [](Communicator& comm) {
    Communicator group = comm.split(comm.rank() == 1 ? -1 : 3);
    require(group.valid() == (comm.rank() != 1), "valid");
    if (group.valid()) require_verbs(group, comm.rank(), {0, 2, 3}, 10);
    const Communicator nobody = comm.split(-5);
    require(!nobody.valid(), "nobody");
  });
}

TEST_P(Groups, ASplitOfASplit) {
  run(6, [](Communicator& comm) {
    const int rank = comm.rank();
    Communicator half = comm.split(rank / 3, -rank);  // 2 1 0 and 5 4 3
    Communicator pair = half.split(half.rank() == 0 ? -1 : 1, -half.rank());
    require(pair.valid() == (rank % 3 != 2), "the first of each half is left out");
    if (!pair.valid()) return;
    require_verbs(pair, rank, rank < 3 ? std::vector{0, 1} : std::vector{3, 4}, kCount);
    Communicator copy = pair.duplicate();
    require_verbs(copy, rank, rank < 3 ? std::vector{0, 1} : std::vector{3, 4}, 10);
  });
}

TEST_P(Groups, ADuplicateHasCallsOfItsOwn) {
  run(3, [](Communicator& comm) {
    Communicator copy = comm.duplicate();
    require_verbs(copy, comm.rank(), {0, 1, 2}, kCount);
    // Were the calls of one counted with those of the other, ranks would be out of step now.
    std::vector<int> data(kCount, 1), other(kCount, 1);
    if (comm.rank() == 1) {
      Work first = copy.all_reduce_async(data);
      comm.all_reduce(other);
      first.wait();
    } else {
      Work first = comm.all_reduce_async(other);
      copy.all_reduce(data);
      first.wait();
    }
    require(data.back() == 3 && other.back() == 3, "sums");
  });
}

TEST_P(Groups, ASubgroupHasTheOrderOfItsList) {
  run(5, [](Communicator& comm) {
    const std::vector<int> ranks{3, 0, 4};
    Communicator group = comm.subgroup(ranks);
    require(group.valid() == (comm.rank() != 1 && comm.rank() != 2), "valid");
    if (group.valid()) require_verbs(group, comm.rank(), ranks, kCount);
    require(!comm.subgroup({}).valid(), "a group of nobody");
    require_verbs(comm, comm.rank(), {0, 1, 2, 3, 4}, 10);
  });
}

TEST_P(Groups, OfOneRank) {
  run(3, [](Communicator& comm) {
    Communicator alone = comm.split(comm.rank());
    require_verbs(alone, comm.rank(), {comm.rank()}, kCount);
    Communicator again = alone.duplicate();
    require_verbs(again, comm.rank(), {comm.rank()}, 10);
    Communicator first = comm.subgroup(std::vector{1});
    require(first.valid() == (comm.rank() == 1), "valid");
    Communicator uneven = comm.split(comm.rank() == 0 ? 1 : 2);  // some meet and some are alone
    require_verbs(uneven, comm.rank(), comm.rank() == 0 ? std::vector{0} : std::vector{1, 2}, kCount);
  });
}

TEST_P(Groups, OptionsAreInherited) {
  Options options;
  options.deterministic = false;
  options.algorithm = "ring";
  options.check = Check::full;
  run(
      4,
      [](Communicator& comm) {
        comm.set_timeout(std::chrono::milliseconds(12'345));
        Communicator group = comm.split(comm.rank() % 2);
        require(group.timeout() == std::chrono::milliseconds(12'345), "timeout");
        std::vector<float> data(kCount, 1.0f);
        group.all_reduce(data);
        require(group.last_algorithm() == "ring", std::string(group.last_algorithm()));
        group.set_timeout(std::chrono::milliseconds(1));
        require(comm.timeout() == std::chrono::milliseconds(12'345), "each has its own");
      },
      options);
}

std::vector<float> uneven_values(int seed) {
  std::vector<float> values(777);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] =
        1.0f / static_cast<float>(3 * seed + 1) + static_cast<float>(i * static_cast<std::size_t>(seed)) * 1e-3f;
  return values;
}

// Rank i has the values of seed i, whoever it was in the parent: the same bits as in a group that never had one.
TEST_P(Groups, BitsDependOnTheGroupAlone) {
  constexpr int kMembers = 5;
  std::vector<float> expected;
  testing::expect_all_ok(run_threads(kMembers, [&](Communicator& comm) {
    std::vector<float> values = uneven_values(comm.rank());
    comm.all_reduce(values);
    if (comm.rank() == 0) expected = values;
  }));
  run(7, [&](Communicator& comm) {
    Communicator group = comm.subgroup(std::vector{6, 1, 4, 0, 3});
    if (!group.valid()) return;
    std::vector<float> values = uneven_values(group.rank());
    group.all_reduce(values);
    require(std::memcmp(values.data(), expected.data(), expected.size() * sizeof(float)) == 0, "bits");
  });
}

TEST_P(Groups, ParentAndChildMayGoInEitherOrder) {
  for (int round = 0; round < 5; ++round) {
    run(4, [](Communicator& comm) {
      const int rank = comm.rank();
      Communicator first = comm.split(rank % 2), second = comm.duplicate();
      Communicator grandchild = second.split(rank / 2);
      first.close();
      require_verbs(comm, rank, {0, 1, 2, 3}, 10);
      comm.close();
      require_verbs(second, rank, {0, 1, 2, 3}, 10);
      { const Communicator gone = std::move(second); }
      require_verbs(grandchild, rank, rank < 2 ? std::vector{0, 1} : std::vector{2, 3}, kCount);
    });
  }
}

// Runs both at once, each on a thread of its own; what either throws is thrown here.
void both(const std::function<void()>& one, const std::function<void()>& other) {
  std::exception_ptr trouble;
  std::thread thread([&] {
    try {
      other();
    } catch (...) {
      trouble = std::current_exception();
    }
  });
  try {
    one();
  } catch (...) {
    thread.join();
    throw;
  }
  thread.join();
  if (trouble) std::rethrow_exception(trouble);
}

// Blocking and async calls by turns, in an order of waiting that differs from rank to rank.
void work_hard(Communicator& group, int rounds, int seed, int known_as, int total) {
  for (int round = 0; round < rounds; ++round) {
    const std::size_t count = round % 7 == 0 ? 20'000 : static_cast<std::size_t>(round % 5) * 100 + 1;
    std::vector<int> a(count, known_as), b(count, known_as), c(count, known_as);
    Work first = group.all_reduce_async(a), second = group.all_reduce_async(b);
    if ((round + seed) % 3 == 0) second.wait();
    group.all_reduce(c);
    if ((round + seed) % 2 == 0) first.wait();
    second.wait();
    first.wait();
    require(a.back() == total && b.front() == total && c.back() == total, "sum of round " + std::to_string(round));
    if (round % 10 == seed % 10) std::this_thread::yield();
  }
}

#if defined(__SANITIZE_THREAD__)
constexpr int kRounds = 60;
#else
constexpr int kRounds = 200;
#endif

TEST_P(Groups, RowsAndColumnsOfAGridAtOnce) {
  run(4, [](Communicator& comm) {
    const int rank = comm.rank(), row = rank / 2, column = rank % 2;
    Communicator across = comm.split(row), down = comm.split(column);
    const int row_total = 4 * row + 1, column_total = 2 * column + 2;
    const auto rows = [&] { work_hard(across, kRounds, rank, rank, row_total); };
    const auto columns = [&] { work_hard(down, kRounds, 3 * rank, rank, column_total); };
    rank % 2 == 0 ? both(rows, columns) : both(columns, rows);
  });
}

TEST_P(Groups, AGroupAndItsDuplicateAtOnceWhileOthersAreMade) {
  run(3, [](Communicator& comm) {
    Communicator copy = comm.duplicate();
    both([&] { work_hard(comm, kRounds, comm.rank(), comm.rank(), 3); },
         [&] {
           const int rank = copy.rank();
           for (int round = 0; round < 5; ++round) {
             Communicator pair = copy.split(rank == round % 3 ? -1 : 0, -rank);
             if (pair.valid()) work_hard(pair, kRounds / 10, rank, rank, 3 - round % 3);
           }
         });
  });
}

TEST_P(Groups, WorksOfTwoAreWaitedForInAnyOrder) {
  run(4, [](Communicator& comm) {
    Communicator copy = comm.duplicate();
    for (int round = 0; round < kRounds; ++round) {
      std::vector<std::vector<float>> data(12, std::vector<float>(round % 4 == 0 ? 30'000 : 64, 1.0f));
      std::vector<Work> works;
      const bool turned = comm.rank() % 2 == 1;
      std::vector<Work> mine, its;
      for (std::size_t i = 0; i < 6; ++i) {
        if (turned) its.push_back(copy.all_reduce_async(data[6 + i]));
        mine.push_back(comm.all_reduce_async(data[i]));
        if (!turned) its.push_back(copy.all_reduce_async(data[6 + i]));
      }
      wait_all(turned ? its : mine);
      std::vector<Work>& rest = turned ? mine : its;
      for (std::size_t i = rest.size(); i-- > 0;) rest[i].wait();
      for (const auto& vector : data) require(vector.front() == 4.0f && vector.back() == 4.0f, "sum");
    }
  });
}

TEST_P(Groups, ManyOneAfterTheOther) {
  run(3, [](Communicator& comm) {
    for (int round = 0; round < 30; ++round) {
      Communicator group = comm.split(comm.rank() == round % 3 ? 1 : 0, round % 2 == 0 ? comm.rank() : -comm.rank());
      int total = 1;
      group.all_reduce(one(total));
      require(total == (comm.rank() == round % 3 ? 1 : 2), "size");
    }
  });
}

std::ptrdiff_t entries_of(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

// However many there are, they take no descriptor more than the first, and one thread drives the async calls of all.
class ManyGroups : public ::testing::TestWithParam<Ranks> {};

TEST_P(ManyGroups, TakeNoMoreThanOne) {
  testing::expect_all_ok(testing::run_ranks(GetParam(), 3, [](Communicator& comm) {
    constexpr int kMany = 300;
    std::vector<Communicator> groups;
    std::vector<std::vector<int>> data(kMany, std::vector<int>(100, 1));
    groups.push_back(comm.duplicate());
    groups.back().all_reduce_async(data.front()).wait();
    // Connections that making and using groups takes are there afterwards.
    for (int call = 0; call < 5; ++call) comm.duplicate(), comm.barrier(), groups.back().barrier();
    const auto descriptors = entries_of("/proc/self/fd"), threads = entries_of("/proc/self/task");
    for (int i = 1; i < kMany; ++i) groups.push_back(i % 2 == 0 ? comm.duplicate() : groups.back().split(0));
    std::vector<Work> works;
    for (std::size_t i = 1; i < groups.size(); ++i) works.push_back(groups[i].all_reduce_async(data[i]));
    require(entries_of("/proc/self/fd") == descriptors && entries_of("/proc/self/task") == threads, "shared by all");
    for (Work& work : works) work.wait();
    for (const auto& vector : data) require(vector.front() == 3 && vector.back() == 3, "sum");
    // What is left of others' work the thread does by itself.
    works.clear();
    for (std::size_t i = 0; i < groups.size(); ++i) works.push_back(groups[i].all_reduce_async(data[i]));
    while (!std::all_of(works.begin(), works.end(), [](const Work& work) { return work.ended(); }))
      std::this_thread::yield();
    for (const auto& vector : data) require(vector.front() == 9 && vector.back() == 9, "sum by the thread");
  }));
}

INSTANTIATE_TEST_SUITE_P(Transports, ManyGroups, ::testing::Values(Ranks::processes, Ranks::tcp, Ranks::mixed),
                         [](const auto& test) { return testing::name_of(test.param); });

class GroupsOfThreads : public ::testing::TestWithParam<TransportKind> {};

TEST_P(GroupsOfThreads, OverEveryTransport) {
  if (const std::string why = testing::why_missing(GetParam()); !why.empty()) GTEST_SKIP() << why;
  Options options;
  options.transport = GetParam();
  testing::expect_all_ok(run_threads(
      4,
      [](Communicator& comm) {
        const int rank = comm.rank();
        Communicator across = comm.split(rank / 2), down = comm.split(rank % 2, -rank);
        require_verbs(down, rank, rank % 2 == 0 ? std::vector{2, 0} : std::vector{3, 1}, kCount);
        both([&] { work_hard(across, kRounds / 10, rank, rank, 4 * (rank / 2) + 1); },
             [&] { work_hard(down, kRounds / 10, 3 * rank, rank, 2 * (rank % 2) + 2); });
      },
      options));
}

INSTANTIATE_TEST_SUITE_P(Transports, GroupsOfThreads, ::testing::ValuesIn(testing::every_transport()),
                         [](const auto& test) { return std::string(name_of(test.param)); });

INSTANTIATE_TEST_SUITE_P(Transports, Groups, ::testing::ValuesIn(testing::kAlsoMixed),
                         [](const auto& test) { return testing::name_of(test.param); });

}  // namespace
}  // namespace tutti
