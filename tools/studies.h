// The studies, one file each, within `tutti study`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tutti::tools {

void add_study_bandwidth(CLI::App& study, int& exit_code);
// `program` is what split_off_program found, and is read when the study runs.
void add_study_scaling(CLI::App& study, int& exit_code, const std::vector<std::string>& program);
void add_study_straggler(CLI::App& study, int& exit_code);

}  // namespace tutti::tools
