// Messages the way the engine sends them: nothing waits for a peer to read before its own receives have begun.
#pragma once

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "check.h"
#include "transport/harness.h"

namespace tutti::testing {

// Waits the way the engine does: look, prepare, look again, sleep. A sleep that nobody ends is a lost wake-up.
template <class Look>
void await(transport::Transport& transport, Look&& look) {
  while (!look()) {
    const Deadline deadline = soon();
    const std::uint32_t ticket = transport.prepare_sleep();
    if (look()) return;
    transport.sleep(ticket, deadline.left());
    require(!deadline.passed(), "await: slept through to the deadline");
  }
}

inline std::string text_of(std::size_t bytes, int salt) {
  std::string text(bytes, 'x');
  for (std::size_t i = 0; i < bytes; ++i)
    text[i] = static_cast<char>('a' + (i * 7 + static_cast<std::size_t>(salt)) % 23);
  return text;
}

inline std::vector<transport::Piece> one_piece(std::string& text) {
  return {{reinterpret_cast<std::byte*>(text.data()), text.size()}};
}

// `text` in stretches of first, second, ... bytes over and over, some of them empty.
inline std::vector<transport::Piece> cut(std::string& text, const std::vector<std::size_t>& stretches) {
  std::vector<transport::Piece> pieces;
  auto* data = reinterpret_cast<std::byte*>(text.data());
  for (std::size_t at = 0, i = 0; at < text.size(); ++i) {
    const std::size_t bytes = std::min(stretches[i % stretches.size()], text.size() - at);
    pieces.push_back({data + at, bytes});
    at += bytes;
  }
  return pieces;
}

// The messages of one channel, from one thread.
class Talk {
 public:
  Talk(transport::Transport& transport, int channel) : transport_(&transport), channel_(channel) {}

  bool try_send(int peer, std::string text, std::uint64_t fingerprint = 0) {
    told_.insert(peer);
    return transport_->sender(channel_, peer).try_send(one_piece(text), text.size(), fingerprint);
  }

  void send(int peer, const std::string& text, std::uint64_t fingerprint = 0) {
    await(*transport_, [&] {
      push();
      return try_send(peer, text, fingerprint);
    });
  }

  transport::Arrival try_receive(int peer, std::string& text, std::uint64_t fingerprint = 0) {
    return transport_->receiver(channel_, peer).try_receive(one_piece(text), text.size(), fingerprint);
  }

  std::string receive(int peer, std::size_t bytes, std::uint64_t fingerprint = 0) {
    std::string text(bytes, '-');
    await(*transport_, [&] {
      push();
      const transport::Arrival arrival = try_receive(peer, text, fingerprint);
      require(arrival != transport::Arrival::other, "a message of another call");
      return arrival == transport::Arrival::whole;
    });
    return text;
  }

  // Waits until everything sent has left: how every operation ends.
  void flush() {
    await(*transport_, [&] { return push(); });
  }

 private:
  bool push() {
    bool all = true;
    for (const int peer : told_) all = transport_->sender(channel_, peer).try_flush() && all;
    return all;
  }

  transport::Transport* transport_;
  int channel_;
  std::set<int> told_;
};

}  // namespace tutti::testing
