// What `tutti tune` tells of a group that was measured: in words, and as JSON for scripts.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tutti/tune.h"

namespace tutti::tools {

using Json = nlohmann::ordered_json;

// `what`: "2 ranks, shared memory". On rank 0, which alone has all of it.
Json told_of(const Tuned& tuned, const std::string& what, bool with_calls);

// The same for people, who see the calls that were timed where it has them.
std::string words_of_tuned(const Json& told);

}  // namespace tutti::tools
