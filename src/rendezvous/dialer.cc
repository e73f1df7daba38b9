#include "rendezvous/dialer.h"

#include <algorithm>

namespace tutti::rendezvous {
namespace {

using std::chrono::milliseconds;
constexpr Time kFirstPause = milliseconds(10);
constexpr Time kLongestPause = milliseconds(250);
// Longer than the server's limit, so that whoever is admitted never hangs up by mistake.
constexpr Time kAttemptTime = std::chrono::seconds(10);

}  // namespace

void Dialer::dial(Time now) {
  network_.random(hello_.nonce);
  handshake_.emplace(token_, hello_);
  connection_ = network_.connect(to_);
  state_ = State::connecting;
  next_ = now + kAttemptTime;
}

void Dialer::connected(Time now) {
  state_ = State::proving;
  failing_since_ = kNever;
  trouble_ = "it accepts connections but does not answer";
  next_ = now + kAttemptTime;
  network_.send(connection_, handshake_->hello());
}

std::span<const std::byte> Dialer::received(std::span<const std::byte> bytes, Time now) {
  Bytes answer;
  const std::size_t used = handshake_->receive(bytes, answer);
  if (!answer.empty()) network_.send(connection_, answer);
  if (handshake_->state() == ClientHandshake::State::admitted) {
    state_ = State::admitted;
    next_ = kNever;
    pause_ = Time(0);
  } else if (handshake_->state() == ClientHandshake::State::refused) {
    network_.close(connection_);
    if (handshake_->refusal() == Refusal::too_late) {
      trouble_ = "it is busy with too many connections";
      rest(now);
    } else {
      state_ = State::refused;
      next_ = kNever;
    }
  }
  return bytes.subspan(used);
}

void Dialer::closed(End end, std::string_view words, Time now) {
  last_end_ = end;
  if (state_ == State::connecting) {
    if (failing_since_ == kNever) failing_since_ = now;
    trouble_ = words;
  } else {
    trouble_ = "it ended the connection" + (words.empty() ? "" : ": " + std::string(words));
  }
  rest(now);
}

void Dialer::rest(Time now) {
  state_ = State::resting;
  connection_ = 0;
  pause_ = std::clamp(2 * pause_, kFirstPause, kLongestPause);
  next_ = now + pause_;
}

void Dialer::tick(Time now) {
  if (now < next_) return;
  if (state_ != State::resting) {
    network_.close(connection_);
    if (state_ == State::connecting) trouble_ = "no answer";
    rest(now);
  }
  dial(now);
}

Time Dialer::next_tick() const { return next_; }

void Dialer::hang_up() {
  if (connection_ != 0 && state_ != State::refused) network_.close(connection_);
  connection_ = 0;
  next_ = kNever;
}

std::string Dialer::refusal_in_words(const std::string& us, const std::string& them) const {
  const std::string who = them + " at " + to_;
  switch (handshake_->refusal()) {
    case Refusal::wrong_token:
      return "the token of " + us + " and that of " + who + " differ; give all ranks the same TUTTI_TOKEN_FILE";
    case Refusal::other_job:
      return who + " belongs to another job than " + us +
             "; set TUTTI_JOB alike on all ranks, or TUTTI_RENDEZVOUS to " + "the lobby of this job";
    case Refusal::other_version:
      return us + " speaks version " + std::to_string(kProtocolVersion) + " of Tutti's protocol and " + who +
             " version " + std::to_string(handshake_->server_version()) + "; install one version on all hosts";
    case Refusal::not_tutti:
      return us + " was to meet " + who +
             ", but what listens there is not Tutti; see whether another program has the " +
             "port, or set TUTTI_RENDEZVOUS (--rendezvous) to a free one";
    default: break;
  }
  return us + " was refused by " + who + " (" + std::string(in_words(handshake_->refusal())) +
         "); start all ranks anew with one world size and one rank each";
}

}  // namespace tutti::rendezvous
