#include "capi/errors.h"

#include <exception>
#include <new>
#include <string_view>

namespace tutti::capi {
namespace {

// What the last failed call of this thread left.
struct Told {
  std::string words;
  const char* text = "";  // words, or a literal where there was no memory for them
  int rank = -1;
};
thread_local Told told;

void keep(const char* words, int rank = -1) noexcept {
  told.rank = rank;
  try {
    told.words = words;
    told.text = told.words.c_str();
  } catch (...) {
    told.text = "out of memory, too little even for the words of the error";
  }
}

#define TUTTI_TEXT(x) #x
#define TUTTI_DOTTED(major, minor, patch) TUTTI_TEXT(major) "." TUTTI_TEXT(minor) "." TUTTI_TEXT(patch)
constexpr const char* kVersion = TUTTI_DOTTED(TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH);
static_assert(std::string_view(kVersion) == TUTTI_VERSION, "tutti.h and CMakeLists.txt disagree about the version");

}  // namespace

tutti_code keep_current_exception() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    keep(error.what(), error.peer());
    return static_cast<tutti_code>(static_cast<int>(error.code()) + 1);  // enumerators.cc holds them together
  } catch (const std::bad_alloc&) {
    keep("out of memory");
  } catch (const std::exception& error) {
    keep(error.what());
  } catch (...) {
    keep("something was thrown that is no std::exception");
  }
  return TUTTI_SYSTEM;
}

void reject(const std::string& what) { throw Error(ErrorCode::invalid_argument, what); }

}  // namespace tutti::capi

extern "C" {

const char* tutti_error_message(void) { return tutti::capi::told.text; }
int tutti_error_rank(void) { return tutti::capi::told.rank; }
const char* tutti_version(void) { return tutti::capi::kVersion; }

const char* tutti_code_name(tutti_code code) {
  static constexpr const char* kNames[] = {"ok",
#define X(name) #name,
                                           TUTTI_ERROR_CODES(X)
#undef X
  };
  const auto index = static_cast<unsigned>(code);
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

}  // extern "C"
