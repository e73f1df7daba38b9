// The gate of a listening place: connections whose other end has not yet proved who it is.
//
// Whatever comes costs little: a few hundred bytes each, at most `most` at once (the oldest gives way, of those first
// that have not said who they are), two seconds each, and never more bytes than a handshake has. Strangers are sent
// away, counted, and forgotten; where descriptors run short they are the first to go, and none outlives the gate.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>

#include "rendezvous/handshake.h"
#include "rendezvous/network.h"

namespace tutti::rendezvous {

inline constexpr Time kHandshakeTime = std::chrono::seconds(2);
// That a gate holds beside those it expects.
inline constexpr std::size_t kStrangers = 32;

class Gate {
 public:
  struct Terms {
    Token token;
    JobHash job{};
    std::uint32_t self = kLobby;
    std::function<std::optional<Refusal>(const Hello&)> judge;  // what else keeps a client out
    std::function<bool(const Hello&)> comes_early = {};         // it waits until the gate opens for it, too
  };

  Gate(Network& network, std::size_t most) : network_(network), most_(most) {}

  // Until it opens, those who come wait. It may open again, on other terms.
  void open(Terms terms);
  // Nobody is expected any more: whoever waits is dropped, and so is whoever comes.
  void close();
  // Whoever has not said yet what it wants is dropped.
  void drop_silent();
  void set_most(std::size_t most) { most_ = most; }

  void accepted(ConnectionId connection, std::string_view from, Time now);
  bool holds(ConnectionId connection) const { return waiting_.contains(connection); }
  // Drops the half that would give way first, because descriptors are short; false where nobody waits.
  bool make_room();
  // The hello of a client that has proved itself: it has been told Welcome, and its connection left the gate.
  std::optional<Hello> received(ConnectionId connection, std::span<const std::byte> bytes);
  void closed(ConnectionId connection);
  void tick(Time now);
  Time next_tick() const;

  // Whether somebody was sent away for this reason.
  bool saw(Refusal why) const { return (reasons_ >> static_cast<unsigned>(why) & 1) != 0; }
  // "3 connections were refused, the last from 10.0.0.7:4321: wrong token", or nothing.
  std::string refusals() const;

 private:
  struct Waiting {
    std::string from;
    HelloBytes hello{};
    Nonce nonce{};
    std::array<std::byte, kProofBytes> proof{};
    std::size_t length = 0;  // of hello, then of proof
    bool challenged = false;
  };

  std::optional<Refusal> judge(const Waiting& waiting) const;
  void answer_hello(ConnectionId connection, Waiting& waiting);
  void refuse(ConnectionId connection, Refusal why);
  void send_away(ConnectionId connection);  // its time is over, or there are too many
  void note(const Waiting& waiting, Refusal why);
  // Who gives way where there are too many; somebody waits.
  ConnectionId first_to_go();
  static bool is_silent(const Waiting& waiting) { return !waiting.challenged && waiting.length < kHelloBytes; }

  Network& network_;
  std::size_t most_;
  bool closed_ = false;
  std::optional<Terms> terms_;
  std::map<ConnectionId, Waiting> waiting_;
  std::deque<std::pair<Time, ConnectionId>> order_;  // by arrival; may name connections that have left
  std::size_t refused_ = 0;
  std::uint32_t reasons_ = 0;  // one bit each
  std::string last_refusal_;
};

}  // namespace tutti::rendezvous
