#include "engine/schedule_files.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>

#include "base/mix.h"
#include "choice/chooser.h"
#include "choice/pricer.h"
#include "schedule/json.h"
#include "schedule/readers/verify.h"
#include "schedule/verbs.h"
#include "tutti/error.h"

namespace tutti::engine {
namespace {

constexpr std::size_t kMostFileBytes = 256 << 20;

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, "TUTTI_SCHEDULE: " + message);
}

std::string text_of_file(const std::string& path, Verb verb) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    refuse("cannot read '" + path + "', which is to hold the schedule of " + std::string(name_of(verb)) + ": " +
           std::strerror(errno));
  }
  std::string text;
  for (std::vector<char> piece(1 << 16); stream; text.append(piece.data(), static_cast<std::size_t>(stream.gcount()))) {
    if (text.size() > kMostFileBytes) refuse("'" + path + "' has more than 256 MB, which no file of programs has");
    stream.read(piece.data(), static_cast<std::streamsize>(piece.size()));
  }
  return text;
}

std::vector<schedule::Lowered> programs_of(const std::string& text, const std::string& path) {
  try {
    return schedule::from_json(text);
  } catch (const Error& error) {
    refuse("'" + path + "': " + error.what());
  }
}

bool any_operand(const std::vector<schedule::Lowered>& programs, bool (*wanted)(const schedule::Operand&)) {
  for (const schedule::Lowered& lowered : programs) {
    for (const schedule::Lane& lane : lowered.program.lanes) {
      for (const schedule::Step& step : lane.steps) {
        if (std::any_of(step.destinations.begin(), step.destinations.end(), wanted) ||
            std::any_of(step.sources.begin(), step.sources.end(), wanted))
          return true;
      }
    }
  }
  return false;
}

bool is_window(const schedule::Operand& operand) { return operand.kind == schedule::Operand::Kind::window; }
bool is_user_window(const schedule::Operand& operand) { return is_window(operand) && is_user_memory(operand); }

// Every complaint about the programs themselves, whoever is to run them.
void require_right(const std::vector<schedule::Lowered>& programs, const std::string& path, const std::string& where) {
  const schedule::VerifyReport report = schedule::verify_calls(programs, false);
  if (!report.ok()) refuse("'" + path + "' does not verify" + where + ": " + text_of(report.problems.front()));
}

ScheduleFile read_entry(std::string_view entry) {
  const std::size_t equals = entry.find('=');
  if (equals == std::string_view::npos || equals + 1 == entry.size())
    refuse("'" + std::string(entry) + "' should be verb=file, such as all_reduce=mine.json");
  const std::string_view name = entry.substr(0, equals);
  const Verb* const verb = choice::find_verb(name);
  if (verb == nullptr) refuse(choice::no_verb(name));
  if (*verb == Verb::send_recv) refuse("send_recv is between two ranks; schedules are for verbs of the whole group");
  ScheduleFile file{*verb, std::string(entry.substr(equals + 1)), 0, {}};
  const std::string text = text_of_file(file.path, *verb);
  file.hash = mix_letters(file.hash, text);
  file.programs = programs_of(text, file.path);
  const Verb written_for = file.programs.front().program.verb;
  if (written_for != *verb) {
    refuse("'" + file.path + "' is a schedule of " + std::string(name_of(written_for)) + ", not of " +
           std::string(name));
  }
  if (any_operand(file.programs, is_user_window)) {
    refuse("'" + file.path + "' has windows onto the callers' input or output, which would have to be symmetric " +
           "memory; use windows onto scratch, or messages");
  }
  require_right(file.programs, file.path, "");
  return file;
}

// What the programs are lowered to for a group: messages that were written to be copied once are, where ranks may.
Offers offers_for(const ScheduleFile& file, const Offers& offered) {
  const bool single_copy = is_single_copy(file.programs.front().offers.inside) && offered.inside.single_copy;
  Offers offers = single_copy ? single_copy_offers(offered) : offered;
  offers.segment_bytes = choice::segment_bytes_for(offers);
  return offers;
}

}  // namespace

ScheduleFiles read_schedules(const Options& options) {
  ScheduleFiles files;
  const std::string& text = options.schedule;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    files.push_back(read_entry(std::string_view(text).substr(at, end - at)));
    const auto same = [&](const ScheduleFile& file) { return file.verb == files.back().verb; };
    if (std::count_if(files.begin(), files.end(), same) > 1)
      refuse("two files for " + std::string(name_of(files.back().verb)));
    at = end + 1;
  }
  return files;
}

std::string words_of(const ScheduleFiles& files) {
  std::ostringstream text;
  for (const ScheduleFile& file : files)
    text << (text.tellp() == 0 ? "" : ",") << name_of(file.verb) << "=" << std::hex << file.hash << std::dec;
  return files.empty() ? "unset" : text.str();
}

void require_ranks(const ScheduleFile& file, int ranks) {
  if (static_cast<int>(file.programs.size()) == ranks) return;
  refuse("'" + file.path + "' is for " + std::to_string(file.programs.size()) + " ranks, and this group has " +
         std::to_string(ranks));
}

std::string why_not(const ScheduleFile& file, const Offers& offered) {
  const Offers& written_for = file.programs.front().offers;
  if (written_for.every(&EdgeOffers::operands_in_slots) && !offered.every(&EdgeOffers::operands_in_slots) &&
      file.programs.size() > 1)
    return "was written for ranks that all share memory, whose messages can be operands";
  const Offers offers = offers_for(file, offered);
  for (const schedule::Lowered& lowered : file.programs) {
    if (std::string why = schedule::why_not(lowered.program, offers); !why.empty()) return why;
  }
  return {};
}

choice::Given fitted(const ScheduleFile& file, const Options& options, const Offers& offered) {
  if (const std::string why = why_not(file, offered); !why.empty()) {
    throw Error(
        ErrorCode::unsupported,
        "TUTTI_SCHEDULE: '" + file.path + "' " + why +
            ", which the transport of this group does not offer; write it for another (tutti show --transport)");
  }
  const Offers offers = offers_for(file, offered);
  choice::Given given;
  for (const schedule::Lowered& lowered : file.programs)
    given.programs.push_back(schedule::lower(lowered.program, offers));
  require_right(given.programs, file.path, " for the transport of this group");
  const schedule::VerifyReport in_place = schedule::verify_calls(given.programs, true);
  given.name = given.programs.front().program.algorithm;
  given.root = given.programs.front().program.root;
  given.row.verb = file.verb;
  given.row.generate = nullptr;
  given.row.order =
      schedule::verify_calls(given.programs, false).canonical ? schedule::Order::hosts : schedule::Order::own;
  given.row.scratch_windows = any_operand(given.programs, is_window);
  given.row.in_place = in_place.ok();
  given.row.single_copy = is_single_copy(offers.inside);
  given.row.single_copy_in_place = in_place.ok();
  given.row.good_at = "brought by the caller";
  if (options.deterministic && !given.row.canonical()) {
    refuse("'" + file.path + "' does not reduce in canonical order; set Options::deterministic to false to run it");
  }
  return given;
}

}  // namespace tutti::engine
