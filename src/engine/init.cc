#include "tutti/init.h"

#include <atomic>

#include "base/environment.h"
#include "engine/factory.h"
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
  if (const auto word = environment.word("TUTTI_TRANSPORT")) {
    options.transport = *word == "shm"   ? TransportKind::shm
                        : *word == "tcp" ? TransportKind::tcp
                                         : TransportKind::automatic;
  }
  if (const auto name = environment.get("TUTTI_ALGORITHM")) options.algorithm = *name;
  return options;
}

// Meetings of this process so far: ranks that meet twice must not be taken for late ones of the first time.
unsigned next_meeting() {
  static std::atomic<unsigned> meetings{0};
  return meetings.fetch_add(1);
}

}  // namespace

Communicator init(const Options& given, const Launch& launch) {
  const Environment environment = with_launch(Environment::of_process(), launch);
  const Options options = with_variables(given, environment);
  const rendezvous::Launch found = rendezvous::recognise(environment);
  const Log log(Log::level_of(environment.word("TUTTI_LOG").value_or("warn")), found.rank);
  const Deadline deadline = Deadline::after(options.timeout);
  rendezvous::Rendezvous place = rendezvous::arrange(found, environment, next_meeting(), deadline, log);

  rendezvous::MeetingOptions meeting;
  meeting.rank = found.rank;
  meeting.size = found.size;
  meeting.job = place.job;
  meeting.lobby = place.lobby;
  meeting.keep_lobby = place.keep_lobby;
  meeting.publish = std::move(place.publish);
  meeting.token = std::move(place.token);
  meeting.wanted = engine::wanted(options.transport);
  meeting.settings = engine::settings(options);
  meeting.channels = engine::Engine::kTracks + 1;
  meeting.interface = environment.get("TUTTI_INTERFACE").value_or("");
  if (const auto ms = environment.number("TUTTI_SILENCE_MS")) {
    meeting.silence = std::chrono::milliseconds(*ms);
  }
  meeting.deadline = deadline;
  meeting.log = log;
  return Communicator(engine::make_engine(rendezvous::meet(meeting), options, log, Deadline::after(options.timeout)));
}

}  // namespace tutti
