// Where the costs of a set of hosts are kept between jobs, and what holds where nobody has measured them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/log.h"
#include "topology/rates.h"

namespace tutti::topology {

// TUTTI_COSTS by this name: the built-in costs, whatever was measured.
inline constexpr const char* kBuiltIn = "built-in";

// $TUTTI_COSTS, else a file of the user's cache folder that is named after the hosts; empty where there is no home.
std::string cost_file(const Environment& environment, std::vector<std::string> hosts);

// What the file says, if it says what can be used.
std::optional<CostTable> costs_kept_in(const std::string& path);

struct FoundCosts {
  CostTable table;
  bool tuned = false;  // they were measured here, by `tutti tune`
};

// What the file says. Where there is none, or it cannot be used (which is worth a warning): the built-in costs, carried
// over to this host by its speeds, which are measured when it is first used and kept beside the costs. A file that the
// caller has named must be there and be right: Error(invalid_argument).
FoundCosts find_costs(const Environment& environment, const std::vector<std::string>& hosts, const Log& log);

}  // namespace tutti::topology
