// How long a message there and back takes, from some of them: the quickest counts, because others may have waited for a
// core. Where they take long there are fewer, but not while they still become clearly quicker: a machine that was busy
// with something else a moment ago says nothing of the way. Pure.
#pragma once

#include <algorithm>
#include <chrono>

namespace tutti::engine {

class RoundTrips {
 public:
  using Seconds = std::chrono::duration<double>;

  void add(Seconds took) {
    ++count_;
    all_ += took;
    if (took < kClearly * quickest_) improved_ = count_;
    quickest_ = std::min(quickest_, took);
  }
  // Whether more of them would tell little.
  bool enough() const { return count_ >= kMost || (count_ - improved_ >= kFew && all_ >= kLongEnough); }
  Seconds quickest() const { return quickest_; }

 private:
  static constexpr int kFew = 7, kMost = 39;
  static constexpr std::chrono::milliseconds kLongEnough{8};
  static constexpr double kClearly = 0.9;  // of what was the quickest

  int count_ = 0, improved_ = 0;  // improved_: the last that was clearly quicker than all before
  Seconds all_{0}, quickest_ = std::chrono::hours(1);
};

}  // namespace tutti::engine
