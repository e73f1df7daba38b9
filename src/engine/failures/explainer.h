// Makes of what stopped a call the error that its caller reads: who is to blame, for what, where the call was, and what
// became of its output.
//
// A rank that explains has given up: it tells its peers, and where they disagree waits a moment for each of them to say
// what it is in.
//
// Threads: as AsyncCalls::fail(), which asks: with the right to drive, one at a time. The mailbox may be another
// thread's meanwhile, so it is looked at only where one of its messages is explained, or `owns_mailbox` says that it
// may be.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>

#include "engine/call.h"
#include "engine/execute/track.h"
#include "engine/failures/difference.h"
#include "engine/failures/first_error.h"
#include "engine/messages/mailbox.h"
#include "transport/transport.h"

namespace tutti::engine {

// A call that waits in vain: one of the two.
struct Stuck {
  const Track* track = nullptr;
  const Message* message = nullptr;
  Statement against = {};  // a send: the collective that its receiver is in instead

  bool any() const { return track != nullptr || message != nullptr; }
};

class Explainer {
 public:
  // `silence`: of a rank, how long is too long. `owns_mailbox`: whether no thread but the one that asks is at it.
  Explainer(transport::Transport& transport, Mailbox& mailbox, const FirstError& first_error,
            std::chrono::milliseconds silence, std::function<bool()> owns_mailbox);

  Error explain(const Stuck& stuck);
  // What was thrown while the track's call was driven.
  Error explain(const std::exception& thrown, const Track& track) const;
  // A rank gave up while this one was in no call: why the call at hand, numbered if it is a collective, is not begun.
  Error explain_refusal(const Call& call, const Failure& failure);

 private:
  Error explain_track(const Track& track);
  Error explain_message(const Message& message, const Statement& against);
  // The error that says what a diagnosis means; tells the peers first, so that each of them says what it is in.
  // `known`: the difference, where it is known already.
  Error explain(const Diagnosis& diagnosis, const std::string& mine, const std::string& where, const std::string& after,
                const Difference* known = nullptr);
  Error explain_mismatch(const Diagnosis& diagnosis, const std::string& mine, const std::string& after,
                         const Difference& difference) const;
  Error explain_loss(const Diagnosis& diagnosis, const std::string& mine, const std::string& where,
                     const std::string& after) const;
  Error explain_timeout(const Diagnosis& diagnosis, const std::string& mine, const std::string& where,
                        const std::string& after) const;
  // Why a call ends that abort() ended.
  Error explain_abort(const Call& call, const std::string& words, bool touched) const;
  // Where ranks that say the same may still differ, in what they do not say, `about` is the call that all must have
  // spoken of; else 0.
  Difference await_difference(std::uint64_t about);
  // Where a peer says that it received something else than this rank sent it, this rank says what it sent.
  void state_disputed_message();
  void state(int channel, const Statement& statement);
  // What is known of the peer's last collective, as a sentence, or nothing.
  std::string last_words_of(int peer) const;
  // "rank 2, all_reduce #3 of 10 float32, sum: "
  std::string opening(const std::string& words) const;

  transport::Transport* transport_;
  Mailbox* mailbox_;
  const FirstError* first_error_;
  std::chrono::milliseconds silence_;
  std::function<bool()> owns_mailbox_;
};

// What a call fails with that was under way when another one failed with `error`; `words` describe it.
Error error_of_another(const Error& error, const std::string& words, const Call& call, bool touched);
// What was thrown while messages were moved.
Error error_of_messages(const std::exception& thrown);

}  // namespace tutti::engine
