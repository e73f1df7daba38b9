#include "topology/discover/cost_file.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "base/folders.h"
#include "base/mix.h"
#include "topology/built_in.h"
#include "topology/discover/probe.h"
#include "topology/speeds.h"
#include "tutti/error.h"

namespace tutti::topology {
namespace {

int cores_here() { return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN))); }

// "costs-1234.json"
std::string name_of(const std::string& kind, const std::vector<std::string>& words) {
  std::uint64_t hash = words.size();
  for (const std::string& word : words) hash = mix(mix_letters(hash, word), 0x100);
  std::ostringstream text;
  text << kind << "-" << std::hex << hash << ".json";
  return text.str();
}

// Nothing where there is no such file.
std::string content_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return file ? text.str() : std::string();
}

// What tells this machine from another that has the same name and home.
std::vector<std::string> machine_here() {
  std::vector<std::string> words{std::to_string(cores_here())};
  if (utsname system{}; ::uname(&system) == 0) words.insert(words.end(), {system.nodename, system.machine});
  std::ifstream about("/proc/cpuinfo");
  for (std::string line; std::getline(about, line);) {
    if (line.starts_with("model name") || line.starts_with("CPU part")) return words.push_back(line), words;
  }
  return words;
}

// Those that were kept, or measured now and kept. Where they cannot be kept nothing is measured: it would be again for
// every job.
Speeds speeds_here(const Environment& environment, const Log& log) {
  const std::string folder = environment.cache_folder();
  if (folder.empty()) return {};
  const std::string path = folder + "/" + name_of("speeds", machine_here());
  if (const std::string text = content_of(path); !text.empty()) {
    try {
      return speeds_from_text(text);
    } catch (const Error&) {  // measured anew
    }
  }
  static_cast<void>(make_folders(folder));  // where it did not work the file cannot be opened
  const std::string beside = path + ".new-" + std::to_string(::getpid());
  std::ofstream file(beside);
  if (!file) return {};
  const Speeds speeds = measure_speeds();
  file << to_text(speeds);
  file.close();
  // On a busy machine something may have got no time: the next job tries again.
  const bool whole = all_known(speeds) || cores_here() == 1;
  if (!file || !whole || std::rename(beside.c_str(), path.c_str()) != 0)
    static_cast<void>(std::remove(beside.c_str()));
  else
    log.info("measured the speeds of this host, once; kept in " + path);
  return speeds;
}

}  // namespace

std::optional<CostTable> costs_kept_in(const std::string& path) {
  try {
    return costs_from_text(content_of(path));
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string cost_file(const Environment& environment, std::vector<std::string> hosts) {
  if (const auto named = environment.get("TUTTI_COSTS")) return *named;
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  const std::string folder = environment.cache_folder();
  return folder.empty() ? folder : folder + "/" + name_of("costs", hosts);
}

FoundCosts find_costs(const Environment& environment, const std::vector<std::string>& hosts, const Log& log) {
  const auto named = environment.get("TUTTI_COSTS");
  const std::string path = cost_file(environment, hosts);
  if (named != kBuiltIn && (named || exists(path))) {
    try {
      const std::string text = content_of(path);
      if (text.empty()) throw Error(ErrorCode::invalid_argument, "it cannot be read; `tutti tune` makes one");
      return {costs_from_text(text), true};
    } catch (const Error& error) {
      if (named) throw Error(error.code(), "TUTTI_COSTS is '" + path + "': " + error.what());
      log.warn(path + ": " + error.what());
    }
  }
  return {built_in_costs(cores_here(), speeds_here(environment, log)), false};
}

}  // namespace tutti::topology
