// Once a call has failed its buffers are the caller's again: no peer reads them or stores into them any more.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "check.h"
#include "process_state.h"

namespace tutti {
namespace {

using testing::error_of;
using testing::require;
using testing::state_of;

// Memory of its own, which can be asked whether anybody has stored to it yet.
class Pages {
 public:
  explicit Pages(std::size_t bytes, int sharing = MAP_PRIVATE)
      : bytes_(bytes), base_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0)) {
    if (base_ == MAP_FAILED) throw std::runtime_error("mmap");
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() { unmap(); }

  void unmap() {
    if (base_ != nullptr) ::munmap(base_, bytes_);
    base_ = nullptr;
  }
  std::span<char> span() const { return {static_cast<char*>(base_), bytes_}; }
  bool touched() const {
    unsigned char resident = 0;
    return ::mincore(base_, 1, &resident) == 0 && (resident & 1) != 0;
  }

 private:
  std::size_t bytes_;
  void* base_;
};

// The receiver copies straight out of the sender's memory, into pages it has yet to get, which takes its time.
TEST(GivenUp, AThreadsMemoryMayGoAlthoughAPeerWasCopyingIt) {
  Options options;
  options.algorithm = "broadcast=single_copy";
  const Pages target(192 << 20);
  const auto body = [&](Communicator& comm) {
    if (comm.rank() == 1) {
      const Error error = error_of([&] { comm.broadcast(target.span(), 0); });
      require(error.code() == ErrorCode::peer_failed, error.what());
      require(std::string(error.what()).find("is undefined") != std::string::npos, error.what());
      return;
    }
    Pages source(target.span().size());
    Work sent = comm.broadcast_async(source.span(), 0);
    while (!target.touched()) std::this_thread::yield();
    comm.abort();
    require(error_of([&] { sent.wait(); }).code() == ErrorCode::aborted, "aborted");
    source.unmap();
  };
  testing::expect_all_ok(run_threads(2, body, options));
}

#if !defined(__SANITIZE_THREAD__)  // which does not let a process be stopped in peace

struct Shared {
  std::atomic<int> sleeper{0};   // its process, once it is about to make the call
  std::atomic<int> asleep{0};    // it is in the call, and stopped
  std::atomic<int> given_up{0};  // ranks that have, and have marked their memory as their own
  std::atomic<int> woken{0};     // the sleeper's call has ended
};

template <class Condition>
void await(Condition&& condition, const char* what) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    require(std::chrono::steady_clock::now() < until, what);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Rank 1 is stopped in the call while it waits for the others, which then come: all that rank 1 waited for is there
// when it wakes, long after the others gave up.
class Sleeper : public ::testing::Test {
 protected:
  using Verb = std::function<void(Communicator&, std::span<float> input, std::span<float> output)>;

  void run(const Verb& verb) {
    Options options;
    options.timeout = std::chrono::seconds(4);
    options.algorithm = "direct";
    const Pages pages(sizeof(Shared), MAP_SHARED);
    auto& shared = *new (pages.span().data()) Shared;
    testing::expect_all_ok(run_processes(
        3, [&](Communicator& comm) { run_rank(comm, verb, shared); }, options));
  }

 private:
  static void run_rank(Communicator& comm, const Verb& verb, Shared& shared) {
    constexpr std::size_t kCount = 3000;
    const Symmetric<float> input = comm.allocate<float>(kCount), output = comm.allocate<float>(kCount);
    std::fill(input.begin(), input.end(), 1.0f);
    verb(comm, input.span(), output.span());
    require(comm.last_algorithm() == "direct", "the algorithm of symmetric memory");
    comm.barrier();
    if (comm.rank() == 1) {
      shared.sleeper.store(::getpid());
    } else if (comm.rank() == 0) {
      await([&] { return shared.asleep.load() != 0; }, "rank 1 was never put to sleep");
    } else {
      await([&] { return shared.sleeper.load() != 0; }, "rank 1 never came");
      await([&] { return state_of(shared.sleeper.load()) == 'S'; }, "rank 1 never slept");
      ::kill(shared.sleeper.load(), SIGSTOP);
      await([&] { return state_of(shared.sleeper.load()) == 'T'; }, "rank 1 was never stopped");
      shared.asleep.store(1);
    }
    const Error error = error_of([&] { verb(comm, input.span(), output.span()); });
    if (comm.rank() == 1) {
      shared.woken.store(1);
      require(error.code() == ErrorCode::peer_failed || error.code() == ErrorCode::peer_lost, error.what());
      return;
    }
    require(error.peer() == 1, error.what());
    for (const auto& mine : {input, output}) std::fill(mine.begin(), mine.end(), -5.0f);
    shared.given_up.fetch_add(1);
    if (comm.rank() == 2) {
      await([&] { return shared.given_up.load() == 2; }, "rank 0 never gave up");
      ::kill(shared.sleeper.load(), SIGCONT);
    }
    await([&] { return shared.woken.load() == 1; }, "rank 1 never woke");
    for (const auto& mine : {input, output}) {
      for (const float value : mine) require(value == -5.0f, "rank 1 has stored into memory of ranks that gave up");
    }
  }
};

TEST_F(Sleeper, StoresNothingIntoMemoryOfRanksThatGaveUp) {
  run([](Communicator& comm, auto input, auto output) { comm.all_reduce(input, output); });
}

// The root alone would end with what it found: all it needs lies in the others' memory.
TEST_F(Sleeper, BelievesNothingThatItLoadsFromThere) {
  run([](Communicator& comm, auto input, auto output) { comm.reduce(input, output, 1); });
}

#endif

}  // namespace
}  // namespace tutti
