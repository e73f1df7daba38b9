// What the fuzz targets share: an input taken apart, a check that ends the process, and honest ends to talk to.
//
// A target feeds a function that reads what comes from outside with bytes of anybody's choice. With clang and
// TUTTI_FUZZ=ON it is a libFuzzer program; otherwise driver.cc replays its corpus and runs mutations of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

#include "rendezvous/handshake.h"
#include "rendezvous/recorder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace tutti::fuzz {

inline void check(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "check failed: %s\n", what);
  std::abort();
}

// The input from its front; zeros behind its end.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : left_(reinterpret_cast<const std::byte*>(data), size) {}

  bool empty() const { return left_.empty(); }
  std::uint8_t number() {
    const auto taken = bytes(1);
    return taken.empty() ? 0 : std::to_integer<std::uint8_t>(taken[0]);
  }
  // At most so many.
  std::span<const std::byte> bytes(std::size_t most) {
    const auto taken = left_.first(std::min(most, left_.size()));
    left_ = left_.subspan(taken.size());
    return taken;
  }
  std::span<const std::byte> rest() { return bytes(left_.size()); }

 private:
  std::span<const std::byte> left_;
};

inline rendezvous::Token token() { return rendezvous::Token::from_hex(std::string(64, '7')); }

inline rendezvous::Hello hello_from(std::uint32_t rank, std::uint32_t to, rendezvous::Purpose purpose) {
  rendezvous::Hello hello;
  hello.purpose = purpose;
  hello.from = rank;
  hello.to = to;
  hello.job = rendezvous::job_hash("job");
  return hello;
}

// A client that holds the token, at a connection of the caller's number.
inline void let_in(rendezvous::Recorder& network, rendezvous::Machine& machine, rendezvous::ConnectionId id,
                   const rendezvous::Hello& hello, rendezvous::Time now) {
  machine.accepted(id, "a rank", now);
  rendezvous::ClientHandshake client(token(), hello);
  machine.received(id, client.hello(), now);
  rendezvous::Bytes proof;
  client.receive(network.sent[id], proof);
  network.sent[id].clear();
  machine.received(id, proof, now);
}

// A server that holds the token, at a connection that the machine has dialled.
inline void admit(rendezvous::Recorder& network, rendezvous::Machine& machine, rendezvous::ConnectionId id,
                  rendezvous::Time now) {
  machine.connected(id, now);
  rendezvous::HelloBytes hello{};
  check(network.sent[id].size() == hello.size(), "a dialler says hello");
  std::copy(network.sent[id].begin(), network.sent[id].end(), hello.begin());
  network.sent[id].clear();
  machine.received(id, rendezvous::challenge_of(token(), hello, rendezvous::Nonce{}), now);
  machine.received(id, rendezvous::welcome(), now);
}

}  // namespace tutti::fuzz
