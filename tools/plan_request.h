// What `tutti plan` and the commands within it share: settings of a job as options.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "plan/job.h"

namespace tutti::tools {

// Adds an option for every setting; what is given comes into `words`, which must outlive the parsing.
void add_plan_settings(CLI::App& app, plan::JobWords& words);
// Of this host, as jobs that start here find them.
plan::HostCosts costs_here();

}  // namespace tutti::tools
