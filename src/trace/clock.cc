#include "trace/clock.h"

#include <fstream>
#include <string>

namespace tutti::trace {

bool Clock::counter_is_clock() {
#if defined(__x86_64__)
  static const bool kIs = [] {
    std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    std::string name;
    return file >> name && name == "tsc";
  }();
  return kIs;
#else
  return false;
#endif
}

// Of some tries the one in which the counter was read soonest before and after the clock.
ClockPair Clock::pair() const {
  ClockPair best;
  std::uint64_t least = ~std::uint64_t{0};
  for (int i = 0; i < 5; ++i) {
    const std::uint64_t before = now(), ns = steady_ns(), after = now();
    if (after - before >= least) continue;
    least = after - before;
    best = {counts_ ? before + (after - before) / 2 : ns, ns};
  }
  return best;
}

}  // namespace tutti::trace
