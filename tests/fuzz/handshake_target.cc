// Both ends of the handshake against anybody: nobody gets in without the token, and a gate holds no more than it may.
#include "fuzz/target.h"
#include "rendezvous/gate.h"

using namespace tutti::rendezvous;
using tutti::fuzz::check;
using tutti::fuzz::Input;

namespace {

constexpr std::size_t kMost = 3;

void at_the_gate(Input& input) {
  Recorder network;
  Gate gate(network, kMost);
  const auto open = [&] { gate.open({tutti::fuzz::token(), job_hash("job"), 0, {}}); };
  if (input.number() % 2 == 0) open();
  Time now{};
  ConnectionId next = 1;
  while (!input.empty()) {
    const std::uint8_t what = input.number();
    const ConnectionId id = 1 + what % 8;
    now += std::chrono::milliseconds(10);
    switch (what >> 4 & 7) {
      case 0: gate.accepted(next++, "a stranger", now); break;
      case 1: gate.closed(id); break;
      case 2: gate.tick(now); break;
      case 3: gate.make_room(); break;
      case 4: open(); break;
      default:
        if (gate.holds(id)) check(!gate.received(id, input.bytes(input.number())), "nobody gets in without the token");
    }
    std::size_t held = 0;
    for (ConnectionId each = 1; each < next; ++each) held += gate.holds(each) ? 1 : 0;
    check(held <= kMost, "a gate holds no more than it may");
  }
  gate.close();
  for (ConnectionId each = 1; each < next; ++each) check(!gate.holds(each), "a closed gate holds nobody");
}

void as_a_client(Input& input) {
  ClientHandshake client(tutti::fuzz::token(), tutti::fuzz::hello_from(1, kLobby, Purpose::lobby));
  Bytes answer;
  while (!input.empty() && client.state() == ClientHandshake::State::going) {
    const auto bytes = input.bytes(1 + input.number() % 80);
    check(client.receive(bytes, answer) <= bytes.size(), "no more is taken than came");
  }
  check(client.state() != ClientHandshake::State::admitted, "nobody is believed to be the server without the token");
  check(answer.size() <= kProofBytes, "one proof at most");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  input.number() % 2 == 0 ? at_the_gate(input) : as_a_client(input);
  return 0;
}
