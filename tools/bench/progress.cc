#include "tools/bench/progress.h"

#include <fmt/format.h>

namespace tutti::bench {

void Progress::headline(std::string text) {
  headline_ = text + ": ";
  began_ = std::chrono::steady_clock::now();
}

void Progress::show(std::size_t done, std::size_t all, const std::string& what) {
  if (!terminal_) return;
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - began_;
  std::string left;
  if (done > 0 && all > 0) {
    const double seconds = spent.count() / static_cast<double>(done) * static_cast<double>(all - done);
    left = fmt::format(", about {:.0f} s left", seconds);
  }
  const std::string text =
      all == 0 ? fmt::format("{}{}", headline_, what) : fmt::format("{}{}/{}  {}{}", headline_, done, all, what, left);
  std::fputs(fmt::format("\r\x1b[K{}", text).c_str(), stderr);
  shown_ = true;
}

void Progress::clear() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
  shown_ = false;
}

}  // namespace tutti::bench
