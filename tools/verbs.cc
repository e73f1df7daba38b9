#include "tools/verbs.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>

#include "tutti/error.h"

namespace tutti::tools {

void refuse(const std::string& why) { throw Error(ErrorCode::invalid_argument, why); }

CLI::Validator number_between(double least, double most) {
  const auto check = [least, most](const std::string& text) {
    double number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    const bool good = error == std::errc() && rest == end && number >= least && number <= most;
    return good ? std::string()
                : fmt::format("a number from {:g} to {:g} belongs there, not '{}'", least, most, text.substr(0, 40));
  };
  return CLI::Validator(check, "");
}

void say(const char* verb, const std::string& sentence) {
  std::fputs(fmt::format("tutti {}: {}\n", verb, sentence).c_str(), stderr);
}

}  // namespace tutti::tools
