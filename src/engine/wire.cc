#include "engine/wire.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/engine.h"
#include "engine/round_trips.h"

namespace tutti::engine {
namespace {

using Clock = std::chrono::steady_clock;

// Switches let the first bytes through at once, so that only what takes a while tells how quick they are for long.
constexpr std::uint64_t kFirstBytes = 16 << 10, kMostBytes = 4 << 20;
constexpr std::chrono::milliseconds kLongEnough{8};
constexpr int kTurns = 2;  // the quicker one counts: the other may have waited for a core
constexpr int kTag = 0;    // nobody else has letters yet

// The leader's say whether another one comes; the first waits for the peer.
double measure_message(Engine& engine, int peer, bool leads) {
  RoundTrips trips;
  std::uint64_t word = 1;
  const Letter there{leads ? Direction::send : Direction::receive, peer, &word, sizeof word};
  const Letter back{leads ? Direction::receive : Direction::send, peer, &word, sizeof word};
  for (bool first = true; word != 0; first = false) {
    if (leads) word = trips.enough() ? 0 : 1;
    const Clock::time_point sent = Clock::now();
    engine.carry({&there, 1}, kTag);
    engine.carry({&back, 1}, kTag);
    if (!first) trips.add(Clock::now() - sent);
  }
  return trips.quickest().count() / 2;
}

double measure_bytes(Engine& engine, int peer, bool leads) {
  std::vector<std::byte> out, in;
  std::chrono::duration<double> took{0};
  for (std::uint64_t bytes = kFirstBytes, measured = 0;; bytes *= 4) {
    std::uint64_t next = took < kLongEnough && measured < kMostBytes ? bytes : 0;
    // Both ways: when it is there, so is the peer.
    std::uint64_t heard = 0;
    const Letter announcements[] = {{Direction::send, peer, &next, sizeof next},
                                    {Direction::receive, peer, &heard, sizeof heard}};
    engine.carry(announcements, kTag);
    if (!leads) next = heard;
    if (next == 0) return leads ? took.count() / static_cast<double>(measured) : 0;
    out.resize(next);
    in.resize(next);
    const Letter letters[] = {{Direction::send, peer, out.data(), next}, {Direction::receive, peer, in.data(), next}};
    took = std::chrono::hours(1);
    for (int turn = 0; turn < kTurns; ++turn) {
      const Clock::time_point begin = Clock::now();
      engine.carry(letters, kTag);
      took = std::min<std::chrono::duration<double>>(took, Clock::now() - begin);
    }
    measured = next;
  }
}

}  // namespace

choice::Wire measure_wire(Engine& engine, int peer, bool leads) {
  const double message = measure_message(engine, peer, leads);
  return {.seconds_per_byte = measure_bytes(engine, peer, leads), .message = message};
}

}  // namespace tutti::engine
