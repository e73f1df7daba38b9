#include "base/log.h"

#include <unistd.h>

#include "tutti/error.h"

namespace tutti {
namespace {

constexpr std::string_view kWords[] = {"off", "warn", "info", "debug"};

}  // namespace

Log::Level Log::level_of(std::string_view word) {
  for (std::size_t i = 0; i < std::size(kWords); ++i) {
    if (word == kWords[i]) return static_cast<Level>(i);
  }
  throw Error(ErrorCode::invalid_argument,
              "TUTTI_LOG is '" + std::string(word) + "'; it may be off, warn, info or debug");
}

void Log::write(Level level, std::string_view text) const {
  if (!says(level)) return;
  std::string line = "[tutti";
  if (rank_ >= 0) line += " rank " + std::to_string(rank_);
  line += "] ";
  if (level == Level::warn) line += "warning: ";
  line += text;
  line += '\n';
  // Nobody is left to tell if this fails.
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0) return;
}

}  // namespace tutti
