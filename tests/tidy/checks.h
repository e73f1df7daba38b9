// The checks of the house: each looks at one file (or at all) and returns its complaints, "path:line: what is wrong".
#pragma once

#include <string>
#include <vector>

#include "tidy/source.h"

namespace tutti::tidy {

using Complaints = std::vector<std::string>;

inline constexpr std::size_t kMostLines = 600;
inline constexpr std::size_t kManyLines = 300;
inline constexpr std::size_t kMostFunctionLines = 100;
inline constexpr std::size_t kMostAlgorithmLines = 100;
inline constexpr std::size_t kMostColumns = 120;

// Who may include whom.
Complaints check_include_direction(const Source& source);
// The schedule is pure: no clock, thread, socket, environment variable or file.
Complaints check_schedule_is_pure(const Source& source);
// What programs load does without std::filesystem, which others may bring in another form (base/folders.h).
Complaints check_no_filesystem(const Source& source);
// A header is included by somebody, a .cc is listed in a CMakeLists.txt.
Complaints check_dead_files(const std::vector<Source>& sources);

Complaints check_library_does_not_print(const Source& source);
Complaints check_words(const Source& source);
Complaints check_size(const Source& source);
Complaints check_function_sizes(const Source& source);
Complaints check_columns(const Source& source);
// A header opens with what it is and says #pragma once; so does a .cc of the library or the tool without a header.
Complaints check_opening(const Source& source);
// An algorithm is told by a picture and its cost.
Complaints check_algorithm_file(const Source& source);
// Every row of the algorithm table has its golden file.
Complaints check_golden_files(const std::vector<Source>& sources);
// Every page of docs is found from docs/index.md.
Complaints check_pages_are_linked(const std::vector<Source>& sources);
// Of src: one name of a type, one thing. Types inside of others do not count.
Complaints check_type_names(const std::vector<Source>& sources);

}  // namespace tutti::tidy
