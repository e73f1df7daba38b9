// The one exception type of the library: a code, the facts, and what to do about it.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "tutti/export.h"

namespace tutti {

// X(name)
#define TUTTI_ERROR_CODES(X)                                                         \
  X(invalid_argument) /* a call that cannot be carried out as written */             \
  X(unsupported)      /* the type lacks the operator, or the platform the feature */ \
  X(timeout)          /* a peer did not answer within the deadline */                \
  X(peer_lost)        /* a peer's process ended */                                   \
  X(peer_failed)      /* a peer gave up after an error of its own */                 \
  X(mismatch)         /* ranks called different operations */                        \
  X(aborted)          /* the communicator failed earlier */                          \
  X(system)           /* the operating system refused a request */

enum class ErrorCode : unsigned char {
#define X(name) name,
  TUTTI_ERROR_CODES(X)
#undef X
};

constexpr std::string_view name_of(ErrorCode code) {
  constexpr std::string_view kNames[] = {
#define X(name) #name,
      TUTTI_ERROR_CODES(X)
#undef X
  };
  return kNames[static_cast<std::size_t>(code)];
}

class TUTTI_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message, int peer = -1)
      : std::runtime_error(message), code_(code), peer_(peer) {}

  ErrorCode code() const { return code_; }
  // The rank that caused the error, or -1 where no single rank did.
  int peer() const { return peer_; }

 private:
  ErrorCode code_;
  int peer_;
};

}  // namespace tutti
