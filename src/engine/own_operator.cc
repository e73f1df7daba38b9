#include "engine/own_operator.h"

#include <string>

#include "tutti/error.h"

namespace tutti::engine {

void apply_own(const Operator& own, void* result, const void* left, const void* right, std::uint64_t count) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorCode::invalid_argument,
                "the operator" + (own.name.empty() ? "" : " '" + own.name + "'") + " threw " + what);
  };
  try {
    own.combine(result, left, right, count);
  } catch (const std::exception& error) {
    fail(std::string("an exception: ") + error.what());
  } catch (...) {
    fail("something that is no std::exception");
  }
}

}  // namespace tutti::engine
