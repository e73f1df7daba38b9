// Rows for people and for programs: nccl-tests' table, JSON and CSV. Pure.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/row.h"

namespace tutti::bench {

// Two lines of headings, as comments.
std::string table_heading();
// The rows of one size: one line for each implementation, memory and algorithm, out of place and in place side by side.
std::string table_lines(const std::vector<Row>& rows);
// Whether the results were right, and the average bandwidth of ours.
std::string table_footer(const std::vector<Row>& rows);

// An array of objects whose keys are the columns of the CSV.
std::string json_of(const std::vector<Row>& rows);
std::string csv_of(const std::vector<Row>& rows);

}  // namespace tutti::bench
