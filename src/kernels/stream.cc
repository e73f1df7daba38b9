// Copies past the caches: for memory that nobody reads soon, and that would only push out what somebody does.
#include <hwy/cache_control.h>

#include <cstring>

#include "kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/stream.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// After foreach_target.h, which includes this file once per instruction set.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {

void stream_bytes(void* destination, const void* source, std::size_t bytes) {
  namespace hn = hwy::HWY_NAMESPACE;
  constexpr std::size_t kLine = 64;
  const hn::ScalableTag<std::uint8_t> tag;
  const std::size_t lanes = hn::Lanes(tag);
  auto* to = static_cast<std::uint8_t*>(destination);
  const auto* from = static_cast<const std::uint8_t*>(source);
  const std::size_t beyond = reinterpret_cast<std::uintptr_t>(to) % kLine;
  const std::size_t head = beyond == 0 ? 0 : std::min(bytes, kLine - beyond);
  std::memcpy(to, from, head);
  std::size_t at = head;
  for (; at + kLine <= bytes; at += kLine) {
    for (std::size_t i = 0; i < kLine; i += lanes) hn::Stream(hn::LoadU(tag, from + at + i), tag, to + at + i);
  }
  std::memcpy(to + at, from + at, bytes - at);
  hwy::FlushStream();  // before flags say that it is there
}

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::kernels {
HWY_EXPORT(stream_bytes);
void stream(void* destination, const void* source, std::size_t bytes) {
  if (destination != source && bytes != 0) HWY_DYNAMIC_DISPATCH(stream_bytes)(destination, source, bytes);
}
}  // namespace tutti::kernels
#endif
