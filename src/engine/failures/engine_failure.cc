// How an engine fails: what is recorded, who is told, and the words of the error.
#include <utility>

#include "base/rank_list.h"
#include "engine/engine.h"
#include "engine/failures/difference.h"

namespace tutti::engine {
namespace {

// How long a failing rank waits for the others to say what they called.
constexpr std::chrono::milliseconds kHearing{1000};

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

// What a call fails with that was under way when another one failed.
Error error_of_another(const Error& error, const std::string& words, const Call& call, bool touched) {
  const std::string output = call.output == nullptr ? ""
                             : touched              ? ", its output is undefined"
                                                    : ", its output is as it was";
  return {error.code(), words + " was given up" + output + ": " + error.what(), error.peer()};
}

}  // namespace

void Engine::throw_forked() {
  throw Error(ErrorCode::invalid_argument,
              "this communicator belongs to the process that was forked: its peers would take this child for the rank; "
              "let the child join a group of its own with init(), or fork before the group is made");
}

void Engine::throw_failed() {
  const std::lock_guard lock(error_mutex_);
  // What the progress thread found is news to the caller.
  if (!told_->exchange(true)) throw Error(*error_);
  throw Error(ErrorCode::aborted, std::string("this communicator failed earlier: ") + error_->what(), error_->peer());
}

Error Engine::fail_from_caller(const Error& error) {
  const Seat seat(*this);
  told_->store(true);
  return fail(error);
}

Error Engine::fail_from_caller(const Stuck& stuck) {
  const Seat seat(*this);
  told_->store(true);
  return fail(stuck);
}

void Engine::abort() {
  {
    const std::lock_guard lock(error_mutex_);
    if (error_) return;  // it has failed already, and whoever is in a call will hear of it
    error_ = Error(ErrorCode::aborted, rank_name(rank()) + ": this process aborted the communicator");
    told_->store(true);
  }
  aborted_here_.store(true, std::memory_order_release);
  aborted_.store(true, std::memory_order_release);
  transport_->notify_self();
}

Error Engine::aborted_here(const Call& call, const std::string& words, bool touched) const {
  return {ErrorCode::aborted, rank_name(rank()) + ", " + words + ": this process aborted the communicator" +
                                  words_about_output(call, touched)};
}

Error Engine::fail(const Stuck& stuck) {
  const bool here = aborted_here_.load(std::memory_order_acquire);
  if (stuck.track != nullptr) {
    const Track& track = *stuck.track;
    if (here)
      return fail(aborted_here(track.call(), track.call().describe(), track.touched_output()), running_on(track));
    const Diagnosis& diagnosis = track.diagnosis();
    const std::string mine = rank_name(rank()) + ", " + track.call().describe() + ": ";
    const Error error = explain(diagnosis, mine, words_of(diagnosis.blocked, track.program()),
                                words_about_output(track.call(), track.touched_output()));
    return fail(error, running_on(track));
  }
  const Message& message = *stuck.message;
  if (here) return fail(aborted_here(*message.call, message.describe(), message.touched_output()), message.owner);
  Difference known;
  Statement mine;
  Diagnosis diagnosis = mailbox_.diagnosis();
  if (stuck.against.sequence != 0) {
    mine = message.call->statement();
    known = crossing(mine, stuck.against);
    diagnosis.kind = Diagnosis::Kind::mismatch;
    diagnosis.blocked = {Blocked::On::credit, message.call->peer};
  } else if (const Mailbox::Ends* ends = mailbox_.differing_ends()) {
    mine = ends->receiver;
    known = difference_between(ends->sender, ends->receiver);
  }
  if (!known.words.empty()) {
    // Before the peers hear that this rank gives up: they ask at once.
    transport::state(*transport_->flags(kTracks, rank()), mine);
    transport_->announce(kTracks);
  }
  const Error error =
      explain(diagnosis, rank_name(rank()) + ", " + message.describe() + ": ", mailbox_.where(message),
              words_about_output(*message.call, message.touched_output()), known.words.empty() ? nullptr : &known);
  return fail(error, message.owner);
}

Error Engine::fail_from_caller(const std::exception& thrown, const Track& track) {
  const Seat seat(*this);
  told_->store(true);
  return fail(thrown, track);
}

Error Engine::fail(const std::exception& thrown, const Track& track) {
  const auto* const error = dynamic_cast<const Error*>(&thrown);
  // What is no Error comes from the standard library: there is no memory left.
  const ErrorCode code = error == nullptr ? ErrorCode::system : error->code();
  return fail(Error(code,
                    rank_name(rank()) + ", " + track.call().describe() + ": " + thrown.what() +
                        words_about_output(track.call(), track.touched_output()),
                    error == nullptr ? -1 : error->peer()),
              running_on(track));
}

void Engine::refuse(const Call& call, std::optional<Failure> known) {
  const Seat seat(*this);
  require_alive();  // the progress thread may have given up meanwhile, and has said why
  told_->store(true);
  const auto failure = known ? known : transport_->failure();
  // Others want to know what this rank would have called.
  Call refused = call;
  if (!call.is_message()) {
    refused.sequence = next_collective_;
    const int channel = static_cast<int>(next_collective_ % kTracks);
    transport::state(*transport_->flags(channel, rank()), refused.statement());
    transport_->announce(channel);
  }
  const std::string mine = rank_name(rank()) + ", " + refused.describe() + ": ";
  throw fail(explain(Diagnosis::of(failure.value_or(Failure{})), mine, "the call was not begun",
                     words_about_output(call, false)));
}

Error Engine::explain(const Diagnosis& diagnosis, const std::string& mine, const std::string& where,
                      const std::string& after, const Difference* known) {
  const ErrorCode code = diagnosis.code();
  const int culprit = diagnosis.culprit(rank());
  const std::string peer = rank_name(culprit);
  const Failure& failure = diagnosis.failure;
  transport_->abort(culprit, code);
  switch (code) {
    case ErrorCode::mismatch: {
      const Difference difference =
          known != nullptr ? *known : await_difference(diagnosis.uneven ? diagnosis.sequence : 0);
      const int odd = difference.odd >= 0 ? difference.odd : culprit;
      const bool here = diagnosis.kind == Diagnosis::Kind::mismatch;
      if (diagnosis.uneven && difference.words.empty() && (difference.silent == 0 || !here)) {
        return {code,
                mine +
                    (here ? "what " + peer + " sends is not as long as this rank expects"
                          : rank_name(failure.rank) + " found that what it is sent is not as long as it expects") +
                    "; both must pass the same count" + after,
                odd};
      }
      const char* remedy = difference.of_message ? "; the two ends of a message must agree on its type and count; only "
                                                   "a receive of up to so many may be of more"
                                                 : "; all ranks must make the same calls in the same order";
      return {code,
              mine +
                  (difference.words.empty() ? peer + " made another call at this point, or runs another program for it"
                                            : difference.words) +
                  remedy + after,
              odd};
    }
    case ErrorCode::peer_lost: {
      const bool told = diagnosis.kind == Diagnosis::Kind::failure;
      if (told && !failure.died && failure.blamed == rank()) break;  // whoever gave up is no lost rank itself
      const bool hearsay = told && !failure.died && failure.rank != culprit;
      const bool departed = diagnosis.kind == Diagnosis::Kind::departed || (hearsay && failure.left);
      if (departed && culprit < 0) return {code, mine + "all other ranks have left the group (" + where + ")" + after};
      if (told && failure.died && failure.rank == rank())
        return {code, mine + words_of_own_loss(failure.loss) + " (" + where + ")" + after, culprit};
      const std::string finder = hearsay ? rank_name(failure.rank) : "this rank";
      std::string what = words_of(told ? failure.loss : Loss::ended, origin_.again.silence);
      if (hearsay) what += ", as " + finder + " found";
      if (departed) what = " has left the group: it made fewer calls than " + finder;
      return {code, mine + peer + what + " (" + where + ")" + after, culprit};
    }
    case ErrorCode::timeout: {
      const std::string question = culprit < 0                ? "has any rank sent it?"
                                   : diagnosis.absent.empty() ? "is " + peer + " in the same call?"
                                                              : rank_names(diagnosis.absent) +
                                                                    (diagnosis.absent.size() == 1 ? " has" : " have") +
                                                                    " not made this call, as far as known.";
      return {code,
              mine + where + ", and nothing moved for " + std::to_string(diagnosis.timeout.count()) + " ms; " +
                  question + last_words_of(culprit) + " Options::timeout or TUTTI_TIMEOUT_MS sets the deadline" + after,
              culprit};
    }
    default: break;
  }
  if (!failure.words.empty()) return {code, mine + failure.words + " (" + where + ")" + after};
  const bool blames = failure.blamed >= 0;
  return {code,
          mine + rank_name(failure.rank) + " gave up after an error (" + std::string(name_of(failure.cause)) + ")" +
              (blames ? ", blaming " + rank_name(failure.blamed) : "") + " (" + where + ")" + after,
          culprit};
}

// Other ranks state their calls as soon as they hear that somebody gave up.
Difference Engine::await_difference(std::uint64_t about) {
  const Stated stated = [&](int channel, int rank) { return transport::stated(*transport_->flags(channel, rank)); };
  const Deadline deadline = Deadline::after(kHearing);
  for (;;) {
    const std::uint32_t ticket = transport_->prepare_sleep();
    state_disputed_message();
    const Difference difference = find_difference(size(), kTracks, stated, about);
    const bool known = difference.silent == 0 && (about != 0 || !difference.words.empty());
    if (known || deadline.passed()) return difference;
    transport_->sleep(ticket, std::min<std::chrono::nanoseconds>(deadline.left(), std::chrono::milliseconds(10)));
  }
}

void Engine::state_disputed_message() {
  // Beside the progress thread the caller may be in the mailbox; it then finds the failure, and says this, itself.
  if (thread_ && thread_->is_this_thread() && message_count_.load(std::memory_order_acquire) == 0) return;
  for (int peer = 0; peer < size(); ++peer) {
    const Statement theirs = transport::stated(*transport_->flags(kTracks, peer));
    if (!is_sound(theirs, rank(), peer)) continue;
    const Statement mine = mailbox_.sent(peer, theirs.sequence);
    transport::Flags& flags = *transport_->flags(kTracks, rank());
    if (mine.sequence == 0 || mine == theirs || mine == transport::stated(flags)) continue;
    transport::state(flags, mine);
    return transport_->announce(kTracks);
  }
}

const Pending* Engine::running_on(const Track& track) {
  const std::lock_guard lock(queue_mutex_);
  return track.queue.empty() ? nullptr : track.queue.front().get();
}

std::string Engine::last_words_of(int peer) const {
  Statement last;
  for (int track = 0; peer >= 0 && track < kTracks; ++track) {
    const Statement statement = transport::stated(*transport_->flags(track, peer));
    if (statement.sequence > last.sequence) last = statement;
  }
  return last.sequence == 0 ? "" : " Its last collective, as far as known, is " + words_of(last) + ".";
}

Error Engine::fail(Error error, const Pending* spoken_of) {
  {
    const std::lock_guard lock(error_mutex_);
    if (!error_) error_ = error;
  }
  aborted_.store(true, std::memory_order_release);
  transport_->abort(error.peer(), error.code());
  fail_queues(error, spoken_of);
  return error;
}

void Engine::throw_given_up(const Message& message) {
  const std::lock_guard lock(error_mutex_);
  throw error_of_another(*error_, message.describe(), *message.call, message.touched_output());
}

void Engine::end(Pending& pending, Pending::State state) {
  pending.state.store(state, std::memory_order_release);
  if (pending.on_end) std::exchange(pending.on_end, nullptr)();
  if (pending.awaited_by != nullptr) pending.awaited_by->ring();
}

void Engine::on_end(Pending& pending, std::function<void()> ended) {
  {
    const std::lock_guard lock(queue_mutex_);
    if (!pending.ended()) {
      pending.on_end = std::move(ended);
      return;
    }
  }
  ended();
}

void Engine::fail_queues(const Error& error, const Pending* spoken_of) {
  const std::lock_guard lock(queue_mutex_);
  const auto fail_call = [&](Pending& pending, const std::string& words, bool touched) {
    pending.error =
        std::make_exception_ptr(&pending == spoken_of ? error : error_of_another(error, words, pending.call, touched));
    end(pending, Pending::State::failed);
  };
  for (const auto& track : tracks_) {
    for (const auto& pending : track->queue) {
      const bool running = pending->state.load(std::memory_order_relaxed) == Pending::State::running;
      fail_call(*pending, pending->call.describe(), running && track->touched_output());
    }
    track->queued.fetch_sub(static_cast<std::uint32_t>(track->queue.size()), std::memory_order_release);
    track->queue.clear();
  }
  queued_ = 0;
  if (messages_.empty()) return;  // the mailbox may be the caller's at this moment
  mailbox_.clear();
  posted_.clear();
  for (const auto& pending : messages_)
    fail_call(*pending, pending->message.describe(), pending->message.touched_output());
  messages_.clear();
  message_count_.store(0, std::memory_order_release);
}

}  // namespace tutti::engine
