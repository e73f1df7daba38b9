// A child that a rank forked: every entry refuses it, and whatever it drops or however it ends, the group goes on.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>

#include "check.h"
#include "tutti/batch.h"
#include "tutti/coalesced.h"

namespace tutti {
namespace {

using testing::error_of;
using testing::Ranks;
using testing::require;

void require_refused(const std::string& entry, const std::function<void()>& call) {
  const Error error = error_of(call);
  const bool says_so = std::string(error.what()).find("let the child join a group of its own") != std::string::npos;
  require(error.code() == ErrorCode::invalid_argument && says_so, entry + ": " + error.what());
}

// Runs `body` in a child, which ends as a program does; the words of what it throws are this process's.
void in_child(const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "the child: %s\n", error.what());
      std::exit(1);
    }
    std::exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with " + std::to_string(status));
}

class Forks : public ::testing::TestWithParam<Ranks> {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_ADDRESS__
    GTEST_SKIP() << "the address sanitizer's allocator does not survive the fork of a process with threads";
#endif
  }
  void run(int ranks, const RankFunction& body) {
    Options options;
    options.timeout = std::chrono::seconds(20);
    testing::expect_all_ok(testing::run_ranks(GetParam(), ranks, body, options));
  }
};

void require_sum(Communicator& comm, std::span<float> data) {
  std::fill(data.begin(), data.end(), static_cast<float>(comm.rank() + 1));
  comm.all_reduce(data);
  const auto ranks = static_cast<float>(comm.size());
  require(data.front() == ranks * (ranks + 1) / 2 && data.back() == data.front(), "the sum of all ranks");
}

TEST_P(Forks, EveryEntryRefusesTheChild) {
  run(2, [](Communicator& comm) {
    std::vector<float> data(1000, 1.0f), message(1);
    std::vector<std::vector<float>> tensors(3, data);
    const Symmetric<float> memory = comm.allocate<float>(1000);
    require_sum(comm, memory.span());
    Work work = comm.recv_async(message, 1 - comm.rank(), 7);
    if (comm.rank() == 0) {
      const std::pair<const char*, std::function<void()>> entries[] = {
          {"a collective", [&] { comm.all_reduce(data); }},
          {"one over symmetric memory", [&] { comm.all_reduce(memory.span()); }},
          {"barrier", [&] { comm.barrier(); }},
          {"an async call", [&] { comm.all_reduce_async(data).wait(); }},
          {"send", [&] { comm.send(message, 1); }},
          {"recv", [&] { comm.recv(message, 1); }},
          {"probe", [&] { comm.probe(1); }},
          {"iprobe", [&] { comm.iprobe(1); }},
          {"allocate", [&] { comm.allocate<float>(10); }},
          {"split", [&] { comm.split(0, 0); }},
          {"duplicate", [&] { comm.duplicate(); }},
          {"create_group",
           [&] {
             comm.create_group(std::vector<int>{0, 1}, 3);
           }},
          {"self", [&] { comm.self(); }},
          {"subgroup", [&] { comm.subgroup(std::vector<int>{0}); }},
          {"parent_ranks", [&] { comm.parent_ranks(); }},
          {"send_recv", [&] { comm.send_recv(message, 1, message, 1); }},
          {"a batch",
           [&] {
             Batch batch(comm);
             batch.send(message, 1);
             batch.run();
           }},
          {"abort", [&] { comm.abort(); }},
          {"set_timeout", [&] { comm.set_timeout(std::chrono::seconds(1)); }},
          {"rank", [&] { static_cast<void>(comm.rank()); }},
          {"test", [&] { work.test(); }},
          {"wait", [&] { work.wait(); }},
          {"wait with a timeout", [&] { work.wait(std::chrono::milliseconds(1)); }},
          {"on_end", [&] { work.on_end([] {}); }},
          {"wait_any",
           [&] {
             wait_any({&work, 1});
           }},
          {"wait_some",
           [&] {
             wait_some({&work, 1});
           }},
          {"test_any",
           [&] {
             test_any({&work, 1});
           }},
          {"all_reduce_coalesced", [&] { all_reduce_coalesced(comm, tensors); }},
      };
      in_child([&] {
        for (const auto& [entry, call] : entries) require_refused(entry, call);
        require(!comm.valid(), "a child's communicator is not valid");
      });
      for (const auto& [entry, call] : entries) in_child([&, name = entry, one = call] { require_refused(name, one); });
    }
    require_sum(comm, data);
    require_sum(comm, memory.span());
    comm.send(message, 1 - comm.rank(), 7);
    work.wait();
  });
}

// The rank's threads are not in its child, its locks may be held there for ever, and its shared memory is everybody's.
TEST_P(Forks, WhatTheChildDropsIsNotDroppedByItsRank) {
  run(2, [](Communicator& comm) {
    std::vector<float> data(5000, 1.0f), message(1);
    {
      Symmetric<float> memory = comm.allocate<float>(5000);
      Communicator other = comm.duplicate();
      Work work = comm.recv_async(message, 1 - comm.rank(), 7), of_other = other.recv_async(data, 1 - comm.rank());
      if (comm.rank() == 0) {
        in_child([&] {
          work = Work();
          { const Symmetric<float> dropped = std::move(memory); }
          { const Communicator closed = std::move(comm); }
          { const Communicator closed = std::move(other); }
          of_other = Work();
        });
      }
      require_sum(comm, memory.span());
      comm.send(message, 1 - comm.rank(), 7);
      work.wait();
      other.send(std::vector<float>(5000, 3.0f), 1 - comm.rank());
      of_other.wait();
      require(data.front() == 3.0f && data.back() == 3.0f, "the message to the other communicator");
    }
    require_sum(comm, data);
  });
}

TEST_P(Forks, TheChildMayHaveAGroupOfItsOwn) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer knows no threads in a child whose parent had some";
#endif
  run(2, [](Communicator& comm) {
    in_child([&] {
      testing::expect_all_ok(run_threads(2, [](Communicator& own) {
        std::vector<float> data(100);
        require_sum(own, data);
      }));
      require_refused("the rank's communicator", [&] { comm.barrier(); });
    });
    std::vector<float> data(100);
    require_sum(comm, data);
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, Forks, ::testing::Values(Ranks::processes, Ranks::tcp),
                         [](const auto& test) { return testing::name_of(test.param); });

}  // namespace
}  // namespace tutti
