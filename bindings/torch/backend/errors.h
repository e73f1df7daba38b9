// Errors of the core as exceptions that Python sees as its own: ValueError for calls that cannot be carried out as
// written, TypeError, and torch.distributed.DistBackendError for the rest. The core's words stay as they are.
#pragma once

#include <string>

#include "tutti/tutti.h"

namespace tutti::pytorch {

[[noreturn]] void throw_value(const std::string& words);
[[noreturn]] void throw_type(const std::string& words);
[[noreturn]] void throw_failure(const std::string& words);
// With the words that this thread's last failed call left.
[[noreturn]] void throw_code(tutti_code code);

inline void check(tutti_code code) {
  if (code != TUTTI_OK) throw_code(code);
}

}  // namespace tutti::pytorch
