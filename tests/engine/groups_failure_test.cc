// What goes wrong while groups are made: ranks that ask for different groups, die, or cannot meet; and groups that are
// no more.
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <functional>
#include <thread>

#include "check.h"
#include "effort.h"

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

void require_works(Communicator& comm) {
  int ranks = 1;
  comm.all_reduce(one(ranks));
  require(ranks == comm.size(), "the parent still works");
}

class GroupFailures : public ::testing::TestWithParam<Ranks> {
 protected:
  template <class How = Options>
  void run(int ranks, const RankFunction& body, const How& how = {}) {
    testing::expect_all_ok(testing::run_ranks(GetParam(), ranks, body, how));
  }
};

TEST_P(GroupFailures, TheRankWithAnotherListIsNamedOnAllRanks) {
  for (const int odd : {0, 2}) {
    run(4, [odd](Communicator& comm) {
      const std::vector<int> usual{0, 1, 3}, other{0, 3, 1};
      const Error error = error_of([&] { comm.subgroup(comm.rank() == odd ? other : usual); });
      require(error.code() == ErrorCode::mismatch && error.peer() == odd, error.what());
      require(says(error, "rank " + std::to_string(odd) + " passed another list"), error.what());
      require_works(comm);
    });
  }
}

TEST_P(GroupFailures, RanksThatAskInDifferentWaysAreTold) {
  run(3, [](Communicator& comm) {
    const Error error = error_of([&] { comm.rank() == 1 ? comm.duplicate() : comm.split(0); });
    require(error.code() == ErrorCode::mismatch && error.peer() == 1, error.what());
    require(says(error, "rank 1 called duplicate, rank 0 split"), error.what());
    require_works(comm);
  });
}

TEST_P(GroupFailures, AnotherVerbIsNoSplit) {
  run(3, [](Communicator& comm) {
    std::vector<float> data(100, 1.0f);
    const Error error = error_of([&] {
      if (comm.rank() == 2) comm.all_reduce(data);
      comm.split(0);
    });
    require(error.code() == ErrorCode::mismatch && error.peer() == 2, error.what());
  });
}

TEST_P(GroupFailures, ImpossibleListsAreRefusedBeforeAnythingMoves) {
  run(3, [](Communicator& comm) {
    const Error twice = error_of([&] { comm.subgroup(std::vector{0, 1, 0}); });
    require(twice.code() == ErrorCode::invalid_argument && says(twice, "rank 0 is listed twice"), twice.what());
    for (const int stranger : {-1, 3}) {
      const Error error = error_of([&] { comm.subgroup(std::vector{0, stranger}); });
      require(error.code() == ErrorCode::invalid_argument && says(error, "is not a rank of this group of 3"),
              error.what());
    }
    require_works(comm);
  });
}

TEST_P(GroupFailures, ARankThatDoesNotComeIsNamed) {
  run(
      3,
      [](Communicator& comm) {
        if (comm.rank() == 1) {
          const auto until = Clock::now() + std::chrono::milliseconds(1500);
          while (Clock::now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(10));
          return;
        }
        const Error error = error_of([&] { comm.split(0); });
        require(error.peer() == 1 && says(error, "split: "), error.what());
        require(error_of([&] { comm.split(0); }).code() == ErrorCode::aborted, "the parent has failed");
      },
      impatient(500));
}

TEST_P(GroupFailures, ARankThatLeavesIsNotWaitedFor) {
  const auto ends = testing::run_ranks(GetParam(), 3, [](Communicator& comm) {
    require_works(comm);
    if (comm.rank() == 1) throw std::runtime_error("the user's own trouble");
    const Error error = error_of([&] { comm.split(comm.rank() % 2); });
    require(error.peer() == 1, error.what());
  });
  EXPECT_TRUE(ends[0].ok()) << ends[0].message;
  EXPECT_TRUE(ends[2].ok()) << ends[2].message;
}

TEST_P(GroupFailures, OfAChildNameItsOwnRanksAndLeaveTheParentAlone) {
  run(
      4,
      [](Communicator& comm) {
        Communicator group = comm.subgroup(std::vector{3, 2, 0});
        if (group.valid()) {
          std::vector<float> data(comm.rank() == 0 ? 10 : 20, 1.0f);
          const Error error = error_of([&] { group.all_reduce(data); });
          require(error.code() == ErrorCode::mismatch && error.peer() == 2, error.what());
        }
        require_works(comm);
      },
      impatient(5000));
}

TEST_P(GroupFailures, CallsOfAGroupThatIsNoMoreSaySo) {
  run(2, [](Communicator& comm) {
    std::vector<float> data(4, 1.0f);
    Communicator left_out = comm.split(-1), closed = comm.duplicate(), moved = comm.duplicate();
    closed.close();
    closed.close();
    const Communicator holder = std::move(moved);
    for (Communicator* group : {&left_out, &closed, &moved}) {
      require(!group->valid(), "valid");
      for (const auto& call : std::vector<std::function<void()>>{
               [&] { group->all_reduce(data); }, [&] { group->rank(); }, [&] { group->size(); },
               [&] { group->split(0); }, [&] { group->subgroup({}); }, [&] { group->duplicate(); },
               [&] { group->create_group({}); }, [&] { group->self(); }, [&] { group->parent_ranks(); },
               [&] { group->allocate<float>(1); }, [&] { group->timeout(); }, [&] { group->last_algorithm(); },
               [&] { const Work work = group->barrier_async(); }}) {
        const Error error = error_of(call);
        require(error.code() == ErrorCode::invalid_argument, error.what());
        require(says(error, "it was closed or moved from, or split() left this rank out"), error.what());
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, GroupFailures, ::testing::ValuesIn(testing::kAlsoMixed),
                         [](const auto& test) { return testing::name_of(test.param); });

// Only processes can be killed, or run out of descriptors, alone.
class GroupDeaths : public ::testing::TestWithParam<Ranks> {};

// A group of the even ranks of four and one of the odd ones, called for by all ranks together, or by each group alone.
Communicator make_half(Communicator& comm, bool by_members, bool turned) {
  const int odd = comm.rank() % 2;
  if (!by_members) return comm.split(odd, turned ? -comm.rank() : comm.rank());
  const std::vector<int> ranks = turned ? std::vector{2 + odd, odd} : std::vector{odd, 2 + odd};
  return comm.create_group(ranks);
}

TEST_P(GroupDeaths, WhoeverDiesWhileGroupsAreMadeIsNamedByAll) {
  constexpr int kRanks = 4, kKills = testing::kSanitized ? 2 * kRanks : 6 * kRanks;
  for (int kill = 0; kill < kKills; ++kill) {
    const int victim = kill % kRanks;
    const auto delay = std::chrono::microseconds(700 * kill);
    const auto ends = testing::run_ranks(GetParam(), kRanks, [&](Communicator& comm) {
      const auto began = Clock::now();
      const Error error = error_of([&] {
        require_works(comm);  // all have met; the victim may be through, and gone, before others are
        if (comm.rank() == victim) {
          std::thread([delay] {
            std::this_thread::sleep_for(delay);
            ::kill(::getpid(), SIGKILL);
          }).detach();
        }
        for (int round = 0;; ++round) make_half(comm, kill / kRanks % 2 == 1, round % 2 == 1);
      });
      require(error.code() == ErrorCode::peer_lost && error.peer() == victim, error.what());
      // Noticed, not waited out: the timeout is a minute.
      require(Clock::now() - began < std::chrono::seconds(10), "in time");
    });
    for (int rank = 0; rank < kRanks; ++rank) {
      const RankEnd& end = ends[static_cast<std::size_t>(rank)];
      if (rank == victim) {
        EXPECT_EQ(end.signal, SIGKILL) << end.message;
      } else {
        EXPECT_TRUE(end.ok()) << "kill " << kill << " of rank " << victim << ", rank " << rank << ": " << end.message;
      }
    }
    if (HasFailure()) break;
  }
}

// No descriptor can be opened in this process any more, not even by root, which may raise its own limits.
void forbid_descriptors() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct rights[2] = {};
  require(::syscall(SYS_capget, &header, rights) == 0, "capget");
  rights[0].effective &= ~(1u << CAP_SYS_RESOURCE);
  rights[0].permitted &= ~(1u << CAP_SYS_RESOURCE);
  require(::syscall(SYS_capset, &header, rights) == 0, "capset");
  const rlimit few{256, 256};
  require(::setrlimit(RLIMIT_NOFILE, &few) == 0, "setrlimit");
  while (::dup(STDERR_FILENO) >= 0) continue;
  require(errno == EMFILE, "dup");
}

// Leaves room for the heap to breathe, and none for a group's memory.
void forbid_mappings() {
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  require(static_cast<bool>(statm >> pages), "statm");
  const rlim_t bytes = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (4 << 20);
  const rlimit little{bytes, bytes};
  require(::setrlimit(RLIMIT_AS, &little) == 0, "setrlimit");
}

// Ranks that share memory need some for a group.
TEST(GroupMemory, ARankThatHasNoneIsNamedByAllAndTheParentLives) {
  for (const auto& [poor, by_members] : {std::pair(1, false), {3, false}, {1, true}, {3, true}}) {
    // The first of its group, and another one.
    testing::expect_all_ok(testing::run_ranks(
        Ranks::processes, 4,
        [poor = poor, by_members = by_members](Communicator& comm) {
          require_works(comm);
          if (comm.rank() == poor) forbid_mappings();
          if (by_members && comm.rank() % 2 == 0) {  // the other group has nothing to do with it
            Communicator other = make_half(comm, true, false);
            require_works(other);
            return require_works(comm);
          }
          const Error error = error_of([&] { make_half(comm, by_members, false); });
          require(error.code() == ErrorCode::system && error.peer() == poor, error.what());
          require(says(error, "rank " + std::to_string(poor)) && says(error, "memory"), error.what());
          require_works(comm);
        },
        impatient(4000)));
  }
}

// Others need nothing that their processes do not have already.
TEST(GroupDescriptors, AreNoneWhereTheRanksAreLinked) {
  for (const bool by_members : {false, true}) {
    testing::expect_all_ok(testing::run_ranks(
        Ranks::tcp, 4,
        [by_members](Communicator& comm) {
          Communicator first = make_half(comm, by_members, false);
          const auto use = [](Communicator& each) {
            for (int call = 0; call < 8; ++call) require_works(each);  // on every channel
          };
          use(first);
          make_half(comm, by_members, true);
          for (int call = 0; call < 5; ++call) make_half(comm, by_members, false);
          comm.barrier();
          forbid_descriptors();
          Communicator second = make_half(comm, by_members, false), third = make_half(comm, by_members, true);
          use(second);
          use(third);
          use(first);
        },
        impatient(20'000)));
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, GroupDeaths, ::testing::Values(Ranks::processes, Ranks::tcp, Ranks::mixed),
                         [](const auto& test) { return testing::name_of(test.param); });

}  // namespace
}  // namespace tutti
