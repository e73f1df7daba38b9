// What the library says while it works: nothing, unless TUTTI_LOG asks for it. Warnings are said by default.
//
// A line is one write to standard error, so lines of different ranks do not mix. A value; cheap to copy.
#pragma once

#include <string>
#include <string_view>

namespace tutti {

class Log {
 public:
  enum class Level : unsigned char { off, warn, info, debug };

  Log() = default;  // says nothing
  Log(Level level, int rank) : level_(level), rank_(rank) {}

  // off, warn, info or debug; throws Error(invalid_argument) for another word.
  static Level level_of(std::string_view word);

  bool says(Level level) const { return level <= level_; }
  void warn(std::string_view text) const { write(Level::warn, text); }
  void info(std::string_view text) const { write(Level::info, text); }
  void debug(std::string_view text) const { write(Level::debug, text); }

 private:
  void write(Level level, std::string_view text) const;

  Level level_ = Level::off;
  int rank_ = -1;
};

}  // namespace tutti
