// Where the costs of a set of hosts are kept between jobs, and what holds where nobody has measured them.
#pragma once

#include <string>
#include <vector>

#include "base/environment.h"
#include "base/log.h"
#include "topology/rates.h"

namespace tutti::topology {

// $TUTTI_COSTS, else a file of the user's cache folder that is named after the hosts; empty where there is no home.
std::string cost_file(const Environment& environment, std::vector<std::string> hosts);

// What the file says, or the usual costs of this machine where it says nothing that can be used.
CostTable costs_kept_in(const std::string& path);

// What the file says. Where there is none, or it cannot be used (which is worth a warning): the usual costs. A file
// that the caller has named must be there and be right: Error(invalid_argument).
CostTable find_costs(const Environment& environment, const std::vector<std::string>& hosts, const Log& log);

}  // namespace tutti::topology
