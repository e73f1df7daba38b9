// A rank on its way into the group, at a lobby that holds the token and says what it likes.
#include "fuzz/target.h"
#include "rendezvous/joiner.h"

using namespace tutti::rendezvous;
using tutti::fuzz::check;

namespace {

constexpr int kSize = 3, kRank = 1;

JoinerOptions options() {
  JoinerOptions options;
  options.rank = kRank;
  options.job = "job";
  options.lobby = "10.0.0.9:1";
  options.token = tutti::fuzz::token();
  options.deadline = std::chrono::seconds(60);
  options.join = {kSize, tutti::TransportKind::automatic, 2, {"host", "id1", "10.0.0.1:1", "unix:@1", 101}, {}};
  return options;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tutti::fuzz::Input input(data, size);
  Recorder network;
  Joiner joiner(network, options(), Time(0));
  const ConnectionId lobby = network.dialled.begin()->first;
  tutti::fuzz::admit(network, joiner, lobby, Time(1));
  Time now{};
  ConnectionId next = 1;
  while (!input.empty() && !joiner.over()) {
    const std::uint8_t what = input.number();
    now += std::chrono::milliseconds(50);
    switch (what >> 4 & 7) {
      case 0: joiner.tick(now); break;
      case 1: {
        const auto purpose = static_cast<Purpose>(what & 3);
        tutti::fuzz::let_in(network, joiner, next++, tutti::fuzz::hello_from(2, kRank, purpose), now);
        break;
      }
      case 2: joiner.received(1 + what % 4, input.bytes(input.number()), now); break;
      case 3:
        if (network.dialled.contains(lobby + 1 + what % 4) && !network.closed.contains(lobby + 1 + what % 4))
          joiner.closed(lobby + 1 + what % 4, End::refused, "", now);
        break;
      case 4: joiner.received(lobby, frame_of(Word::go), now); break;
      default: joiner.received(lobby, input.bytes(input.number()), now);
    }
  }
  if (joiner.state() == Joiner::State::failed)
    check(joiner.verdict().peer >= -1 && joiner.verdict().peer < kSize, "the culprit's rank");
  if (joiner.state() == Joiner::State::done) {
    for (const auto& standing : joiner.links()) {
      check(standing.connection != 0, "all links stand");
      check(standing.link.channel < 2 && standing.link.peer >= 0 && standing.link.peer < kSize, "links that are due");
    }
  }
  return 0;
}
