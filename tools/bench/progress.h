// A line on the terminal that says how far a long run is; nothing where standard error is no terminal.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>

namespace tutti::bench {

class Progress {
 public:
  // What stands before the rest of the line from now on, and the clock begins anew.
  void headline(std::string text);
  // `all` = 0: nobody knows yet.
  void show(std::size_t done, std::size_t all, const std::string& what);
  // Before anything else is printed.
  void clear();

 private:
  bool terminal_ = ::isatty(STDERR_FILENO) != 0;
  bool shown_ = false;
  std::string headline_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace tutti::bench
