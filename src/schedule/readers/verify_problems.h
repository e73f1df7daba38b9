// What the verifier found, bounded: the first problems matter, a broken program can have thousands.
#pragma once

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "schedule/readers/verify.h"

namespace tutti::schedule::verification {

inline constexpr auto kMalformed = Problem::Kind::malformed;

class Problems {
 public:
  static constexpr std::size_t kMost = 16;

  bool empty() const { return found_.empty(); }

  // Parts are joined only here, so that a correct program pays for no text.
  template <class... Parts>
  void add(Problem::Kind kind, const Parts&... parts) {
    if (found_.size() == kMost) return;
    std::ostringstream text;
    (text << ... << parts);
    found_.push_back({kind, text.str()});
  }

  std::vector<Problem> take() { return std::move(found_); }

 private:
  std::vector<Problem> found_;
};

}  // namespace tutti::schedule::verification
