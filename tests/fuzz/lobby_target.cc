// A lobby among ranks that hold the token and say what they like.
#include "fuzz/target.h"
#include "rendezvous/lobby.h"

using namespace tutti::rendezvous;
using tutti::fuzz::check;

namespace {

constexpr int kSize = 2;

Join join_of(int rank) {
  const std::string number = std::to_string(rank);
  return {kSize,
          tutti::TransportKind::automatic,
          2,
          {"host", "id", "10.0.0." + number + ":1", "unix:@" + number, 100 + rank},
          {}};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tutti::fuzz::Input input(data, size);
  Recorder network;
  LobbyOptions options;
  options.size = kSize;
  options.job = "job";
  options.token = tutti::fuzz::token();
  options.again = input.number() % 2 == 1;
  options.deadline = std::chrono::seconds(60);
  Lobby lobby(network, options, Time(0));
  Time now{};
  ConnectionId next = 1;
  while (!input.empty()) {
    const std::uint8_t what = input.number();
    const ConnectionId id = 1 + what % 8;
    const int rank = what % 4 - 1;
    now += std::chrono::milliseconds(50);
    switch (what >> 4 & 7) {
      case 0:
        tutti::fuzz::let_in(network, lobby, next++,
                            tutti::fuzz::hello_from(static_cast<std::uint32_t>(rank), kLobby, Purpose::lobby), now);
        break;
      case 1: lobby.closed(id, End::broken, "", now); break;
      case 2: lobby.tick(now); break;
      case 3: lobby.note_death(rank, "was killed"); break;
      case 4: lobby.received(id, frame_of(join_of(rank & 1)), now); break;
      case 5: lobby.received(id, frame_of(Word::ready), now); break;
      default: lobby.received(id, input.bytes(input.number()), now);
    }
    const auto& verdict = lobby.verdict();
    check(!verdict || (verdict->peer >= -1 && verdict->peer < kSize), "the culprit's rank");
  }
  return 0;
}
