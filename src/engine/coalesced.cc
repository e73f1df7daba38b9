#include "tutti/coalesced.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/mix.h"
#include "device/packed_tensors.h"

namespace tutti {
namespace {

constexpr std::size_t kAlignment = 64;  // a line of the caches
constexpr const char* kVerb = "all_reduce_coalesced";

// `mark` stands for the lengths of the tensors in there, which all ranks must have alike.
Request all_reduce_of(void* data, std::size_t count, Element element, const Op& op, std::uint32_t mark = 0) {
  return {.verb = Verb::all_reduce,
          .input = data,
          .output = data,
          .input_count = count,
          .output_count = count,
          .element = element,
          .op = op,
          .mark = mark};
}

std::size_t bytes_of(const void* tensor, std::size_t count, Element element) {
  const auto refuse = [&](const std::string& why) { throw Error(ErrorCode::invalid_argument, kVerb + why); };
  if (tensor == nullptr && count != 0) refuse(": a tensor of " + std::to_string(count) + " elements is null");
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, element.bytes(), &bytes))
    refuse(": " + std::to_string(count) + " elements are more than memory can hold");
  return bytes;
}

// What goes wrong on the way between the tensors and what is packed.
template <class Step>
void named(Step&& step) {
  try {
    step();
  } catch (const Error& error) {
    throw Error(error.code(), std::string(kVerb) + ": " + error.what());
  }
}

}  // namespace

void all_reduce_coalesced(Communicator& communicator, std::span<void* const> tensors,
                          std::span<const std::size_t> counts, Element element, const Op& op) {
  if (tensors.size() != counts.size()) {
    throw Error(ErrorCode::invalid_argument, std::string(kVerb) + ": " + std::to_string(tensors.size()) +
                                                 " tensors need as many counts, not " + std::to_string(counts.size()));
  }
  std::size_t bytes = 0, last = 0;
  std::vector<device::TensorToPack> filled;  // tensors that hold anything, and the last of them
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::size_t more = bytes_of(tensors[i], counts[i], element);
    if (__builtin_add_overflow(bytes, more, &bytes))
      throw Error(ErrorCode::invalid_argument, std::string(kVerb) + ": the tensors are more than memory can hold");
    if (more == 0) continue;
    filled.push_back({tensors[i], more});
    last = i;
  }
  if (filled.size() <= 1) {
    communicator.run(filled.empty() ? all_reduce_of(nullptr, 0, element, op)
                                    : all_reduce_of(tensors[last], counts[last], element, op));
    return;
  }
  const std::size_t alignment = std::max(kAlignment, element.alignment());
  std::optional<device::PackedTensors> packed;
  named([&] { packed.emplace(filled, alignment, communicator.stream(), communicator.timeout()); });
  std::uint64_t lengths = 0;
  for (const std::size_t count : counts) lengths = mix(lengths, count);
  communicator.run(
      all_reduce_of(packed->memory(), bytes / element.bytes(), element, op, static_cast<std::uint32_t>(lengths)));
  named([&] { packed->unpack(); });
}

}  // namespace tutti
