#include "tutti/init.h"

#include <algorithm>
#include <atomic>

#include "base/environment.h"
#include "engine/factory.h"
#include "engine/tracing/tracer.h"
#include "rendezvous/address.h"
#include "rendezvous/launch/arrange.h"
#include "rendezvous/meeting.h"

namespace tutti {
namespace {

// What the program says stands in for variables that are not set.
Environment with_launch(const Environment& environment, const Launch& launch) {
  const auto number = [](const std::optional<int>& value) { return value ? std::to_string(*value) : std::string(); };
  return environment.with_defaults({{"TUTTI_RANK", number(launch.rank)},
                                    {"TUTTI_SIZE", number(launch.size)},
                                    {"TUTTI_RENDEZVOUS", launch.rendezvous},
                                    {"TUTTI_JOB", launch.job},
                                    {"TUTTI_TOKEN_FILE", launch.token_file},
                                    {"TUTTI_INTERFACE", launch.interface}});
}

Options with_variables(Options options, const Environment& environment) {
  if (const auto ms = environment.number("TUTTI_TIMEOUT_MS")) options.timeout = std::chrono::milliseconds(*ms);
  if (const auto word = environment.word("TUTTI_CHECK")) options.check = *word == "full" ? Check::full : Check::quick;
  if (const auto word = environment.word("TUTTI_TRANSPORT")) options.transport = *transport_named(*word);
  if (const auto name = environment.get("TUTTI_ALGORITHM")) options.algorithm = *name;
  if (const auto files = environment.get("TUTTI_SCHEDULE")) options.schedule = *files;
  if (const auto word = environment.word("TUTTI_VERIFY")) options.verify = *word == "1";
  if (const auto word = environment.word("TUTTI_TCP_THREADS"))
    options.tcp_threads = *word == "auto" ? 0 : (*word)[0] - '0';
  return options;
}

// What all ranks must have alike: of the options, and of the variables that only the environment sets.
std::vector<std::string> settings_of(const Options& options, const Environment& environment,
                                     const rendezvous::MeetingOptions& meeting) {
  std::vector<std::string> settings = engine::settings(options);
  settings.push_back("TUTTI_SUSPECT_MS=" + std::to_string(meeting.suspicion.count()));
  settings.push_back("TUTTI_SILENCE_MS=" + std::to_string(meeting.silence.count()));
  settings.push_back(std::string("TUTTI_TRACE=") + (environment.get("TUTTI_TRACE") ? "set" : "unset"));
  settings.push_back("TUTTI_SHARED_BUCKETS=" + environment.word("TUTTI_SHARED_BUCKETS").value_or("1"));
  return settings;
}

// Meetings of this process so far: ranks that meet twice must not be taken for late ones of the first time.
unsigned next_meeting() {
  static std::atomic<unsigned> meetings{0};
  return meetings.fetch_add(1);
}

// The meeting, from what was found out about the launch to an engine.
Communicator meet_as(const rendezvous::Launch& found, const Environment& environment, const Options& options,
                     unsigned meeting_number, const rendezvous::MakeStore& store_of) {
  const Log log(Log::level_of(environment.word("TUTTI_LOG").value_or("warn")), found.rank);
  const Deadline deadline = Deadline::after(options.timeout);
  rendezvous::Rendezvous place = rendezvous::arrange(found, environment, meeting_number, deadline, log, store_of);

  rendezvous::MeetingOptions meeting;
  meeting.rank = found.rank;
  meeting.size = found.size;
  meeting.job = place.job;
  meeting.lobby = place.lobby;
  meeting.keep_lobby = place.keep_lobby;
  meeting.refuge = std::move(place.refuge);
  meeting.publish = std::move(place.publish);
  meeting.token = std::move(place.token);
  engine::require_options(options);
  meeting.wanted = options.transport;
  meeting.channels = engine::Engine::kDataLinks;
  meeting.hostid = environment.get("TUTTI_HOSTID").value_or("");
  meeting.interface = environment.get("TUTTI_INTERFACE").value_or("");
  if (const auto ms = environment.number("TUTTI_SUSPECT_MS")) meeting.suspicion = std::chrono::milliseconds(*ms);
  if (const auto ms = environment.number("TUTTI_SILENCE_MS")) meeting.silence = std::chrono::milliseconds(*ms);
  meeting.settings = settings_of(options, environment, meeting);
  meeting.deadline = deadline;
  meeting.log = log;
  const std::optional<std::string> traced = environment.get("TUTTI_TRACE");
  const auto events = static_cast<std::uint64_t>(environment.number("TUTTI_TRACE_EVENTS").value_or(0));
  std::optional<rendezvous::Met> met;
  try {
    met = rendezvous::meet(meeting);
  } catch (...) {
    if (place.withdraw) place.withdraw();
    throw;
  }
  // The others return only after they have heard from rank 0 once more, in make_engine.
  if (place.withdraw) place.withdraw();
  auto engine = engine::make_engine(*std::move(met), options, log, Deadline::after(options.timeout));
  if (traced) engine::start_process_trace(*engine, {*traced, events});
  return Communicator(std::move(engine));
}

// The program's store as the meeting sees it.
class OwnStore : public rendezvous::Store {
 public:
  explicit OwnStore(std::shared_ptr<tutti::Store> store) : store_(std::move(store)) {}

  void set(std::string_view key, std::string_view value, const Deadline& deadline) override {
    store_->set(std::string(key), std::string(value), milliseconds_left(deadline));
  }
  std::string get(std::string_view key, const Deadline& deadline) override {
    return store_->get(std::string(key), milliseconds_left(deadline));
  }
  // That the ranks have met counts, not whether the store has forgotten it.
  void remove(std::string_view key) override {
    try {
      store_->remove(std::string(key));
    } catch (...) {
    }
  }

 private:
  static std::chrono::milliseconds milliseconds_left(const Deadline& deadline) {
    return std::max(std::chrono::milliseconds(1), std::chrono::ceil<std::chrono::milliseconds>(deadline.left()));
  }

  std::shared_ptr<tutti::Store> store_;
};

rendezvous::Launch launch_with_store(const Launch& given, const Environment& environment) {
  const int size = given.size.value_or(-1);
  const int rank = given.rank.value_or(-1);
  if (size < 1 || size > rendezvous::kMostRanks || rank < 0 || rank >= size) {
    throw Error(ErrorCode::invalid_argument, "init_with_store: rank " + std::to_string(rank) + " of a group of " +
                                                 std::to_string(size) + "; ranks count from 0 to size - 1");
  }
  rendezvous::Launch launch;
  launch.launcher = rendezvous::Launcher::program;
  launch.rank = rank;
  launch.size = size;
  if (size == 1) return launch;
  launch.one_host = false;
  launch.job = given.job.empty() ? "a group of " + std::to_string(size) : given.job;
  launch.place = rendezvous::Place::own_store;
  launch.where = given.rendezvous;
  const auto host = environment.get("MASTER_ADDR");
  const auto port = environment.get("MASTER_PORT");
  if (launch.where.empty() && host && port) {
    const std::string named = *host + ":" + *port;
    const std::string numbers = "[" + *host + "]:" + *port;  // an IPv6 address
    launch.where = rendezvous::parse(named) ? named : rendezvous::parse(numbers) ? numbers : "";
  }
  if (!launch.where.empty() && !rendezvous::parse(launch.where)) {
    throw Error(ErrorCode::invalid_argument,
                "init_with_store: rendezvous is '" + launch.where + "', which is no host:port");
  }
  return launch;
}

}  // namespace

Communicator init(const Options& given, const Launch& launch) {
  const Environment environment = with_launch(Environment::take_of_process(), launch);
  const Options options = with_variables(given, environment);
  return meet_as(rendezvous::recognise(environment), environment, options, next_meeting(), rendezvous::make_store);
}

Store::~Store() = default;

Communicator init_with_store(const Options& given, const Launch& launch, std::shared_ptr<Store> store) {
  if (store == nullptr) throw Error(ErrorCode::invalid_argument, "init_with_store: there is no store");
  const Environment environment = Environment::take_of_process().with_defaults(
      {{"TUTTI_TOKEN_FILE", launch.token_file}, {"TUTTI_INTERFACE", launch.interface}});
  const Options options = with_variables(given, environment);
  const auto own = std::make_shared<OwnStore>(std::move(store));
  return meet_as(launch_with_store(launch, environment), environment, options, 0,
                 [&](const rendezvous::Launch&, const Deadline&) { return own; });
}

}  // namespace tutti
