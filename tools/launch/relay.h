// Carries one stream of a rank, a pipe, to a stream of the launcher, line by line.
#pragma once

#include <string>

#include "base/file_descriptor.h"
#include "tools/launch/lines.h"
#include "tools/launch/outlet.h"

namespace tutti::tools {

class Relay {
 public:
  // Makes the pipe; the rank gets writing_end(), which is to be let go of once it runs.
  Relay(const std::string& prefix, Outlet& outlet);

  int writing_end() const { return writing_.get(); }
  void let_go_of_writing_end() { writing_.reset(); }

  int descriptor() const { return reading_.get(); }
  bool open() const { return reading_.valid(); }
  bool wants_to_read() const { return open() && outlet_->has_room(); }
  bool leads_to_nobody() const { return outlet_->broken(); }
  // Reads what is there, up to a pipe full; ends the relay where the rank has closed its end.
  void read_some();
  // The rank is over: reads what is left, and ends the relay whoever else may hold the pipe.
  void finish();
  // Nobody reads where this leads to: the rank is told by its next write.
  void drop() { reading_.reset(); }

 private:
  // Returns whether there may be more.
  bool read_once();
  void close();

  FileDescriptor reading_;
  FileDescriptor writing_;
  Lines lines_;
  Outlet* outlet_;
};

}  // namespace tutti::tools
