// The control plane among peers that say what they like.
#include "fuzz/target.h"
#include "rendezvous/watch.h"

using namespace tutti::rendezvous;
using tutti::fuzz::check;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr int kSize = 3;
  tutti::fuzz::Input input(data, size);
  Recorder network;
  Watch watch(network, {0, kSize, std::chrono::milliseconds(900), {{1, 1}, {2, 2}}}, Time(0));
  Time now{};
  while (!input.empty()) {
    const std::uint8_t what = input.number();
    const ConnectionId id = 1 + what % 3;  // 3 is a stranger
    now += std::chrono::milliseconds(what >> 4);
    if ((what & 4) != 0) watch.tick(now);
    if (!network.closed.contains(id)) watch.received(id, input.bytes(input.number()), now);
    for (const int peer : watch.take_changed()) {
      check(peer == 1 || peer == 2, "news of a peer");
      check(watch.announced(peer).size() <= kMostChannels, "channels");
    }
    if (watch.failure()) {
      check(watch.failure()->rank >= 0 && watch.failure()->rank < kSize, "who failed");
      check(watch.failure()->blamed >= -1 && watch.failure()->blamed < kSize, "who is blamed");
      check(watch.failure()->cause <= tutti::ErrorCode::system, "why");
    }
  }
  watch.goodbye();
  return 0;
}
