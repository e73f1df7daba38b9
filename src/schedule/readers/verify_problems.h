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
    full_ = found_.size() == kMost;
    if (!full_) found_.push_back({kind, joined(parts...), {}});
  }

  // A line of the story of the problem that was added last.
  template <class... Parts>
  void tell(const Parts&... parts) {
    if (!full_) found_.back().story.push_back(joined(parts...));
  }

  std::vector<Problem> take() { return std::move(found_); }

 private:
  template <class... Parts>
  static std::string joined(const Parts&... parts) {
    std::ostringstream text;
    (text << ... << parts);
    return text.str();
  }

  std::vector<Problem> found_;
  bool full_ = false;  // the last one found no place
};

}  // namespace tutti::schedule::verification
