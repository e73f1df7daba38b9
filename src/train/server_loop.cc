#include "train/server_loop.h"

#include <algorithm>
#include <optional>

#include "train/words.h"

namespace tutti::train {
namespace {

std::optional<std::int64_t> bound_of(const ServerOptions& options) {
  switch (options.consistency) {
    case Consistency::synchronous: return 0;
    case Consistency::stale: return options.bound;
    case Consistency::asynchronous: break;
  }
  return std::nullopt;
}

std::vector<int> hosts_of(const std::vector<int>& workers, std::span<const int> hosts) {
  std::vector<int> of_workers;
  for (const int rank : workers) of_workers.push_back(hosts[static_cast<std::size_t>(rank)]);
  return of_workers;
}

}  // namespace

ServerLoop::ServerLoop(const ServerPlan& plan, std::size_t server, const ServedParameters& parameters,
                       const Optimizer& optimizer, ServerGroups groups, std::span<const int> hosts)
    : plan_(plan),
      server_(static_cast<int>(server)),
      synchronous_(plan.options.consistency == Consistency::synchronous),
      scale_(1 / static_cast<double>(plan.workers.size())),
      patience_(plan.options.patience),
      told_every_(std::max(patience_ / 3, std::chrono::milliseconds(1))),
      values_(plan, server, parameters, optimizer),
      gradients_(plan, hosts_of(plan.workers, hosts)),
      clock_(plan.workers.size(), bound_of(plan.options)),
      others_(std::move(groups.servers)) {
  for (std::size_t worker = 0; worker < groups.workers.size(); ++worker)
    sessions_.push_back({.worker = worker, .group = std::move(groups.workers[worker])});
}

ServerLoop::~ServerLoop() {
  others_.give_up();  // before they find the workers' groups failed
  for (WorkerSession& session : sessions_)
    if (session.stage != Stage::gone) close(session);
}

ServerReport ServerLoop::run() {
  try {
    serve_all();
    if (const auto lost = others_.finish(2 * patience_)) end_with(*lost);
  } catch (const EndOfAll& end) {
    throw Error(end.error);
  }
  report_.clocks.clear();
  for (std::size_t worker = 0; worker < sessions_.size(); ++worker) report_.clocks.push_back(clock_.ended(worker));
  report_.steps = values_.steps();
  return report_;
}

void ServerLoop::serve_all() {
  for (WorkerSession& session : sessions_) with(session, [&] { listen(session); });
  while (clock_.present() > 0) {
    await();
    if (const auto lost = others_.lost()) end_with(*lost);
    for (WorkerSession& session : sessions_) {
      with(session, [&] {
        while (!session.works.empty() && session.works.front().ended()) advance(session);
        look_at_answers(session);
        if (const auto left = left_of(session); left && left->count() == 0) answer(session, ServerWord::wait);
      });
    }
  }
}

// Until a message has ended, another server has something to tell, or a worker that waits has to be told that this one
// is there.
void ServerLoop::await() {
  std::vector<Work*> first;
  std::chrono::milliseconds left = told_every_;
  for (WorkerSession& session : sessions_) {
    if (!session.works.empty()) first.push_back(&session.works.front());
    left = std::min(left, left_of(session).value_or(left));
  }
  others_.add_to(first);
  try {
    await_any(first, left);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::timeout) throw;
  }
}

std::optional<std::chrono::milliseconds> ServerLoop::left_of(const WorkerSession& session) const {
  if (session.stage != Stage::waiting || !session.answers.empty()) return std::nullopt;
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - session.heard);
  return std::max(told_every_ - waited, std::chrono::milliseconds(0));
}

void ServerLoop::listen(WorkerSession& session) {
  session.stage = Stage::listening;
  const int worker = plan_.server_count();  // the last rank of the group
  session.works.push_back(session.group.recv_async(session.command, worker, kCommandTag));
}

// The first message of a session has ended.
void ServerLoop::advance(WorkerSession& session) {
  session.works.front().wait();
  session.works.pop_front();
  switch (session.stage) {
    case Stage::listening: return obey(session);
    case Stage::rows: check_rows(session); return start_data(session);
    case Stage::receiving:
    case Stage::sending: return take_message(session);
    case Stage::waiting:
    case Stage::gone: return;
  }
}

void ServerLoop::obey(WorkerSession& session) {
  switch (static_cast<ServerWord>(session.command[0])) {
    case ServerWord::push:
    case ServerWord::pull:
      session.key = static_cast<std::size_t>(session.command[1]);
      session.rows = static_cast<std::size_t>(session.command[2]);
      session.which.clear();
      return plan_.keys[session.key].table ? receive_rows(session) : start_data(session);
    case ServerWord::clock: return end_clock(session);
    case ServerWord::finish: return leave(session);
    case ServerWord::go:
    case ServerWord::wait: break;
  }
  refuse_call("a command that no worker gives");
}

void ServerLoop::receive_rows(WorkerSession& session) {
  session.stage = Stage::rows;
  session.which.resize(session.rows);
  session.works.push_back(session.group.recv_async(session.which, plan_.server_count(), kRowsTag));
}

void ServerLoop::check_rows(const WorkerSession& session) const {
  const auto rows = static_cast<std::int64_t>(values_.rows_of(session.key));
  for (const std::int64_t row : session.which)
    if (row < 0 || row >= rows) refuse_call("a row that this server does not hold");
}

void ServerLoop::start_data(WorkerSession& session) {
  session.started = session.done = 0;
  session.place = nullptr;
  session.stage = is_push(session) ? Stage::receiving : Stage::sending;
  if (is_push(session) && synchronous_) session.place = gradients_.place(session.worker, session.key, session.rows);
  if (is_push(session) && !synchronous_) session.step = values_.begin_step(session.key);
  for (std::size_t i = 0; i < kInFlight && session.started < session.rows; ++i) start_message(session);
}

std::size_t ServerLoop::rows_of_next(const WorkerSession& session, std::size_t first) const {
  return std::min(session.rows - first, strategy::rows_per_message(plan_.width_of(session.key)));
}

std::vector<float>& ServerLoop::buffer_of(WorkerSession& session, std::size_t first) const {
  const std::size_t message = first / strategy::rows_per_message(plan_.width_of(session.key));
  return session.buffers[message % kInFlight];
}

void ServerLoop::start_message(WorkerSession& session) {
  const std::size_t first = session.started, rows = rows_of_next(session, first);
  const std::size_t width = plan_.width_of(session.key);
  session.started += rows;
  float* data = session.place == nullptr ? nullptr : session.place + first * width;
  if (data == nullptr) {
    std::vector<float>& buffer = buffer_of(session, first);
    buffer.resize(std::max(buffer.size(), rows * width));
    data = buffer.data();
  }
  const int worker = plan_.server_count();
  const std::span<float> message(data, rows * width);
  if (session.stage == Stage::receiving) {
    session.works.push_back(session.group.recv_async(message, worker, kDataTag));
    return;
  }
  if (plan_.keys[session.key].table)
    values_.copy(session.key, std::span(session.which).subspan(first, rows), data);
  else
    values_.copy(session.key, first, rows, data);
  session.works.push_back(session.group.send_async(message, worker, kDataTag));
}

void ServerLoop::take_message(WorkerSession& session) {
  const std::size_t first = session.done, rows = rows_of_next(session, first);
  if (session.stage == Stage::receiving && session.place == nullptr) {
    const float* const gradient = buffer_of(session, first).data();
    if (plan_.keys[session.key].table)
      values_.update(session.key, session.step, std::span(session.which).subspan(first, rows), gradient, scale_);
    else
      values_.update(session.key, session.step, first, rows, gradient, scale_);
  }
  session.done += rows;
  if (session.started < session.rows) start_message(session);
  if (session.done == session.rows) end_data(session);
}

void ServerLoop::end_data(WorkerSession& session) {
  if (session.place != nullptr) gradients_.landed(session.worker, session.key, session.which);
  listen(session);
}

void ServerLoop::end_clock(WorkerSession& session) {
  session.stage = Stage::waiting;
  session.heard = Clock::now();
  const auto before = clock_.slowest();
  let_go(clock_.end(session.worker), before);
}

void ServerLoop::let_go(const std::vector<std::size_t>& free, std::optional<std::int64_t> before) {
  const auto slowest = clock_.slowest();
  if (synchronous_ && slowest && slowest != before) {
    std::vector<std::size_t> workers;
    for (std::size_t worker = 0; worker < sessions_.size(); ++worker)
      if (clock_.takes_part(worker)) workers.push_back(worker);
    gradients_.step(workers, values_);
  }
  for (const std::size_t worker : free) {
    report_.most_ahead = std::max(report_.most_ahead, clock_.ended(worker) - *slowest);
    WorkerSession& session = sessions_[worker];
    with(session, [&] {
      answer(session, ServerWord::go);
      listen(session);
    });
  }
}

void ServerLoop::answer(WorkerSession& session, ServerWord word) {
  Answer& answer = session.answers.emplace_back();
  answer.words = {static_cast<std::int64_t>(word), static_cast<std::int64_t>(clock_.present())};
  answer.work = session.group.send_async(answer.words, plan_.server_count(), kCommandTag);
  session.heard = Clock::now();
}

void ServerLoop::look_at_answers(WorkerSession& session) {
  while (!session.answers.empty() && session.answers.front().work.ended()) {
    session.answers.front().work.wait();
    session.answers.pop_front();
  }
}

void ServerLoop::close(WorkerSession& session) {
  session.stage = Stage::gone;
  session.group.abort();
  session.works.clear();
  session.answers.clear();
  session.group.close();
}

void ServerLoop::leave(WorkerSession& session) {
  session.stage = Stage::gone;
  session.answers.clear();
  session.group.close();
  gradients_.forget(session.worker);
  const auto before = clock_.slowest();
  let_go(clock_.leave(session.worker), before);
}

// Every group is about to find out. One that was left before would be told that this server had given up.
void ServerLoop::hear_of_loss(int server) {
  for (WorkerSession& session : sessions_) {
    if (session.stage == Stage::gone) continue;
    try {
      std::int64_t nothing = 0;  // that is never sent
      session.group.recv(one(nothing), server, kNothingTag);
    } catch (const Error&) {
      // as expected
    }
  }
}

void ServerLoop::end_with(const LostServer& lost) {
  const int rank = plan_.servers[static_cast<std::size_t>(lost.server)];
  const bool gone = lost.error.code() == ErrorCode::peer_lost;
  if (lost.error.code() != ErrorCode::timeout) hear_of_loss(lost.server);
  throw EndOfAll{Error(end_of_peer(lost.error),
                       "server rank " + std::to_string(rank) + (gone ? " is gone" : " has failed") +
                           ", and the parameters that it held; start again from what was saved: " + lost.error.what(),
                       rank)};
}

void ServerLoop::drop(WorkerSession& session, const Error& error) {
  if (session.stage == Stage::gone) throw error;
  if (const int peer = error.peer(); peer >= 0 && peer < plan_.server_count() && peer != server_)
    if (const auto lost = others_.lost(std::min(kUntilKnown, told_every_))) end_with(*lost);
  const int rank = plan_.workers[session.worker];
  report_.dropped.push_back({rank, clock_.ended(session.worker), end_of_peer(error),
                             "worker rank " + std::to_string(rank) + " was dropped in clock " +
                                 std::to_string(clock_.ended(session.worker)) + ": " + error.what()});
  close(session);
  gradients_.forget(session.worker);
  const auto before = clock_.slowest();
  let_go(clock_.leave(session.worker), before);
}

}  // namespace tutti::train
