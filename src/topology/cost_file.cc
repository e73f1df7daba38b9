#include "topology/cost_file.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/mix.h"
#include "tutti/error.h"

namespace tutti::topology {
namespace {

std::string name_of(const std::vector<std::string>& hosts) {
  std::uint64_t hash = hosts.size();
  for (const std::string& host : hosts) {
    for (const char letter : host) hash = mix(hash, static_cast<unsigned char>(letter));
    hash = mix(hash, 0x100);
  }
  std::ostringstream text;
  text << "costs-" << std::hex << hash << ".json";
  return text.str();
}

// Nothing where there is no such file.
std::string content_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return file ? text.str() : std::string();
}

CostTable usual_costs_here() { return usual_costs(static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)))); }

}  // namespace

CostTable costs_kept_in(const std::string& path) {
  try {
    return costs_from_text(content_of(path));
  } catch (const Error&) {
    return usual_costs_here();
  }
}

std::string cost_file(const Environment& environment, std::vector<std::string> hosts) {
  if (const auto named = environment.get("TUTTI_COSTS")) return *named;
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  if (const auto cache = environment.get("XDG_CACHE_HOME")) return *cache + "/tutti/" + name_of(hosts);
  if (const auto home = environment.get("HOME")) return *home + "/.cache/tutti/" + name_of(hosts);
  return {};
}

CostTable find_costs(const Environment& environment, const std::vector<std::string>& hosts, const Log& log) {
  const std::string path = cost_file(environment, hosts);
  const std::string text = path.empty() ? "" : content_of(path);
  const bool named = environment.get("TUTTI_COSTS").has_value();
  if (!text.empty() || named) {
    try {
      if (text.empty()) throw Error(ErrorCode::invalid_argument, "it cannot be read; `tutti tune` makes one");
      return costs_from_text(text);
    } catch (const Error& error) {
      if (named) throw Error(error.code(), "TUTTI_COSTS is '" + path + "': " + error.what());
      log.warn(path + ": " + error.what());
    }
  }
  return usual_costs_here();
}

}  // namespace tutti::topology
