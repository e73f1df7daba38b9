// A process started by a test, with its standard input and output in the test's hands; ended with its owner.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"

namespace tutti::rendezvous {

class Child {
 public:
  // Found on PATH; `extra` are NAME=value. Throws Error where it cannot be executed.
  explicit Child(const std::vector<std::string>& arguments, const std::vector<std::string>& extra = {});
  Child(Child&&) = delete;
  ~Child();

  // The next line of its output, or nothing at its end. Fails the test and returns nothing after the limit.
  std::optional<std::string> read_line(std::chrono::seconds limit);
  // Whether there is a line to read, or the end of its output, within the limit.
  bool says_within(std::chrono::seconds limit);
  void write_line(const std::string& line);
  // All that is left of its output; then waits for its end and tells its status: its exit code, or -signal.
  std::string read_all(std::chrono::seconds limit);
  int wait();

 private:
  bool has_line() const { return read_.find('\n') != std::string::npos; }
  // Whether there was anything to read, be it the end.
  bool read_some(const Deadline& deadline);

  bool ended_ = false;  // its output
  pid_t pid_ = -1;
  int status_ = 0;
  FileDescriptor input_;
  FileDescriptor output_;
  std::string read_;
};

// Whether the program can be found on PATH.
bool is_installed(const std::string& program);

}  // namespace tutti::rendezvous
