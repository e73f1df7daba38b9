// What to tell somebody who asked for a name that there is none of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tutti {

// The names most like `name`, the nearest first, three at most: a few letters apart, or one within the other.
std::vector<std::string_view> nearest_names(std::string_view name, const std::vector<std::string_view>& names);

// "no verb 'all_redus'; did you mean all_reduce? there are: all_reduce, ...", without the question where none is near.
// `what` may go on behind the name: "algorithm 'rign' of all_reduce".
std::string none_called(const std::string& what, std::string_view name, const std::vector<std::string_view>& names,
                        const std::string& behind = "");

}  // namespace tutti
