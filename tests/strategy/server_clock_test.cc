// The clock of a parameter server under seeded schedules: workers of random pace, messages of random delay, workers
// that leave or die. A monitor that counts for itself what has reached the server holds every clock that begins to the
// bound, and every worker that waits to having a reason. Clocks with mistakes planted in them must be found.
#include "strategy/server_clock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <queue>
#include <random>
#include <set>
#include <string>

#include "effort.h"

namespace tutti::strategy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// One server and its workers in simulated time. Messages of a worker arrive in the order they were sent.
template <class Clock>
class Schedule {
 public:
  explicit Schedule(std::uint32_t seed)
      : random_(seed),
        workers_(1 + random_() % 6),
        clocks_(1 + static_cast<std::int64_t>(random_() % 12)),
        bound_(random_() % 4 == 0 ? std::nullopt : std::optional<std::int64_t>(random_() % 4)),
        clock_(workers_, bound_),
        arrived_(workers_),
        waiting_(workers_),
        gone_(workers_) {}

  // What went wrong, in words; empty where nothing did.
  std::string play() {
    for (std::size_t worker = 0; worker < workers_; ++worker) begin(worker, 0);
    while (!events_.empty() && problem_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.at;
      event.what();
    }
    for (std::size_t worker = 0; worker < workers_ && problem_.empty(); ++worker)
      if (!gone_[worker]) problem_ = name(worker) + " waits forever before clock " + std::to_string(arrived_[worker]);
    return problem_;
  }
  // Clocks that began as far ahead as the bound allows.
  int at_the_bound() const { return at_the_bound_; }

 private:
  struct Event {
    double at;
    std::uint64_t number;  // of two at the same time the first one said
    std::function<void()> what;
    bool operator<(const Event& other) const { return at != other.at ? at > other.at : number > other.number; }
  };

  static std::string name(std::size_t worker) { return "worker " + std::to_string(worker); }
  void later(double delay, std::function<void()> what) { events_.push({now_ + delay, ++number_, std::move(what)}); }
  double some() { return std::uniform_real_distribution<double>(0.01, 1)(random_); }
  double work() { return random_() % 8 == 0 ? 10 * some() : some(); }

  // A worker begins a clock: it works, and says so, leaves, or dies, which the server hears later.
  void begin(std::size_t worker, std::int64_t clock) {
    const bool last = clock == clocks_ || random_() % 40 == 0;
    later(work() + some(), [this, worker, last] { last ? leave(worker) : end(worker); });
  }

  void end(std::size_t worker) {
    ++arrived_[worker];
    waiting_[worker] = true;
    let_go(clock_.end(worker));
    if (waiting_[worker] && random_() % 16 == 0)  // one that dies while it waits
      later(some(), [this, worker] {
        if (waiting_[worker]) leave(worker);
      });
  }
  void leave(std::size_t worker) {
    gone_[worker] = true;
    let_go(clock_.leave(worker));
  }

  void let_go(const std::vector<std::size_t>& free) {
    for (const std::size_t worker : free) {
      if (gone_[worker] || !waiting_[worker]) return fail(name(worker) + " is let go, and did not wait");
      waiting_[worker] = false;
      check_bound(worker);
      later(some(), [this, worker, clock = arrived_[worker]] { begin(worker, clock); });
    }
    for (std::size_t worker = 0; worker < workers_; ++worker) check_reason(worker);
  }
  void check_bound(std::size_t worker) {
    if (!bound_) return;
    for (std::size_t other = 0; other < workers_; ++other) {
      if (gone_[other] || other == worker) continue;
      const std::int64_t ahead = arrived_[worker] - arrived_[other];
      at_the_bound_ += ahead == *bound_ ? 1 : 0;
      if (ahead > *bound_)
        fail(name(worker) + " begins clock " + std::to_string(arrived_[worker]) + " while " + name(other) +
             " has ended " + std::to_string(arrived_[other]) + "; the bound is " + std::to_string(*bound_));
    }
  }
  void check_reason(std::size_t worker) {
    if (!waiting_[worker] || gone_[worker]) return;
    for (std::size_t other = 0; bound_ && other < workers_; ++other)
      if (!gone_[other] && arrived_[worker] - arrived_[other] > *bound_) return;
    fail(name(worker) + " waits without a reason");
  }
  void fail(const std::string& why) { problem_ = problem_.empty() ? why : problem_; }

  std::mt19937 random_;
  std::size_t workers_;
  std::int64_t clocks_;
  std::optional<std::int64_t> bound_;
  Clock clock_;
  std::vector<std::int64_t> arrived_;  // ends of clocks at the server
  std::vector<bool> waiting_, gone_;
  std::priority_queue<Event> events_;
  double now_ = 0;
  std::uint64_t number_ = 0;
  int at_the_bound_ = 0;
  std::string problem_;
};

constexpr std::uint32_t kSchedules = 10'000;

TEST(ServerClock, KeepsTheBoundInEverySchedule) {
  int at_the_bound = 0;
  for (std::uint32_t seed = 0; seed < testing::tries(kSchedules); ++seed) {
    Schedule<ServerClock> schedule(seed);
    ASSERT_EQ(schedule.play(), "") << "seed " << seed;
    at_the_bound += schedule.at_the_bound();
  }
  EXPECT_GT(at_the_bound, 1000) << "the bound has been put to use";
}

// ---- Mistakes that the monitor must find.

std::optional<std::int64_t> plus(std::optional<std::int64_t> bound, int more) {
  return bound ? std::optional<std::int64_t>(*bound + more) : std::nullopt;
}
struct OneTooMany : ServerClock {
  OneTooMany(std::size_t workers, std::optional<std::int64_t> bound) : ServerClock(workers, plus(bound, 1)) {}
};
struct OneTooFew : ServerClock {
  OneTooFew(std::size_t workers, std::optional<std::int64_t> bound) : ServerClock(workers, plus(bound, -1)) {}
};
struct WaitsForThoseWhoLeft : ServerClock {
  using ServerClock::ServerClock;
  std::vector<std::size_t> leave(std::size_t) { return {}; }
};
struct LetsGoWhoDiedWaiting : ServerClock {
  using ServerClock::ServerClock;
  std::vector<std::size_t> leave(std::size_t worker) {
    std::vector<std::size_t> free = ServerClock::leave(worker);
    if (waited_.contains(worker)) free.push_back(worker);
    return free;
  }
  std::vector<std::size_t> end(std::size_t worker) {
    std::vector<std::size_t> free = ServerClock::end(worker);
    waited_.insert(worker);
    for (const std::size_t each : free) waited_.erase(each);
    return free;
  }

 private:
  std::set<std::size_t> waited_;
};
struct WakesOnlyTheOneThatSpoke : ServerClock {
  using ServerClock::ServerClock;
  std::vector<std::size_t> end(std::size_t worker) {
    std::vector<std::size_t> free = ServerClock::end(worker);
    std::erase_if(free, [&](std::size_t other) { return other != worker; });
    return free;
  }
};

template <class Mutant>
std::string first_problem() {
  for (std::uint32_t seed = 0; seed < 200; ++seed)
    if (const std::string problem = Schedule<Mutant>(seed).play(); !problem.empty()) return problem;
  return "";
}

TEST(ServerClock, MistakesPlantedInItAreFound) {
  EXPECT_THAT(first_problem<OneTooMany>(), HasSubstr("the bound is"));
  EXPECT_THAT(first_problem<OneTooFew>(), HasSubstr("waits without a reason"));
  EXPECT_THAT(first_problem<WaitsForThoseWhoLeft>(), HasSubstr("waits without a reason"));
  EXPECT_THAT(first_problem<LetsGoWhoDiedWaiting>(), HasSubstr("is let go, and did not wait"));
  EXPECT_THAT(first_problem<WakesOnlyTheOneThatSpoke>(), HasSubstr("waits without a reason"));
}

// ---- By hand.

TEST(ServerClock, OfBoundZeroIsABarrier) {
  ServerClock clock(3, 0);
  EXPECT_THAT(clock.end(1), IsEmpty());
  EXPECT_THAT(clock.end(0), IsEmpty());
  EXPECT_THAT(clock.end(2), ElementsAre(0, 1, 2));
  EXPECT_EQ(clock.slowest(), 1);
}

TEST(ServerClock, LetsTheQuickestBeAheadByItsBound) {
  ServerClock clock(2, 2);
  EXPECT_THAT(clock.end(0), ElementsAre(0));
  EXPECT_THAT(clock.end(0), ElementsAre(0));
  EXPECT_THAT(clock.end(0), IsEmpty());
  EXPECT_TRUE(clock.waits(0));
  EXPECT_THAT(clock.end(1), ElementsAre(0, 1));
}

TEST(ServerClock, WithoutABoundNobodyWaits) {
  ServerClock clock(2, std::nullopt);
  for (int i = 0; i < 1000; ++i) ASSERT_THAT(clock.end(1), ElementsAre(1));
}

TEST(ServerClock, WhoDiesWhileItWaitsIsNotLetGo) {
  ServerClock clock(3, 0);
  EXPECT_THAT(clock.end(0), IsEmpty());
  EXPECT_THAT(clock.leave(0), IsEmpty());
  EXPECT_THAT(clock.end(1), IsEmpty());
  EXPECT_THAT(clock.end(2), ElementsAre(1, 2));
}

TEST(ServerClock, WhoLeavesIsWaitedForNoMore) {
  ServerClock clock(3, 0);
  EXPECT_THAT(clock.end(0), IsEmpty());
  EXPECT_THAT(clock.end(2), IsEmpty());
  EXPECT_THAT(clock.leave(1), ElementsAre(0, 2));
  EXPECT_EQ(clock.present(), 2U);
  clock.leave(0);
  clock.leave(2);
  EXPECT_EQ(clock.slowest(), std::nullopt);
}

}  // namespace
}  // namespace tutti::strategy
