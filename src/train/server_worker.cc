#include "train/server_worker.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "train/float_arrays.h"
#include "train/words.h"

namespace tutti::train {
namespace {

bool ascends(std::span<const std::int64_t> rows) {
  return std::adjacent_find(rows.begin(), rows.end(), std::greater_equal<>()) == rows.end();
}

// Rows in their order, each once; gradients of the same row add up, in the order they came.
struct SortedRows {
  SortedRows(std::span<const std::int64_t> given, std::span<const float> gradient, std::size_t width) {
    std::vector<std::size_t> order(given.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return given[a] < given[b]; });
    sums.reserve(gradient.size());
    for (const std::size_t at : order) {
      const float* const own = gradient.data() + at * width;
      if (!rows.empty() && rows.back() == given[at]) {
        add_floats(sums.data() + sums.size() - width, own, width);
        continue;
      }
      rows.push_back(given[at]);
      sums.insert(sums.end(), own, own + width);
    }
  }

  std::vector<std::int64_t> rows;
  std::vector<float> sums;
};

}  // namespace

ServerWorker::ServerWorker(const ServerPlan& plan, Communicator group, int rank)
    : plan_(plan), group_(std::move(group)), rank_(rank), present_(static_cast<int>(plan.workers.size())) {}

std::string ServerWorker::in_words(const char* call, std::size_t key) const {
  return std::string(call) + " of \"" + plan_.keys[key].name + "\"";
}

void ServerWorker::require_taking_part(const char* call) const {
  if (finished_) refuse_call(std::string(call) + ": this worker has finished; make a new parameter server");
}

void ServerWorker::check(const char* call, std::size_t key, std::size_t length, std::size_t expected) const {
  require_taking_part(call);
  if (length == expected) return;
  const strategy::KeyShape& shape = plan_.keys[key];
  refuse_call("worker rank " + std::to_string(rank_) + ", " + in_words(call, key) + ": " + std::to_string(length) +
              " numbers, and " + std::to_string(expected) + " belong there" +
              (shape.table ? ", rows of " + std::to_string(shape.width) : "") + "; give the shape that servers hold");
}

void ServerWorker::check_rows(const char* call, std::size_t key, std::span<const std::int64_t> rows) const {
  const strategy::KeyShape& shape = plan_.keys[key];
  if (!shape.table)
    refuse_call("worker rank " + std::to_string(rank_) + ", " + in_words(call, key) +
                ": it is no table; push and pull it whole, or set ServedParameter::table on all ranks");
  for (const std::int64_t row : rows) {
    if (row >= 0 && static_cast<std::size_t>(row) < shape.rows) continue;
    refuse_call("worker rank " + std::to_string(rank_) + ", " + in_words(call, key) + ": no server owns row " +
                std::to_string(row) + "; there are " + std::to_string(shape.rows));
  }
}

void ServerWorker::command(ServerWord word, std::size_t key, std::size_t rows, std::size_t server) {
  commands_.push_back(
      {static_cast<std::int64_t>(word), static_cast<std::int64_t>(key), static_cast<std::int64_t>(rows)});
  add_send(requests_, commands_.back(), static_cast<int>(server), kCommandTag);
}

void ServerWorker::talk(const std::string& what) {
  const std::vector<Request> requests = std::exchange(requests_, {});
  try {
    std::vector<Work> works = group_.submit_all(requests);
    wait_all(works);
  } catch (const Error& error) {
    tell(error, what);
  }
  commands_.clear();
}

void ServerWorker::tell(const Error& error, const std::string& what) const {
  const int peer = error.peer();
  const bool named = peer >= 0 && peer < plan_.server_count();
  const int rank = named ? plan_.servers[static_cast<std::size_t>(peer)] : -1;
  const std::string who = named ? "server rank " + std::to_string(rank) : "a server";
  std::string why = who + " has given this worker up, or failed itself";
  if (error.code() == ErrorCode::peer_lost)
    why = who + " is gone, and the parameters that it held; start again from what was saved";
  if (error.code() == ErrorCode::timeout)
    why = who + " has not answered for " + std::to_string(plan_.options.patience.count()) +
          " ms; see what holds it up, or raise ServerOptions::patience";
  throw Error(error.code(),
              "worker rank " + std::to_string(rank_) + ", " + what + " in clock " + std::to_string(clocks_) + ": " +
                  why + ": " + error.what(),
              rank);
}

void ServerWorker::count(const strategy::KeyCall& call) {
  if (call.rows.empty()) ++calls_[{call.pushes, call.key, 0, 0}];
  for (std::size_t server = 0; server < call.rows.size(); ++server)
    if (call.rows[server] > 0) ++calls_[{call.pushes, call.key, server, call.rows[server]}];
}

void ServerWorker::push(std::size_t key, std::span<const float> gradient) {
  const strategy::KeyShape& shape = plan_.keys[key];
  check("push", key, gradient.size(), shape.elements());
  if (shape.table) return push_rows(key, all_rows(key), gradient);
  for (std::size_t server = 0; server < plan_.servers.size(); ++server) {
    const strategy::KeyPart part = plan_.cuts[key][server];
    if (part.count == 0) continue;
    command(ServerWord::push, key, part.count, server);
    add_data(requests_, Direction::send, gradient.data() + part.first, nullptr, part.count, 1,
             static_cast<int>(server));
  }
  talk(in_words("push", key));
  count({true, key, {}});
}

void ServerWorker::pull(std::size_t key, std::span<float> values) {
  const strategy::KeyShape& shape = plan_.keys[key];
  check("pull", key, values.size(), shape.elements());
  if (shape.table) return pull_rows(key, all_rows(key), values);
  for (std::size_t server = 0; server < plan_.servers.size(); ++server) {
    const strategy::KeyPart part = plan_.cuts[key][server];
    if (part.count == 0) continue;
    command(ServerWord::pull, key, part.count, server);
    add_data(requests_, Direction::receive, nullptr, values.data() + part.first, part.count, 1,
             static_cast<int>(server));
  }
  talk(in_words("pull", key));
  count({false, key, {}});
}

std::vector<std::int64_t> ServerWorker::all_rows(std::size_t key) const {
  std::vector<std::int64_t> rows(plan_.keys[key].rows);
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  return rows;
}

std::vector<ServerWorker::DealtRows> ServerWorker::deal(std::span<const std::int64_t> rows) const {
  const int servers = plan_.server_count();
  std::vector<DealtRows> dealt(plan_.servers.size());
  for (std::size_t place = 0; place < rows.size(); ++place) {
    DealtRows& own = dealt[static_cast<std::size_t>(strategy::server_of_row(rows[place], servers))];
    own.rows.push_back(strategy::row_at_server(rows[place], servers));
    own.places.push_back(place);
  }
  return dealt;
}

void ServerWorker::push_rows(std::size_t key, std::span<const std::int64_t> rows, std::span<const float> gradient) {
  const std::size_t width = plan_.keys[key].width;
  check("push", key, gradient.size(), rows.size() * width);
  check_rows("push", key, rows);
  if (!ascends(rows)) {
    const SortedRows sorted(rows, gradient, width);
    return push_rows(key, sorted.rows, sorted.sums);
  }
  strategy::KeyCall call{true, key, std::vector<std::size_t>(plan_.servers.size())};
  std::vector<DealtRows> dealt;
  if (plan_.servers.size() > 1) dealt = deal(rows);
  for (std::size_t server = 0; server < plan_.servers.size(); ++server) {
    std::span<const std::int64_t> own = rows;
    const float* data = gradient.data();
    if (!dealt.empty()) {
      DealtRows& part = dealt[server];
      own = part.rows;
      part.data.resize(own.size() * width);
      for (std::size_t i = 0; i < own.size(); ++i)
        std::memcpy(part.data.data() + i * width, gradient.data() + part.places[i] * width, width * sizeof(float));
      data = part.data.data();
    }
    call.rows[server] = own.size();
    if (own.empty()) continue;
    command(ServerWord::push, key, own.size(), server);
    add_send(requests_, own, static_cast<int>(server), kRowsTag);
    add_data(requests_, Direction::send, data, nullptr, own.size(), width, static_cast<int>(server));
  }
  talk(in_words("push", key));
  count(call);
}

void ServerWorker::pull_rows(std::size_t key, std::span<const std::int64_t> rows, std::span<float> values) {
  const std::size_t width = plan_.keys[key].width;
  check("pull", key, values.size(), rows.size() * width);
  check_rows("pull", key, rows);
  strategy::KeyCall call{false, key, std::vector<std::size_t>(plan_.servers.size())};
  std::vector<DealtRows> dealt;
  if (plan_.servers.size() > 1) dealt = deal(rows);
  for (std::size_t server = 0; server < plan_.servers.size(); ++server) {
    if (!dealt.empty()) dealt[server].data.resize(dealt[server].rows.size() * width);
    const std::span<const std::int64_t> own = dealt.empty() ? rows : std::span<const std::int64_t>(dealt[server].rows);
    float* const data = dealt.empty() ? values.data() : dealt[server].data.data();
    call.rows[server] = own.size();
    if (own.empty()) continue;
    command(ServerWord::pull, key, own.size(), server);
    add_send(requests_, own, static_cast<int>(server), kRowsTag);
    add_data(requests_, Direction::receive, nullptr, data, own.size(), width, static_cast<int>(server));
  }
  talk(in_words("pull", key));
  for (const DealtRows& part : dealt)
    for (std::size_t i = 0; i < part.places.size(); ++i)
      std::memcpy(values.data() + part.places[i] * width, part.data.data() + i * width, width * sizeof(float));
  count(call);
}

void ServerWorker::clock() {
  require_taking_part("clock");
  for (std::size_t server = 0; server < plan_.servers.size(); ++server) command(ServerWord::clock, 0, 0, server);
  talk("the end");
  for (std::size_t server = 0; server < plan_.servers.size(); ++server) hear(server);
  ++clocks_;
  last_calls_ = std::exchange(calls_, {});
}

// Until the server lets this worker go on.
void ServerWorker::hear(std::size_t server) {
  ServerCommand answer{static_cast<std::int64_t>(ServerWord::wait)};
  try {
    while (answer[0] == static_cast<std::int64_t>(ServerWord::wait))
      group_.recv(answer, static_cast<int>(server), kCommandTag);
  } catch (const Error& error) {
    tell(error, "the end");
  }
  present_ = static_cast<int>(answer[1]);
}

void ServerWorker::finish() {
  if (finished_) return;
  for (std::size_t server = 0; server < plan_.servers.size(); ++server) command(ServerWord::finish, 0, 0, server);
  talk("finish");
  until_finished_ = group_.counters();
  finished_ = true;
  group_.close();
}

Sentence ServerWorker::sentence() const {
  const Sentence end = sentence_of(plan_.keys, plan_.cuts, {}, plan_.server_count());
  Sentence sentence;
  for (const auto& [kind, times] : last_calls_) {
    const auto& [pushes, key, server, rows] = kind;
    strategy::KeyCall call{pushes, key, {}};
    if (plan_.keys[key].table) {
      call.rows.resize(plan_.servers.size());
      call.rows[server] = rows;
    }
    Sentence said = sentence_of(plan_.keys, plan_.cuts, std::span(&call, 1), plan_.server_count());
    said.resize(said.size() - end.size());
    for (Phrase& phrase : said) {
      phrase.times *= times;
      sentence.push_back(std::move(phrase));
    }
  }
  sentence.insert(sentence.end(), end.begin(), end.end());
  return sentence;
}

Counters ServerWorker::counters() const { return finished_ ? until_finished_ : group_.counters(); }

}  // namespace tutti::train
