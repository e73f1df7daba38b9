#include "tutti/reduce_local.h"

#include <algorithm>

#include "device/driver.h"
#include "engine/execute/own_operator.h"
#include "engine/request.h"

namespace tutti {
namespace {

// Both operands scaled, a tile at a time, and summed.
void reduce_scaled(const engine::Call& call, const void* left, const void* right) {
  alignas(64) std::byte tiles[2][4096];
  const std::size_t size = call.unit_bytes, most = sizeof tiles[0] / size;
  const void* const sources[] = {tiles[0], tiles[1]};
  for (std::size_t begin = 0; begin < call.count; begin += most) {
    const std::size_t many = std::min(most, call.count - begin), at = begin * size;
    call.scale(tiles[0], static_cast<const std::byte*>(left) + at, many, call.factor);
    call.scale(tiles[1], static_cast<const std::byte*>(right) + at, many, call.factor);
    void* const output = call.output + at;
    call.reduce(&output, 1, sources, 2, many, {});
  }
}

}  // namespace

// What an all_reduce of two ranks would say to each operand is said here, too.
void reduce_local(const void* left, const void* right, void* output, std::size_t count, const Element& element,
                  const Op& op) {
  const engine::GroupView pair{.size = 2, .most_own_bytes = ~std::size_t{0}, .name = "reduce_local"};
  engine::UnevenChunks none;
  engine::Call call;
  for (const void* const operand : {left, right}) {
    call = engine::call_of(
        {.input = operand, .output = output, .input_count = count, .output_count = count, .element = element, .op = op},
        pair, none);
  }
  if (count == 0) return;
  for (const void* const operand : {left, right, static_cast<const void*>(output)}) {
    if (!device::is_on_device(operand)) continue;
    throw Error(ErrorCode::unsupported,
                "reduce_local: an operand lies in device memory, and this runs on the processor");
  }
  if (call.own != nullptr) return engine::apply_own(*call.own, output, left, right, count);
  if (call.scale != nullptr) return reduce_scaled(call, left, right);
  const void* const sources[] = {left, right};
  call.reduce(&output, 1, sources, 2, count, call.divisor);
}

}  // namespace tutti
