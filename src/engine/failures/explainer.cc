#include "engine/failures/explainer.h"

#include <algorithm>
#include <utility>

#include "base/rank_list.h"
#include "engine/failures/diagnosis.h"

namespace tutti::engine {
namespace {

// How long a failing rank waits for the others to say what they called.
constexpr std::chrono::milliseconds kHearing{1000};

// What ranks say of messages stands behind what they say of collectives.
constexpr int kMessageChannel = kCollectiveChannels;

std::string words_about_output(const Call& call, bool touched) {
  if (call.output == nullptr) return {};
  return touched ? "; the output of this rank is undefined" : "; the output of this rank is as it was";
}

// Why the others have lost a rank that is alive.
std::string words_of_own_loss(Loss loss) {
  return std::string("the others have lost this rank: ") +
         (loss == Loss::silent ? "they heard nothing of it for too long, because it was stopped or cut off"
                               : "the network between them has failed");
}

}  // namespace

Error error_of_another(const Error& error, const std::string& words, const Call& call, bool touched) {
  const std::string output = call.output == nullptr ? ""
                             : touched              ? ", its output is undefined"
                                                    : ", its output is as it was";
  return {error.code(), words + " was given up" + output + ": " + error.what(), error.peer()};
}

// What is no Error comes from the standard library: there is no memory left.
Error error_of_messages(const std::exception& thrown) {
  if (const auto* known = dynamic_cast<const Error*>(&thrown)) return *known;
  return {ErrorCode::system, std::string("a message: ") + thrown.what()};
}

Explainer::Explainer(transport::Transport& transport, Mailbox& mailbox, const FirstError& first_error,
                     std::chrono::milliseconds silence, std::function<bool()> owns_mailbox)
    : transport_(&transport),
      mailbox_(&mailbox),
      first_error_(&first_error),
      silence_(silence),
      owns_mailbox_(std::move(owns_mailbox)) {}

std::string Explainer::opening(const std::string& words) const {
  return rank_name(transport_->rank()) + ", " + words + ": ";
}

Error Explainer::explain(const Stuck& stuck) {
  return stuck.track != nullptr ? explain_track(*stuck.track) : explain_message(*stuck.message, stuck.against);
}

Error Explainer::explain_track(const Track& track) {
  const Call& call = track.call();
  if (first_error_->aborted_here()) return explain_abort(call, call.describe(), track.touched_output());
  const Diagnosis& diagnosis = track.diagnosis();
  return explain(diagnosis, opening(call.describe()), words_of(diagnosis.blocked, track.program()),
                 words_about_output(call, track.touched_output()));
}

Error Explainer::explain_message(const Message& message, const Statement& against) {
  if (first_error_->aborted_here()) return explain_abort(*message.call, message.describe(), message.touched_output());
  Difference known;
  Statement mine;
  Diagnosis diagnosis = mailbox_->diagnosis();
  if (against.sequence != 0) {
    mine = message.call->statement();
    known = crossing(mine, against);
    diagnosis.kind = Diagnosis::Kind::mismatch;
    diagnosis.blocked = {Blocked::On::credit, message.call->peer};
  } else if (const Mailbox::Ends* ends = mailbox_->differing_ends()) {
    mine = ends->receiver;
    known = difference_between(ends->sender, ends->receiver);
  }
  // Before the peers hear that this rank gives up: they ask at once.
  if (!known.words.empty()) state(kMessageChannel, mine);
  return explain(diagnosis, opening(message.describe()), mailbox_->where(message),
                 words_about_output(*message.call, message.touched_output()), known.words.empty() ? nullptr : &known);
}

Error Explainer::explain_abort(const Call& call, const std::string& words, bool touched) const {
  return {ErrorCode::aborted,
          opening(words) + "this process aborted the communicator" + words_about_output(call, touched)};
}

Error Explainer::explain(const std::exception& thrown, const Track& track) const {
  const auto* const error = dynamic_cast<const Error*>(&thrown);
  // What is no Error comes from the standard library: there is no memory left.
  const ErrorCode code = error == nullptr ? ErrorCode::system : error->code();
  return {code,
          opening(track.call().describe()) + thrown.what() + words_about_output(track.call(), track.touched_output()),
          error == nullptr ? -1 : error->peer()};
}

Error Explainer::explain_refusal(const Call& call, const Failure& failure) {
  // Others want to know what this rank would have called.
  if (!call.is_message()) state(static_cast<int>(call.sequence % kCollectiveChannels), call.statement());
  return explain(Diagnosis::of(failure), opening(call.describe()), "the call was not begun",
                 words_about_output(call, false));
}

Error Explainer::explain(const Diagnosis& diagnosis, const std::string& mine, const std::string& where,
                         const std::string& after, const Difference* known) {
  const ErrorCode code = diagnosis.code();
  const int rank = transport_->rank();
  const int culprit = diagnosis.culprit(rank);
  const Failure& failure = diagnosis.failure;
  transport_->abort(culprit, code);
  if (code == ErrorCode::mismatch) {
    return explain_mismatch(diagnosis, mine, after,
                            known != nullptr ? *known : await_difference(diagnosis.uneven ? diagnosis.sequence : 0));
  }
  if (code == ErrorCode::timeout) return explain_timeout(diagnosis, mine, where, after);
  // Whoever gave up because of this rank is no lost rank itself.
  const bool blamed = diagnosis.kind == Diagnosis::Kind::failure && !failure.died && failure.blamed == rank;
  if (code == ErrorCode::peer_lost && !blamed) return explain_loss(diagnosis, mine, where, after);
  if (!failure.words.empty()) return {code, mine + failure.words + " (" + where + ")" + after};
  const bool blames = failure.blamed >= 0;
  return {code,
          mine + rank_name(failure.rank) + " gave up after an error (" + std::string(name_of(failure.cause)) + ")" +
              (blames ? ", blaming " + rank_name(failure.blamed) : "") + " (" + where + ")" + after,
          culprit};
}

Error Explainer::explain_mismatch(const Diagnosis& diagnosis, const std::string& mine, const std::string& after,
                                  const Difference& difference) const {
  const int culprit = diagnosis.culprit(transport_->rank());
  const std::string peer = rank_name(culprit);
  const int odd = difference.odd >= 0 ? difference.odd : culprit;
  const bool here = diagnosis.kind == Diagnosis::Kind::mismatch;
  if (diagnosis.uneven && difference.words.empty() && (difference.silent == 0 || !here)) {
    return {
        ErrorCode::mismatch,
        mine +
            (here ? "what " + peer + " sends is not as long as this rank expects"
                  : rank_name(diagnosis.failure.rank) + " found that what it is sent is not as long as it expects") +
            "; both must pass the same count" + after,
        odd};
  }
  const char* remedy = difference.of_message ? "; the two ends of a message must agree on its type and count; only "
                                               "a receive of up to so many may be of more"
                                             : "; all ranks must make the same calls in the same order";
  return {ErrorCode::mismatch,
          mine +
              (difference.words.empty() ? peer + " made another call at this point, or runs another program for it"
                                        : difference.words) +
              remedy + after,
          odd};
}

Error Explainer::explain_loss(const Diagnosis& diagnosis, const std::string& mine, const std::string& where,
                              const std::string& after) const {
  const ErrorCode code = ErrorCode::peer_lost;
  const int culprit = diagnosis.culprit(transport_->rank());
  const Failure& failure = diagnosis.failure;
  const bool told = diagnosis.kind == Diagnosis::Kind::failure;
  const bool hearsay = told && !failure.died && failure.rank != culprit;
  const bool departed = diagnosis.kind == Diagnosis::Kind::departed || (hearsay && failure.left);
  if (departed && culprit < 0) return {code, mine + "all other ranks have left the group (" + where + ")" + after};
  if (told && failure.died && failure.rank == transport_->rank())
    return {code, mine + words_of_own_loss(failure.loss) + " (" + where + ")" + after, culprit};
  const std::string finder = hearsay ? rank_name(failure.rank) : "this rank";
  std::string what = words_of(told ? failure.loss : Loss::ended, silence_);
  if (hearsay) what += ", as " + finder + " found";
  if (departed) what = " has left the group: it made fewer calls than " + finder;
  return {code, mine + rank_name(culprit) + what + " (" + where + ")" + after, culprit};
}

Error Explainer::explain_timeout(const Diagnosis& diagnosis, const std::string& mine, const std::string& where,
                                 const std::string& after) const {
  const int culprit = diagnosis.culprit(transport_->rank());
  const std::string question = culprit < 0 ? "has any rank sent it?"
                               : diagnosis.absent.empty()
                                   ? "is " + rank_name(culprit) + " in the same call?"
                                   : rank_names(diagnosis.absent) + (diagnosis.absent.size() == 1 ? " has" : " have") +
                                         " not made this call, as far as known.";
  return {ErrorCode::timeout,
          mine + where + ", and nothing moved for " + std::to_string(diagnosis.timeout.count()) + " ms; " + question +
              last_words_of(culprit) + " Options::timeout or TUTTI_TIMEOUT_MS sets the deadline" + after,
          culprit};
}

// Other ranks state their calls as soon as they hear that somebody gave up.
Difference Explainer::await_difference(std::uint64_t about) {
  const Stated stated = [&](int channel, int rank) { return transport::stated(*transport_->flags(channel, rank)); };
  const Deadline deadline = Deadline::after(kHearing);
  for (;;) {
    const std::uint32_t ticket = transport_->prepare_sleep();
    if (owns_mailbox_()) state_disputed_message();
    const Difference difference = find_difference(transport_->size(), kCollectiveChannels, stated, about);
    const bool known = difference.silent == 0 && (about != 0 || !difference.words.empty());
    if (known || deadline.passed()) return difference;
    transport_->sleep(ticket, std::min<std::chrono::nanoseconds>(deadline.left(), std::chrono::milliseconds(10)));
  }
}

void Explainer::state_disputed_message() {
  const int rank = transport_->rank();
  for (int peer = 0; peer < transport_->size(); ++peer) {
    const Statement theirs = transport::stated(*transport_->flags(kMessageChannel, peer));
    if (!is_sound(theirs, rank, peer)) continue;
    const Statement mine = mailbox_->sent(peer, theirs.sequence);
    const bool said = mine == transport::stated(*transport_->flags(kMessageChannel, rank));
    if (mine.sequence != 0 && mine != theirs && !said) return state(kMessageChannel, mine);
  }
}

void Explainer::state(int channel, const Statement& statement) {
  transport::state(*transport_->flags(channel, transport_->rank()), statement);
  transport_->announce(channel);
}

std::string Explainer::last_words_of(int peer) const {
  Statement last;
  for (int channel = 0; peer >= 0 && channel < kCollectiveChannels; ++channel) {
    const Statement statement = transport::stated(*transport_->flags(channel, peer));
    if (statement.sequence > last.sequence) last = statement;
  }
  return last.sequence == 0 ? "" : " Its last collective, as far as known, is " + words_of(last) + ".";
}

}  // namespace tutti::engine
