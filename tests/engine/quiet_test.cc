// The path of a small blocking collective between running ranks: no allocation, no lock, no system call.
//
// Allocations and locks are counted by counting.h, system calls by a seccomp filter that traps every one of them. While
// a peer has no core a rank may yield or sleep, so the batches in which that happened do not count, but no other system
// call is ever allowed, and most batches must be silent.
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstring>

#include "check.h"
#include "engine/counting.h"
#include "trace/folder.h"

namespace {

volatile sig_atomic_t waiting_calls = 0, other_calls = 0, last_other_call = -1;

}  // namespace

namespace tutti {
namespace {

using testing::require;

constexpr int kBatches = 400;
constexpr int kCallsPerBatch = 25;

bool is_poll(int number) {
#ifdef SYS_poll  // newer architectures have ppoll only
  if (number == SYS_poll) return true;
#endif
  return number == SYS_ppoll;
}

void on_system_call(int, siginfo_t* info, void*) {
  const int number = info->si_syscall;
  if (number == SYS_sched_yield || number == SYS_futex || number == SYS_membarrier || is_poll(number)) {
    waiting_calls = waiting_calls + 1;
  } else {
    other_calls = other_calls + 1;
    last_other_call = number;
  }
}

// From here on every system call but these raises SIGSYS and is not carried out.
void trap_system_calls() {
  struct sigaction action {};
  action.sa_sigaction = on_system_call;
  action.sa_flags = SA_SIGINFO;
  require(::sigaction(SIGSYS, &action, nullptr) == 0, "sigaction");
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{static_cast<unsigned short>(std::size(filter)), filter};
  require(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
  require(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "seccomp");
}

// Reports on descriptor 2 and leaves without the destructors, whose system calls would be trapped.
[[noreturn]] void leave(bool ok, const char* why) {
  if (!ok) {
    const ssize_t written = ::write(2, why, std::strlen(why));
    ::_exit(written < 0 ? 4 : 3);
  }
  ::_exit(0);
}

void run_quietly(Communicator& comm, const std::function<void()>& call) {
  for (int i = 0; i < 50; ++i) call();  // plans are made on the first calls
  trap_system_calls();
  int silent = 0;
  long allocations = 0, locks = 0;
  for (int batch = 0; batch < kBatches; ++batch) {
    const int before = waiting_calls;
    testing::start_counting();
    for (int i = 0; i < kCallsPerBatch; ++i) call();
    const testing::Counts counts = testing::stop_counting();
    allocations += counts.allocations;
    locks += counts.locks;
    if (waiting_calls == before) ++silent;
  }
  if (comm.rank() != 0) leave(true, "");
  char why[160];
  std::snprintf(why, sizeof why,
                "allocations %ld, locks %ld, other system calls %d (last %d), silent batches %d of %d\n", allocations,
                locks, static_cast<int>(other_calls), static_cast<int>(last_other_call), silent, kBatches);
  leave(allocations == 0 && locks == 0 && other_calls == 0 && silent > 0, why);
}

void expect_quiet(const std::function<std::function<void()>(Communicator&)>& make_call) {
  const auto ends = run_processes(
      2, [&](Communicator& comm) { run_quietly(comm, make_call(comm)); }, {}, true);
  testing::expect_all_ok(ends);
}

TEST(Quiet, SmallAllReduce) {
  expect_quiet([](Communicator& comm) {
    return [&comm, data = std::vector<float>(2, 1.0f)]() mutable { comm.all_reduce(data); };
  });
}

TEST(Quiet, StagedAllReduce) {
  expect_quiet([](Communicator& comm) {
    return [&comm, data = std::vector<float>(30'000, 1.0f)]() mutable { comm.all_reduce(data); };
  });
}

TEST(Quiet, SymmetricAllReduce) {
  expect_quiet(
      [](Communicator& comm) { return [&comm, data = comm.allocate<float>(3000)] { comm.all_reduce(data.span()); }; });
}

TEST(Quiet, MessagesBothWays) {
  expect_quiet([](Communicator& comm) {
    return [&comm, data = std::vector<float>(16, 1.0f)]() mutable {
      const int peer = 1 - comm.rank();
      comm.send(data, peer);
      comm.recv(data, peer);
    };
  });
}

TEST(Quiet, TaggedMessages) {
  expect_quiet([](Communicator& comm) {
    return [&comm, data = std::vector<float>(2, 1.0f), received = std::vector<float>(2)]() mutable {
      const int peer = 1 - comm.rank();
      comm.send(data, peer, 7);
      comm.recv(received, kAnySource, kAnyTag);
      comm.send_recv(data, peer, received, peer, 8);
    };
  });
}

// What a communicator that records does besides.
TEST(Quiet, Recording) {
  const testing::Folder folder;
  expect_quiet([&](Communicator& comm) {
    return [recorder = std::make_shared<trace::Recorder>(folder.path(),
                                                         trace::RingFacts{.rank = comm.rank(), .size = comm.size()},
                                                         trace::RingShape{.events = 1024})] {
      const std::uint64_t now = recorder->now();
      recorder->record({.name = recorder->name("a span"), .begin = now, .end = now});
    };
  });
}

}  // namespace
}  // namespace tutti
