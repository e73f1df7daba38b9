// Waiting: how soon a rank that finds nothing to do looks for a dead peer.
#include "engine/waiter.h"

#include <gtest/gtest.h>

#include <thread>

#include "engine/factory.h"
#include "transport/memory/memory_transport.h"

namespace tutti::engine {
namespace {

// Beside busy programs every yield takes a time slice; here every look after the spin does.
TEST(Waiter, DoesNotYieldForLong) {
  transport::MemoryTransport transport(std::move(make_threads_group(1).front()), 1,
                                       Deadline::after(std::chrono::seconds(5)));
  constexpr int kQuick = 1100;  // more than the spin, fewer than spin and yields
  int looks = 0;
  const auto look = [&] {
    if (++looks > kQuick) std::this_thread::sleep_for(std::chrono::milliseconds(3));
    return Advance::stuck;
  };
  EXPECT_EQ(Waiter(transport).until_finished(look, [] { return true; }), Waiter::Outcome::hopeless);
  EXPECT_LT(looks, kQuick + 10);
}

// A peer may publish what this rank waits for, and then fail, between a look and the question whether it failed.
TEST(Waiter, TakesWhatCameBeforeTheFailure) {
  transport::MemoryTransport transport(std::move(make_threads_group(1).front()), 1,
                                       Deadline::after(std::chrono::seconds(5)));
  bool failed = false;
  const auto look = [&] { return failed ? Advance::finished : Advance::stuck; };
  const auto hopeless = [&] { return failed = true; };
  EXPECT_EQ(Waiter(transport).until_finished(look, hopeless), Waiter::Outcome::finished);
}

}  // namespace
}  // namespace tutti::engine
