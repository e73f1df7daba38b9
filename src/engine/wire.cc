#include "engine/wire.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/engine.h"

namespace tutti::engine {
namespace {

using Clock = std::chrono::steady_clock;

// Switches let the first bytes through at once, so that only what takes a while tells how quick they are for long.
constexpr std::uint64_t kFirstBytes = 16 << 10, kMostBytes = 4 << 20;
constexpr std::chrono::milliseconds kLongEnough{8};
constexpr int kTag = 0;  // nobody else has letters yet

}  // namespace

double measure_wire(Engine& engine, int peer, bool leads) {
  std::vector<std::byte> out, in;
  std::chrono::duration<double> took{0};
  for (std::uint64_t bytes = kFirstBytes, measured = 0;; bytes *= 4) {
    std::uint64_t next = took < kLongEnough && measured < kMostBytes ? bytes : 0;
    const Letter announcement{leads ? Direction::send : Direction::receive, peer, &next, sizeof next};
    engine.carry({&announcement, 1}, kTag);
    if (next == 0) return leads ? took.count() / static_cast<double>(measured) : 0;
    out.resize(next);
    in.resize(next);
    const Letter letters[] = {{Direction::send, peer, out.data(), next}, {Direction::receive, peer, in.data(), next}};
    const Clock::time_point begin = Clock::now();
    engine.carry(letters, kTag);
    took = Clock::now() - begin;
    measured = next;
  }
}

}  // namespace tutti::engine
