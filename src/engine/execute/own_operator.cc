#include "engine/execute/own_operator.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/canonical.h"
#include "tutti/error.h"

namespace tutti::engine {

std::string words_of(const Operator& own) { return "the operator" + (own.name.empty() ? "" : " '" + own.name + "'"); }

void apply_own(const Operator& own, void* result, const void* left, const void* right, std::uint64_t count) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorCode::invalid_argument, words_of(own) + " threw " + what);
  };
  try {
    own.combine(result, left, right, count);
  } catch (const std::exception& error) {
    fail(std::string("an exception: ") + error.what());
  } catch (...) {
    fail("something that is no std::exception");
  }
}

void OwnReduction::run(const Operator& own, std::uint64_t element_bytes, std::span<void* const> destinations,
                       std::span<void* const> sources, std::uint64_t count) {
  constexpr std::uint64_t kBatchBytes = 4096;
  const std::uint64_t batch = std::max<std::uint64_t>(1, kBatchBytes / element_bytes);
  const std::uintptr_t misaligned = own.element.alignment() - 1;
  partial_.resize(sources.size() * batch * element_bytes + misaligned);
  operands_.resize(sources.size());
  const auto beyond = reinterpret_cast<std::uintptr_t>(partial_.data()) & misaligned;
  std::byte* const partial = partial_.data() + (beyond == 0 ? 0 : misaligned + 1 - beyond);
  for (std::uint64_t begin = 0; begin < count; begin += batch) {
    const std::uint64_t many = std::min(batch, count - begin);
    for (std::size_t s = 0; s < sources.size(); ++s) {
      operands_[s] = static_cast<const std::byte*>(sources[s]) + begin * element_bytes;
      // Slots are aligned for numbers; an element of the caller's may want more.
      if ((reinterpret_cast<std::uintptr_t>(operands_[s]) & misaligned) == 0) continue;
      operands_[s] = std::memcpy(partial + s * batch * element_bytes, operands_[s], many * element_bytes);
    }
    canonical_fold(std::span(operands_), [&](const void*& left, const void*& right) {
      std::byte* const result = partial + static_cast<std::size_t>(&left - operands_.data()) * batch * element_bytes;
      apply_own(own, result, left, right, many);
      left = result;
    });
    for (void* const destination : destinations) {
      std::byte* const to = static_cast<std::byte*>(destination) + begin * element_bytes;
      if (to != operands_[0]) std::memcpy(to, operands_[0], many * element_bytes);
    }
  }
}

}  // namespace tutti::engine
