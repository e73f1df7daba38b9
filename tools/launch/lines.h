// The output of a rank as whole lines, each behind the rank's prefix. Pure: bytes in, text out, any bytes but the
// newline are passed on as they are.
//
// A line longer than kLongestBytes comes out in pieces, each a line of its own with the prefix; the last line of a rank
// that ends without a newline gets one. Nothing of another rank ever gets inside a line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace tutti::tools {

class Lines {
 public:
  static constexpr std::size_t kLongestBytes = 64 << 10;

  explicit Lines(std::string prefix) : prefix_(std::move(prefix)) {}

  // Appends to `out` what `bytes` complete.
  void feed(std::string_view bytes, std::string& out);
  // Appends what is left of an unfinished line.
  void finish(std::string& out);

 private:
  void emit(std::string_view rest, std::string& out);

  std::string prefix_;
  std::string unfinished_;
};

}  // namespace tutti::tools
