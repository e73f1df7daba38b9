// One connection that this end makes: it dials, proves itself, and tries again where that can help.
//
// Nothing is given up in here: the owner looks at last_end() and failing_since() and decides how long it is worth it.
// A pure state machine; the owner passes on the events of connection().
#pragma once

#include <optional>
#include <string>

#include "rendezvous/handshake.h"
#include "rendezvous/network.h"

namespace tutti::rendezvous {

class Dialer {
 public:
  enum class State : unsigned char { resting, connecting, proving, admitted, refused };

  // The hello's nonce is drawn anew for every attempt.
  Dialer(Network& network, Endpoint to, const Token& token, const Hello& hello)
      : network_(network), to_(std::move(to)), token_(token), hello_(hello) {}

  void dial(Time now);
  void connected(Time now);
  // Returns what came behind the handshake.
  std::span<const std::byte> received(std::span<const std::byte> bytes, Time now);
  void closed(End end, std::string_view words, Time now);
  void tick(Time now);  // may dial again
  Time next_tick() const;
  void hang_up();
  // The next attempt goes there.
  void go_to(Endpoint to) { to_ = std::move(to); }

  const Endpoint& to() const { return to_; }
  State state() const { return state_; }
  ConnectionId connection() const { return connection_; }
  // Where refused: whether and why, in a sentence with its remedy. `us` and `them` as in "rank 3", "the lobby".
  std::string refusal_in_words(const std::string& us, const std::string& them) const;
  // The last attempt's trouble, "no answer" where nothing came at all.
  const std::string& trouble() const { return trouble_; }
  End last_end() const { return last_end_; }
  // Since when every attempt ended without a connection; kNever if the last one did connect.
  Time failing_since() const { return failing_since_; }

 private:
  void rest(Time now);

  Network& network_;
  Endpoint to_;
  Token token_;
  Hello hello_;
  State state_ = State::resting;
  ConnectionId connection_ = 0;
  std::optional<ClientHandshake> handshake_;
  Time next_ = kNever;  // of the next attempt, or of giving this one up
  Time pause_{};
  Time failing_since_ = kNever;
  End last_end_ = End::orderly;
  std::string trouble_ = "no answer";
};

}  // namespace tutti::rendezvous
