// A trace of a run (docs/trace.md), for the page: its slices, laid out flat. Pure.
//
//   { "version": 1, "kind": "trace", "title": "run.json", "ranks": 4, "span_us": 1234.5, "notes": ["it is cut off"],
//     "rows": ["program", "lane 0"], "categories": ["call"], "names": ["all_reduce", "ring"],
//     "events": [rank, row, category, name, begin, duration, detail, ...],               in the order of their begins
//     "calls": [[bytes, name of the algorithm or -1, predicted_us or -1, waited_us]] }
//
// The detail is a number of a call, the peer of a wait, or -1.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tutti::view {

// Of a file that is cut off, what is readable. Throws Error(invalid_argument) where that is no trace of a job.
nlohmann::ordered_json traced_json(std::string_view text, const std::string& title);

}  // namespace tutti::view
