#include "tools/verbs.h"

#include <fmt/format.h>

#include <cstdio>

#include "tutti/error.h"

namespace tutti::tools {

void refuse(const std::string& why) { throw Error(ErrorCode::invalid_argument, why); }

void say(const char* verb, const std::string& sentence) {
  std::fputs(fmt::format("tutti {}: {}\n", verb, sentence).c_str(), stderr);
}

}  // namespace tutti::tools
