#include "tools/launch/lines.h"

#include <algorithm>

namespace tutti::tools {

void Lines::feed(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    const std::string_view reach = bytes.substr(0, kLongestBytes - unfinished_.size());
    const std::size_t newline = reach.find('\n');
    if (newline != std::string_view::npos) {
      emit(reach.substr(0, newline), out);
      bytes.remove_prefix(newline + 1);
    } else if (unfinished_.size() + reach.size() == kLongestBytes && bytes.size() > reach.size()) {
      emit(reach, out);
      bytes.remove_prefix(reach.size());
      if (bytes.front() == '\n') bytes.remove_prefix(1);  // the line was exactly as long as a piece
    } else {
      unfinished_ += reach;
      bytes.remove_prefix(reach.size());
    }
  }
}

void Lines::finish(std::string& out) {
  if (!unfinished_.empty()) emit({}, out);
}

void Lines::emit(std::string_view rest, std::string& out) {
  out += prefix_;
  out += unfinished_;
  out += rest;
  out += '\n';
  unfinished_.clear();
}

}  // namespace tutti::tools
