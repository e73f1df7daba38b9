// Loads and stores of whole and partial vectors, in memory aligned to single bytes. Included once per instruction set.
//
// Invariant: no byte outside the given range is touched.
#if defined(TUTTI_KERNELS_MEMORY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_KERNELS_MEMORY_INL_H_
#undef TUTTI_KERNELS_MEMORY_INL_H_
#else
#define TUTTI_KERNELS_MEMORY_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Fixed at compile time: the targets with vectors of unknown length are left out of the build.
template <class D>
constexpr std::size_t kLanes = hn::MaxLanes(D());
template <class D>
constexpr std::size_t kVectorBytes = kLanes<D> * sizeof(hn::TFromD<D>);

#if HWY_TARGET == HWY_SCALAR
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const std::byte* from) {
  hn::TFromD<D> lane;
  std::memcpy(&lane, from, sizeof(lane));
  return hn::Set(d, lane);
}

template <class D>
HWY_INLINE void store(D, hn::Vec<D> v, std::byte* to) {
  const hn::TFromD<D> lane = hn::GetLane(v);
  std::memcpy(to, &lane, sizeof(lane));
}
#else
// Through byte lanes, because wider lanes would promise an alignment that pairs of 16-bit elements do not have.
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const std::byte* from) {
  const hn::Repartition<std::uint8_t, D> bytes;
  return hn::BitCast(d, hn::LoadU(bytes, reinterpret_cast<const std::uint8_t*>(from)));
}

template <class D>
HWY_INLINE void store(D, hn::Vec<D> v, std::byte* to) {
  const hn::Repartition<std::uint8_t, D> bytes;
  hn::StoreU(hn::BitCast(bytes, v), bytes, reinterpret_cast<std::uint8_t*>(to));
}
#endif

// Past the caches; `to` is aligned to the vector.
template <class D>
HWY_INLINE void stream(D d, hn::Vec<D> v, std::byte* to) {
  constexpr std::size_t kLeastBytes = 16;  // Stream writes no less, whatever the vector is
  if constexpr (kVectorBytes<D> < kLeastBytes) {
    store(d, v, to);
  } else {
    const hn::Repartition<std::uint8_t, D> bytes;
    hn::Stream(hn::BitCast(bytes, v), bytes, reinterpret_cast<std::uint8_t*>(to));
  }
}

// The first `size` bytes of a vector, 0 < size < kVectorBytes<D>; the rest reads as zero.
template <class D>
HWY_INLINE hn::Vec<D> load_first(D d, const std::byte* from, std::size_t size) {
#if HWY_MEM_OPS_MIGHT_FAULT || HWY_TARGET == HWY_SCALAR
  alignas(64) std::byte lanes[kVectorBytes<D>] = {};
  std::memcpy(lanes, from, size);
  return load(d, lanes);
#else
  const hn::Repartition<std::uint8_t, D> bytes;
  const auto first = hn::FirstN(bytes, size);
  return hn::BitCast(d, hn::MaskedLoad(first, bytes, reinterpret_cast<const std::uint8_t*>(from)));
#endif
}

template <class D>
HWY_INLINE void store_first(D d, hn::Vec<D> v, std::byte* to, std::size_t size) {
#if HWY_MEM_OPS_MIGHT_FAULT || HWY_TARGET == HWY_SCALAR
  alignas(64) std::byte lanes[kVectorBytes<D>];
  store(d, v, lanes);
  std::memcpy(to, lanes, size);
#else
  (void)d;
  const hn::Repartition<std::uint8_t, D> bytes;
  const auto first = hn::FirstN(bytes, size);
  hn::BlendedStore(hn::BitCast(bytes, v), first, bytes, reinterpret_cast<std::uint8_t*>(to));
#endif
}

// Calls body.blocks<n>(element) for whole blocks and body.part(element, n) for the rest of `count` elements.
template <class Body>
HWY_INLINE void walk(const Body& body, std::size_t count) {
  constexpr std::size_t kStride = Body::kUnroll * Body::kBlock;
  std::size_t element = 0;
  if constexpr (Body::kUnroll > 1) {
    for (; count - element >= kStride; element += kStride) body.template blocks<Body::kUnroll>(element);
  }
  for (; count - element >= Body::kBlock; element += Body::kBlock) body.template blocks<1>(element);
  if (element < count) body.part(element, count - element);
}

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
