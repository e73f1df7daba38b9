// The control plane among peers that say what they like.
#include "fuzz/target.h"
#include "rendezvous/watch.h"

using namespace tutti::rendezvous;
using tutti::fuzz::check;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr int kSize = 6;
  tutti::fuzz::Input input(data, size);
  Recorder network;
  Watch watch(network, {0, kSize, std::chrono::milliseconds(900), {{1, 1}, {2, 2}}}, Time(0));
  watch.enter(kEverybody, {0, 1, 2, 3, 4, 5});
  watch.enter(7, {0, 2, 4});
  Time now{};
  while (!input.empty()) {
    const std::uint8_t what = input.number();
    const ConnectionId id = 1 + what % 3;  // 3 is a stranger
    now += std::chrono::milliseconds(what >> 4);
    if ((what & 4) != 0) watch.tick(now);
    if (!network.closed.contains(id)) watch.received(id, input.bytes(input.number()), now);
    if ((what & 8) != 0) watch.announce(7, what >> 4, {what, now.count() > 0 ? 1u : 0u});
    for (const auto& [group, rank] : watch.take_changes()) {
      check(group == kEverybody || group == 7, "news of a group");
      check(rank >= -1 && rank < kSize && (rank >= 0 || watch.failure(group)), "news of a rank, or a failure");
      if (rank >= 0) check(watch.announced(group, rank).size() <= kMostChannels, "channels");
      const auto failure = watch.failure(group);
      if (!failure) continue;
      check(failure->rank >= 0 && failure->rank < kSize, "who failed");
      check(!failure->died || group == kEverybody || failure->rank % 2 == 0, "a rank of the group");
      check(failure->blamed >= -1 && failure->blamed < kSize, "who is blamed");
      check(failure->cause <= tutti::ErrorCode::system, "why");
    }
  }
  watch.leave(7);
  watch.enter(8, {0, 5});
  watch.goodbye();
  return 0;
}
