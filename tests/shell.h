// A shell command and what became of it.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace tutti::testing {

struct Ended {
  int exit_code = -1;  // 128 + number where a signal ended it
  std::string output;
};

// `redirect` is shell text, by default one that shows errors as well.
inline Ended shell(const std::string& command, const std::string& redirect = "2>&1") {
  Ended ended;
  FILE* pipe = ::popen((command + " " + redirect).c_str(), "r");
  if (pipe == nullptr) return ended;
  std::array<char, 4096> piece{};
  for (std::size_t got = 0; (got = std::fread(piece.data(), 1, piece.size(), pipe)) > 0;) {
    ended.output.append(piece.data(), got);
  }
  const int status = ::pclose(pipe);
  ended.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ended;
}

inline int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

}  // namespace tutti::testing
