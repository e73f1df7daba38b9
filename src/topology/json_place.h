// Where in a text of JSON a value stands, which the parser forgets.
#pragma once

#include <cstddef>
#include <string_view>

namespace tutti::topology {

// The byte at which the value of a path such as links[2].up begins, or the innermost around it that there is. The text
// must be JSON.
std::size_t offset_of_value(std::string_view text, std::string_view path);

}  // namespace tutti::topology
