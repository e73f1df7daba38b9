// The checks that follow includes.
#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "tidy/checks.h"

namespace tutti::tidy {
namespace {

std::string at(const Source& source, std::size_t line) { return source.path + ":" + std::to_string(line) + ": "; }

std::string first_folder(std::string_view path) {
  const std::size_t slash = path.find('/');
  return std::string(slash == std::string_view::npos ? "" : path.substr(0, slash));
}

// What a folder may include besides itself and tutti/types.h and tutti/error.h, which everyone may.
struct Rule {
  bool public_headers = false;
  std::set<std::string> folders;
};

const std::map<std::string, Rule>& rules() {
  static const std::map<std::string, Rule> kRules{
      {"include", {true, {}}},
      {"base", {false, {}}},
      {"kernels", {false, {"base"}}},
      {"topology", {false, {"base"}}},
      {"device", {false, {"base"}}},
      {"schedule", {false, {"base", "topology"}}},
      {"choice", {false, {"base", "topology", "schedule"}}},
      {"trace", {false, {"base", "topology", "schedule"}}},
      {"transport", {false, {"base", "topology"}}},
      {"rendezvous", {false, {"base", "topology"}}},
      {"runtime", {false, {"base", "transport", "rendezvous"}}},
      {"engine",
       {true,
        {"base", "kernels", "device", "topology", "schedule", "choice", "trace", "transport", "rendezvous",
         "runtime"}}},
      {"capi", {true, {}}},
      {"strategy", {false, {"base", "topology", "schedule"}}},
      {"train", {true, {"base", "kernels", "strategy"}}},
      {"plan", {true, {"base", "topology", "schedule", "choice", "strategy"}}},
      {"bindings", {true, {}}},
      {"tools", {true, {"base", "plan", "strategy", "topology", "schedule", "choice", "trace", "rendezvous"}}},
  };
  return kRules;
}

// "transport/shm" for a file in there, "transport" for one beside the folders.
std::string transport_of(std::string_view path) {
  const std::size_t slash = path.find('/', std::string_view("transport/").size());
  return std::string(slash == std::string_view::npos ? "transport" : path.substr(0, slash));
}

bool transport_may_see(const std::string& from, const std::string& to) {
  if (to == "transport" || from == to) return true;
  return to == "transport/memory" && (from == "transport/threads" || from == "transport/shm");
}

}  // namespace

Complaints check_include_direction(const Source& source) {
  const bool in_src = source.is_under("src/");
  const std::string inside = in_src ? source.path.substr(4) : source.path;
  const std::string folder = first_folder(inside);
  const auto rule = rules().find(folder);
  if (!source.is_code() || rule == rules().end()) return {};
  Complaints complaints;
  for (const Include& include : includes_of(source)) {
    const std::string target = first_folder(include.target);
    if (!include.quoted) continue;
    if (target.empty()) {
      complaints.push_back(at(source, include.line) + "say the folder of " + include.target);
      continue;
    }
    if (target == "tutti") {
      const bool everyones = include.target == "tutti/types.h" || include.target == "tutti/error.h";
      const bool values = folder == "strategy" && (include.target == "tutti/train/report.h" ||
                                                   include.target == "tutti/train/pipeline_schedule.h" ||
                                                   include.target == "tutti/train/tensor_parallel_shape.h");
      if (everyones || values || rule->second.public_headers) continue;
    } else if (folder == "schedule" && include.target.starts_with("topology/discover/")) {
      // what this machine is like is no business of pure programs
    } else if (target == folder) {
      if (folder != "transport" || transport_may_see(transport_of(inside), transport_of(include.target))) continue;
    } else if (rule->second.folders.contains(target) || !rules().contains(target)) {
      continue;  // allowed, or not ours
    }
    complaints.push_back(at(source, include.line) + folder + " may not include " + include.target);
  }
  return complaints;
}

Complaints check_schedule_is_pure(const Source& source) {
  static const std::set<std::string> kBanned{
      "chrono", "thread",    "mutex",        "shared_mutex", "atomic",     "condition_variable",
      "future", "semaphore", "latch",        "barrier",      "stop_token", "ctime",
      "time.h", "fstream",   "iostream",     "cstdlib",      "stdlib.h",   "filesystem",
      "random", "unistd.h",  "sys/socket.h", "fcntl.h",      "poll.h",     "pthread.h"};
  static const std::regex kCalls(R"(\b(getenv|secure_getenv|fopen|socket|rand|time|clock_gettime)\s*\()");
  if (!(source.is_under("src/schedule/") || source.is_under("src/strategy/")) || !source.is_code()) return {};
  const std::string pure = ": the " + first_folder(source.path.substr(4)) + " is pure, without ";
  Complaints complaints;
  for (const Include& include : includes_of(source)) {
    if (!include.quoted && kBanned.contains(include.target)) {
      complaints.push_back(source.path + ":" + std::to_string(include.line) + pure + "<" + include.target + ">");
    }
  }
  const std::string code = code_of(source.text);
  for (std::sregex_iterator call(code.begin(), code.end(), kCalls), end; call != end; ++call) {
    complaints.push_back(source.path + pure + (*call)[1].str());
  }
  return complaints;
}

Complaints check_no_filesystem(const Source& source) {
  Complaints complaints;
  if (!source.is_under("src/") && !source.is_under("include/") && !source.is_under("bindings/")) return complaints;
  for (const Include& include : includes_of(source)) {
    if (include.target == "filesystem")
      complaints.push_back(at(source, include.line) + "use base/folders.h, which says why");
  }
  return complaints;
}

Complaints check_dead_files(const std::vector<Source>& sources) {
  std::set<std::string> included;
  for (const Source& source : sources) {
    for (const Include& include : includes_of(source)) included.insert(include.target);
  }
  const auto is_included = [&](const std::string& path) {
    return std::any_of(included.begin(), included.end(),
                       [&](const std::string& target) { return path == target || path.ends_with("/" + target); });
  };
  const auto is_listed = [&](const Source& code) {
    return std::any_of(sources.begin(), sources.end(), [&](const Source& list) {
      if (list.file_name() != "CMakeLists.txt" && list.file_name() != "setup.py") return false;
      const std::string folder = list.path.substr(0, list.path.size() - list.file_name().size());
      if (!code.path.starts_with(folder)) return false;
      const std::string name = code.path.substr(folder.size());
      // Each part of the path as it is, or as a star.
      const std::string parts = std::regex_replace(name, std::regex(R"([^/.]+(?=[/.]))"), R"(($&|\*))");
      const std::string pattern = std::regex_replace(parts, std::regex(R"(\.)"), "\\.");
      return std::regex_search(list.text, std::regex("(^|[\\s(\"])" + pattern + "($|[\\s)\"])"));
    });
  };
  Complaints complaints;
  for (const Source& source : sources) {
    if (source.is_header() && !source.is_under("include/") && !is_included(source.path)) {
      complaints.push_back(source.path + ": included by nobody");
    }
    if (source.is_code() && !source.is_header() && !is_listed(source)) {
      complaints.push_back(source.path + ": in no CMakeLists.txt or setup.py of its folder or one above");
    }
  }
  return complaints;
}

}  // namespace tutti::tidy
