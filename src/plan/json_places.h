// Where in a file of JSON something stands, as a byte offset: parsers forget that. The text must be JSON, but for
// numbers that are too large.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace tutti::plan {

// Of a key of the outermost object, the last where it is there twice; none where it is not there as it is spelt.
std::optional<std::size_t> place_of_key(std::string_view text, std::string_view key);
// Of the first number that is beyond what a double holds.
std::optional<std::size_t> place_of_overflow(std::string_view text);

}  // namespace tutti::plan
