#include "backend/errors.h"

#include <c10/util/Exception.h>

namespace tutti::pytorch {

void throw_value(const std::string& words) { C10_THROW_ERROR(ValueError, words); }
void throw_type(const std::string& words) { C10_THROW_ERROR(TypeError, words); }
void throw_failure(const std::string& words) { C10_THROW_ERROR(DistBackendError, words); }

void throw_code(tutti_code code) {
  std::string words = tutti_error_message();
  if (code == TUTTI_TIMEOUT) words.insert(0, "tutti: timeout - ");  // programs look for " timeout "
  if (code == TUTTI_INVALID_ARGUMENT) throw_value(words);
  if (code == TUTTI_UNSUPPORTED) throw_type(words);
  throw_failure(words);
}

}  // namespace tutti::pytorch
