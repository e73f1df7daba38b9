// printf into a string.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>

namespace tutti {

// What is longer than a line of text, 511 bytes, is cut.
[[gnu::format(printf, 1, 2)]] inline std::string formatted(const char* format, ...) {
  char line[512];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  return line;
}

}  // namespace tutti
