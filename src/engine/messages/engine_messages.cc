// Messages between two ranks, as the engine runs them: blocking ones on the caller's thread, async ones like any call.
#include <sched.h>

#include <algorithm>
#include <optional>

#include "engine/engine.h"
#include "engine/execute/waiter.h"
#include "schedule/verbs.h"

namespace tutti::engine {
namespace {

// What a probe has found, which is counted in bytes.
Received counted_in(const Element& element, Received found) {
  if (found.count % element.bytes() != 0) {
    throw Error(ErrorCode::invalid_argument,
                "probe: the message with tag " + std::to_string(found.tag) + " from rank " +
                    std::to_string(found.source) + " has " + std::to_string(found.count) +
                    " bytes, which is no multiple of elements of " + std::to_string(element.bytes()),
                found.source);
  }
  found.count /= element.bytes();
  return found;
}

// Who asks again and again never waits, so failures, which take system calls to see, are looked for now and then.
constexpr std::chrono::milliseconds kJudgesEvery{20};

// Lets the probe see what is there, and what lies behind that; then it waits no more. True where nothing moves any
// more, and the mailbox's diagnosis says why.
bool look_once(Mailbox& mailbox, Message& probe) {
  constexpr int kMostMoves = 100;  // others may go on sending what it does not want
  mailbox.post(probe);
  for (int move = 0; !probe.ended && move < kMostMoves && mailbox.advance() == Advance::moved; ++move) continue;
  const bool broken = mailbox.broken();
  if (broken) mailbox.find_hopeless();
  mailbox.withdraw(probe);
  return broken;
}

// Of messages that wait together each ends by itself, and what the others are waited for behind that is another wait.
template <class Ask>
class RecordedMessages : public WaitRecord<Ask> {
 public:
  RecordedMessages(const trace::GroupRecorder& group, std::span<Message> messages, Ask ask)
      : WaitRecord<Ask>(group, std::move(ask)), recorder_(group.recorder), messages_(messages) {}

  void looked() {
    for (Message& message : messages_) {
      if (!message.ended || message.ended_at != 0) continue;
      this->over();
      message.ended_at = recorder_->now();
      this->stuck();
    }
  }

 private:
  const trace::Recorder* recorder_;
  std::span<Message> messages_;
};

}  // namespace

void Engine::admit_message(Call& call) {
  call.sequence = Call::kUnnumbered;
  if (transport_->given_up()) refuse(call);
  call.timeout = options_.timeout;
  if (call.sends && !mailbox_.together(call.input_bytes, call.peer) && transport_->has_allocations())
    call.input_ref = transport_->locate(call.input, call.input_bytes);
}

Received Engine::run_message(const Request& request, const schedule::Algorithm* row) {
  require_alive();
  Call call;
  request_cache_.call_of(request, view_, chunks_, call);
  call.row = row;
  const device::StagingPool::Handle staging = stage(call, chunks_, request, Waits::caller);
  admit_message(call);
  counter_.count(call.verb, call.moved_bytes);
  const TimedBlockingCall timed(counter_, call.verb);
  Message message(call);
  call.recorder = recorder_of(call.moved_bytes);
  const std::uint64_t entered = call.recorder == nullptr ? 0 : call.recorder->recorder->now();
  const std::chrono::nanoseconds waited = run_messages({&message, 1});
  if (!counter_.timed()) counter_.add_wait(call.verb, waited);
  if (call.recorder != nullptr)
    records_.record_message(*call.recorder, call, {entered, entered, message.ended_at}, false);
  return message.received;
}

void Engine::require_exchange(const Request& sent, const Request& received) {
  const bool messages = sent.verb == Verb::send_recv && received.verb == Verb::send_recv;
  if (messages && sent.direction == Direction::send && received.direction == Direction::receive) return;
  throw Error(ErrorCode::invalid_argument, "send_recv: an exchange is a send and a receive, in this order");
}

Received Engine::exchange(const Request& sent, const Request& received, const schedule::Algorithm* row) {
  require_alive();
  require_exchange(sent, received);
  Call calls[2];
  request_cache_.call_of(sent, view_, chunks_, calls[0]);
  request_cache_.call_of(received, view_, chunks_, calls[1]);
  const std::byte* out = calls[1].output;
  const bool both = calls[0].input_bytes != 0 && calls[1].output_bytes != 0;
  if (both && calls[0].input < out + calls[1].output_bytes && out < calls[0].input + calls[0].input_bytes)
    throw Error(ErrorCode::invalid_argument, "send_recv: what is sent and what is received overlap; use two buffers");
  const device::StagingPool::Handle stagings[] = {stage(calls[0], chunks_, sent, Waits::caller),
                                                  stage(calls[1], chunks_, received, Waits::caller)};
  for (Call& call : calls) {
    call.row = row;
    admit_message(call);
    counter_.count(call.verb, call.moved_bytes);
  }
  const TimedBlockingCall timed(counter_, Verb::send_recv);
  Message messages[] = {Message(calls[0]), Message(calls[1])};
  for (Call& call : calls) call.recorder = recorder_of(call.moved_bytes);
  const std::uint64_t entered = calls[0].recorder == nullptr ? 0 : calls[0].recorder->recorder->now();
  const std::chrono::nanoseconds waited = run_messages(messages);
  if (!counter_.timed()) counter_.add_wait(Verb::send_recv, waited);
  for (const Message& message : messages) {
    const Call& call = *message.call;
    if (call.recorder != nullptr)
      records_.record_message(*call.recorder, call, {entered, entered, message.ended_at}, false);
  }
  return messages[1].received;
}

Call Engine::call_of_probe(int source, int tag, const Element& element) {
  require_alive();
  const Request request{
      .verb = Verb::send_recv, .element = element, .direction = Direction::receive, .peer = source, .tag = tag};
  Call call = call_of(request, view_, chunks_);
  admit_message(call);
  return call;
}

Received Engine::probe(int source, int tag, const Element& element) {
  Call call = call_of_probe(source, tag, element);
  Message message(call);
  message.probe = true;
  call.recorder = recorder_of(0);  // of how long it waits; it is no call by itself
  run_messages({&message, 1});
  return counted_in(element, message.received);
}

std::optional<Received> Engine::iprobe(int source, int tag, const Element& element) {
  Call call = call_of_probe(source, tag, element);
  Message message(call);
  message.probe = true;
  if (async_.has_messages()) {
    look_beside_others(message);
  } else {
    look_alone(message);
  }
  if (message.ended) return counted_in(element, message.received);
  if (crowded()) ::sched_yield();  // who asks again may keep the sender from its core
  return std::nullopt;
}

void Engine::look_alone(Message& probe) {
  bool broken = false;
  try {
    broken = look_once(mailbox_, probe);
  } catch (const std::exception& error) {
    mailbox_.clear();
    throw async_.fail_from_caller(error_of_messages(error));
  }
  if (broken) throw async_.fail_from_caller(Stuck{nullptr, &probe});
  mailbox_.ended().clear();
  if (probe.ended || !next_judgement_.passed()) return;
  next_judgement_ = Deadline::after(kJudgesEvery);
  if (const auto failure = transport_->failure()) refuse(*probe.call, failure);
}

void Engine::look_beside_others(Message& probe) {
  const AsyncCalls::Seat seat(async_);
  require_alive();
  seat.progress_messages();  // those submitted before come first
  require_alive();
  std::optional<Error> error;
  try {
    if (look_once(mailbox_, probe)) error = seat.fail(Stuck{nullptr, &probe});
  } catch (const std::exception& own) {
    error = seat.fail(error_of_messages(own));
  }
  if (error) {
    first_error_.tell();
    mailbox_.clear();
    throw Error(*error);
  }
  seat.finish_messages();
  if (probe.ended || !next_judgement_.passed()) return;
  next_judgement_ = Deadline::after(kJudgesEvery);
  if (const Stuck stuck = seat.find_stuck(); stuck.any()) seat.fail(stuck);
  require_alive();
}

void Engine::carry(std::span<const Letter> letters, int tag) {
  require_alive();
  std::vector<Call> calls;
  std::vector<Message> messages;
  calls.reserve(letters.size());
  messages.reserve(letters.size());
  for (const Letter& letter : letters) {
    const bool sends = letter.direction == Direction::send;
    Call& call = calls.emplace_back(call_of({.verb = Verb::send_recv,
                                             .input = sends ? letter.bytes : nullptr,
                                             .output = sends ? nullptr : letter.bytes,
                                             .input_count = sends ? letter.count : 0,
                                             .output_count = sends ? 0 : letter.count,
                                             .element = DType::uint8,
                                             .direction = letter.direction,
                                             .peer = letter.peer},
                                            view_, chunks_));
    call.detail = Statement::detail_of(0, false, letter_mark(tag));
    admit_message(call);
    if (letter.patient) call.timeout = std::min<std::chrono::milliseconds>(2 * call.timeout, Deadline::kForever);
    messages.emplace_back(call);
  }
  run_messages(messages);
}

std::chrono::nanoseconds Engine::run_messages(std::span<Message> messages) {
  const trace::GroupRecorder* const recorder = messages.front().call->recorder;
  if (recorder == nullptr) [[likely]]
    return run_messages(messages, Unwatched());
  return run_messages(messages, RecordedMessages(*recorder, messages, [&] {
                        const auto open = std::ranges::find_if(messages, [](const Message& it) { return !it.ended; });
                        if (open == messages.end()) return AwaitedNow();
                        return AwaitedNow{mailbox_.blocked(*open), open->call->sequence};
                      }));
}

template <class Watch>
std::chrono::nanoseconds Engine::run_messages(std::span<Message> messages, Watch&& watch) {
  if (async_.has_messages()) return run_beside_others(messages, watch);
  Waiter waiter(*transport_);
  Stuck stuck;
  bool finished = false;
  try {
    for (Message& message : messages) mailbox_.post(message);
    const auto look = [&] {
      const Advance advance = mailbox_.advance();
      watch.looked();
      const bool all = std::all_of(messages.begin(), messages.end(), [](const Message& it) { return it.ended; });
      return all ? Advance::finished : advance;
    };
    const auto hopeless = [&] {
      stuck.message = first_error_.aborted_here() ? messages.data() : mailbox_.find_hopeless();
      if (!stuck.any()) stuck = find_crossed(messages);
      return stuck.any();
    };
    finished = waiter.until_finished(look, hopeless, watch) == Waiter::Outcome::finished;
  } catch (const std::exception& error) {
    mailbox_.clear();
    throw async_.fail_from_caller(error_of_messages(error));
  }
  if (!finished) {
    const Error error = async_.fail_from_caller(stuck);
    mailbox_.clear();
    throw error;
  }
  mailbox_.ended().clear();
  return waiter.waited();
}

Stuck Engine::find_crossed(std::span<const Message> messages) const {
  for (const Message& message : messages) {
    const Message::Patience& patience = message.patience;
    const int peer = message.call->peer;
    if (message.ended || !message.sends() || patience.moved || !patience.crossing.passed() || peer == rank()) continue;
    const Statement theirs = transport::stated(*transport_->flags(kTracks, peer));
    const bool later = theirs.sequence > next_collective_ && static_cast<std::size_t>(theirs.verb()) < kVerbs;
    if (later && schedule::needs(theirs.verb(), theirs.root(), peer, rank())) return {nullptr, &message, theirs};
  }
  return {};
}

void Engine::tell_waiting(const Track& track) {
  const Statement statement = track.call().statement();
  transport::Flags& flags = *transport_->flags(kTracks, rank());
  if (async_.has_messages() || statement.sequence == 0) return;
  if (transport::stated(flags) == statement) return;
  transport::state(flags, statement);
  transport_->announce(kTracks);
}

// As a caller who waits for an async call: it takes over all work meanwhile.
template <class Watch>
std::chrono::nanoseconds Engine::run_beside_others(std::span<Message> messages, Watch&& watch) {
  const auto first_open = [&] {
    return std::find_if(messages.begin(), messages.end(), [](const Message& it) { return !it.ended; });
  };
  const auto over = [&] { return first_open() == messages.end() || first_error_.exists(); };
  const auto alone = [&] { return !async_.has_messages(); };
  const AsyncCalls::Seat seat(async_);
  require_alive();
  seat.progress_messages();  // those submitted before come first
  Stuck stuck;
  const auto look = [&] {
    const Advance queues = seat.progress();
    const Advance own = alone() ? seat.progress_messages() : Advance::stuck;
    watch.looked();
    return over() ? Advance::finished : std::max(queues, own);
  };
  const auto hopeless = [&] {
    stuck = seat.find_stuck();
    if (!stuck.any() && alone()) stuck.message = mailbox_.find_hopeless();
    if (!stuck.any()) stuck = find_crossed(messages);
    return stuck.any();
  };
  Waiter waiter(*transport_);
  std::optional<Error> error;
  try {
    for (Message& message : messages) mailbox_.post(message);
    if (waiter.until_finished(look, hopeless, watch) == Waiter::Outcome::hopeless) error = seat.fail(stuck);
  } catch (const std::exception& own) {
    error = seat.fail(error_of_messages(own));
    stuck.message = messages.data();
  }
  if (first_open() == messages.end()) return waiter.waited();
  first_error_.tell();
  mailbox_.clear();
  const bool own = stuck.message >= messages.data() && stuck.message < messages.data() + messages.size();
  if (error && own) throw Error(*error);
  const Message& given_up = *first_open();
  throw error_of_another(first_error_.get(), given_up.describe(), *given_up.call, given_up.touched_output());
}

}  // namespace tutti::engine
