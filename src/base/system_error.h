// Errors of the operating system as tutti::Error, with the call and the reason in words.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>

#include "tutti/error.h"

namespace tutti {

[[noreturn]] inline void throw_errno(const std::string& what) {
  const int number = errno;
  throw Error(ErrorCode::system, what + ": " + std::strerror(number));
}

}  // namespace tutti
