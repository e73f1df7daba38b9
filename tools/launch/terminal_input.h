// What is typed on the launcher's terminal, passed on to rank 0 through a pipe.
//
// Ranks lead process groups of their own, so that Ctrl-C reaches them once, from the launcher; therefore only the
// launcher's group may read the terminal. Input that is not a terminal is inherited by rank 0 and needs none of this.
#pragma once

#include <string>

#include "base/file_descriptor.h"

namespace tutti::tools {

class TerminalInput {
 public:
  // Whether standard input is a terminal.
  static bool is_needed();

  TerminalInput();
  int reading_end() const { return reading_.get(); }
  void let_go_of_reading_end() { reading_.reset(); }

  bool wants_to_read() const { return writing_.valid() && typed_.empty() && !waiting_for_foreground_; }
  bool wants_to_write() const { return writing_.valid() && !typed_.empty(); }
  int writing_descriptor() const { return writing_.get(); }
  void read_some();
  void write_some();
  // After SIGCONT the launcher may be in the foreground again.
  void resume() { waiting_for_foreground_ = false; }

 private:
  FileDescriptor reading_;
  FileDescriptor writing_;
  std::string typed_;
  bool waiting_for_foreground_ = false;
};

}  // namespace tutti::tools
