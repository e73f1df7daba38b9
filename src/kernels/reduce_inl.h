// Reduces any number of sources of one format into any number of destinations. Included once per instruction set.
//
// Up to kMost sources, a tree of vectors is evaluated in registers and each source is read once. More sources
// are reduced tile by tile: the subtrees below the root go to tiles in the first-level cache, the root joins them.
// Invariant: both follow canonical_split, and a tile holds elements rounded to their type, so that the way taken never
// shows in the result. Destinations may be sources because everything at an index is read before anything is written.
#if defined(TUTTI_KERNELS_REDUCE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_KERNELS_REDUCE_INL_H_
#undef TUTTI_KERNELS_REDUCE_INL_H_
#else
#define TUTTI_KERNELS_REDUCE_INL_H_
#endif

#include <hwy/cache_control.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/canonical.h"
#include "hwy/highway.h"
#include "kernels/formats_inl.h"
#include "kernels/kernels.h"
#include "kernels/memory_inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t kTileBytes = 4096;
constexpr std::size_t kLineBytes = 64;

// The instruction sets that only old machines are left with get one plain loop each, as rare formats do: variants of it
// would mostly cost time to compile.
constexpr bool kPlain = HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SSE4;

// How many sources are reduced in registers: more where it pays, two where it would mostly cost time to compile.
constexpr std::size_t kManySources = kPlain ? 2 : 8;
constexpr std::size_t kSomeSources = kPlain ? 2 : 4;
constexpr std::size_t kFewSources = 2;

// What a block of a source is read with: all of it, or its first n elements.
template <class Format>
struct Whole {
  HWY_INLINE typename Format::Value load(const std::byte* from) const { return Format::load(from); }
};
template <class Format>
struct First {
  std::size_t n;
  HWY_INLINE typename Format::Value load(const std::byte* from) const { return Format::load_first(from, n); }
};

// The tree over kSources blocks, depth first, its root not yet rounded.
template <class Format, class Op, std::size_t kSources, class Access>
HWY_INLINE typename Format::Value tree_root(const Access& access, const std::byte* const* sources, std::size_t offset) {
  if constexpr (kSources == 1) {
    return access.load(sources[0] + offset);
  } else {
    constexpr std::size_t kLeft = canonical_split(kSources);
    auto left = tree_root<Format, Op, kLeft>(access, sources, offset);
    if constexpr (kLeft > 1) left = Format::round(left);
    auto right = tree_root<Format, Op, kSources - kLeft>(access, sources + kLeft, offset);
    if constexpr (kSources - kLeft > 1) right = Format::round(right);
    return Format::template apply<Op>(left, right);
  }
}

// What becomes of the root before its rounding.
struct Keep {
  template <class Format>
  HWY_INLINE typename Format::Value finish(typename Format::Value v) const {
    return v;
  }
};
template <class Scalar>
struct Multiply {
  Scalar factor;
  template <class Format>
  HWY_INLINE typename Format::Value finish(typename Format::Value v) const {
    return Format::multiply(v, factor);
  }
};
template <class Scalar>
struct Divide {
  Scalar divisor;
  template <class Format>
  HWY_INLINE typename Format::Value finish(typename Format::Value v) const {
    return Format::divide(v, divisor);
  }
};

template <class Format, class Op, std::size_t kSources, class Finish, bool kPastCaches>
struct ReduceBody {
  // Beyond what the machine fetches ahead by itself, which ends with a page.
  static constexpr std::size_t kAhead = 2048;
  static constexpr std::size_t kBlock = Format::kBlock;
  // Enough blocks to hide latencies, few enough for the registers.
  static constexpr std::size_t kUnroll = kPlain || Format::kRare ? 1
                                         : kSources <= 2         ? 4 / Format::kRegisters
                                         : kSources <= 4         ? 2
                                                                 : 1;

  void* const* destinations;
  std::size_t destination_count;
  std::size_t destination_offset;
  const std::byte* sources[kSources];
  Finish finish;

  template <class Access>
  HWY_INLINE typename Format::Value block(const Access& access, std::size_t offset) const {
    return finish.template finish<Format>(tree_root<Format, Op, kSources>(access, sources, offset));
  }

  template <std::size_t kCount>
  HWY_INLINE void settle(typename Format::Value (&values)[kCount]) const {
    if constexpr (Format::kIsFloat && Op::kMakesNaN) canonicalise_all<Format>(values);
  }

  HWY_INLINE std::byte* destination(std::size_t d, std::size_t offset) const {
    return static_cast<std::byte*>(destinations[d]) + destination_offset + offset;
  }

  template <std::size_t kCount>
  HWY_INLINE void blocks(std::size_t element) const {
    constexpr std::size_t kBytes = kBlock * Format::kElementBytes;
    const std::size_t offset = element * Format::kElementBytes;
    if constexpr (kPastCaches) fetch(offset + kAhead, kCount * kBytes);
    typename Format::Value values[kCount];
    for (std::size_t i = 0; i < kCount; ++i) values[i] = block(Whole<Format>{}, offset + i * kBytes);
    settle(values);
    typename Format::Packed packed[kCount];
    for (std::size_t i = 0; i < kCount; ++i) packed[i] = Format::pack(values[i]);
    for (std::size_t d = 0; d < destination_count; ++d) {
      std::byte* const to = destination(d, offset);
      for (std::size_t i = 0; i < kCount; ++i) {
        if constexpr (kPastCaches) {
          Format::stream(packed[i], to + i * kBytes);
        } else {
          Format::store(packed[i], to + i * kBytes);
        }
      }
    }
  }

  HWY_INLINE void fetch(std::size_t offset, std::size_t bytes) const {
    for (std::size_t s = 0; s < kSources; ++s) {
      for (std::size_t at = 0; at < bytes; at += kLineBytes) hwy::Prefetch(sources[s] + offset + at);
    }
  }

  HWY_INLINE void part(std::size_t element, std::size_t n) const {
    const std::size_t offset = element * Format::kElementBytes;
    typename Format::Value values[1] = {block(First<Format>{n}, offset)};
    settle(values);
    const auto packed = Format::pack(values[0]);
    for (std::size_t d = 0; d < destination_count; ++d) Format::store_first(packed, destination(d, offset), n);
  }
};

// The arguments of a ReduceFunction but for the number of sources. The offsets, in bytes, are the first element's.
struct OperandRange {
  void* const* destinations;
  std::size_t destination_count;
  std::size_t destination_offset;
  const void* const* sources;
  std::size_t source_offset;
  std::size_t count;
  bool past_caches = false;

  OperandRange first(std::size_t elements) const {
    return {destinations, destination_count, destination_offset, sources, source_offset, elements, past_caches};
  }
  OperandRange behind(std::size_t elements, std::size_t element_bytes) const {
    const std::size_t bytes = elements * element_bytes;
    return {destinations,     destination_count, destination_offset + bytes, sources, source_offset + bytes,
            count - elements, past_caches};
  }
};

// The elements before the first line that all destinations begin at once; all where there is none, or that is too far.
template <class Format>
HWY_INLINE std::size_t elements_before_line(const OperandRange& range) {
  const auto beyond = [&](std::size_t d) {
    return (reinterpret_cast<std::uintptr_t>(range.destinations[d]) + range.destination_offset) % kLineBytes;
  };
  for (std::size_t d = 1; d < range.destination_count; ++d) {
    if (beyond(d) != beyond(0)) return range.count;
  }
  const std::size_t bytes = (kLineBytes - beyond(0)) % kLineBytes;
  return bytes % Format::kElementBytes != 0 ? range.count : std::min(range.count, bytes / Format::kElementBytes);
}

template <bool kPastCaches, class Format, class Op, std::size_t kSources, class Finish>
HWY_INLINE auto body_of(const OperandRange& range, Finish finish) {
  ReduceBody<Format, Op, kSources, Finish, kPastCaches> body{
      range.destinations, range.destination_count, range.destination_offset, {}, finish};
  for (std::size_t s = 0; s < kSources; ++s) {
    body.sources[s] = static_cast<const std::byte*>(range.sources[s]) + range.source_offset;
  }
  return body;
}

template <class Format, class Op, std::size_t kSources, class Finish>
void reduce_past_caches(OperandRange range, Finish finish);

template <class Format, class Op, std::size_t kSources, class Finish>
HWY_NOINLINE void reduce_in_registers(const OperandRange& range, Finish finish) {
  if constexpr (!kPlain && !Format::kRare) {
    if (range.past_caches) return reduce_past_caches<Format, Op, kSources>(range, finish);
  }
  walk(body_of<false, Format, Op, kSources>(range, finish), range.count);
}

// Whole strides of aligned lines; what lies before and behind them goes the ordinary way, and is not compiled again.
template <class Format, class Op, std::size_t kSources, class Finish>
HWY_NOINLINE void reduce_past_caches(OperandRange range, Finish finish) {
  using Body = ReduceBody<Format, Op, kSources, Finish, true>;
  constexpr std::size_t kStride = Body::kUnroll * Body::kBlock;
  const std::size_t before = elements_before_line<Format>(range);
  const std::size_t lines = (range.count - before) / kStride * kStride;
  range.past_caches = false;
  if (before != 0) reduce_in_registers<Format, Op, kSources>(range.first(before), finish);
  const auto body = body_of<true, Format, Op, kSources>(range.behind(before, Format::kElementBytes), finish);
  for (std::size_t element = 0; element < lines; element += kStride) body.template blocks<Body::kUnroll>(element);
  const OperandRange rest = range.behind(before + lines, Format::kElementBytes);
  if (rest.count != 0) reduce_in_registers<Format, Op, kSources>(rest, finish);
  hwy::FlushStream();  // before flags say that it is there
}

// Dispatches on a number of sources known to lie in kSources..kMost. Two come first: they come most often.
template <class Format, class Op, std::size_t kMost, std::size_t kSources = 2>
HWY_INLINE void reduce_few(const OperandRange& range, std::size_t source_count) {
  if constexpr (kSources == kMost) {
    reduce_in_registers<Format, Op, kSources>(range, Keep{});
  } else {
    if (source_count == kSources) return reduce_in_registers<Format, Op, kSources>(range, Keep{});
    reduce_few<Format, Op, kMost, kSources + 1>(range, source_count);
  }
}

// Reduces one tile's worth of the sources and says where the result lies: in `tile`, or in place for a single source.
template <class Format, class Op, std::size_t kMost>
const void* reduce_to_tile(void* tile, const void* const* sources, std::size_t source_count, std::size_t offset,
                           std::size_t count) {
  if (source_count == 1) return static_cast<const std::byte*>(sources[0]) + offset;
  if (source_count <= kMost) {
    reduce_few<Format, Op, kMost>({&tile, 1, 0, sources, offset, count}, source_count);
    return tile;
  }
  alignas(64) std::byte right_tile[kTileBytes];
  const std::size_t left = canonical_split(source_count);
  const void* const children[2] = {
      reduce_to_tile<Format, Op, kMost>(tile, sources, left, offset, count),
      reduce_to_tile<Format, Op, kMost>(right_tile, sources + left, source_count - left, offset, count)};
  reduce_in_registers<Format, Op, 2>({&tile, 1, 0, children, 0, count}, Keep{});
  return tile;
}

// Any number of sources but one, with the root finished as told.
template <class Format, class Op, std::size_t kMost, class Finish>
HWY_NOINLINE void reduce_in_tiles(const OperandRange& whole, std::size_t source_count, Finish finish) {
  constexpr std::size_t kTile = kTileBytes / Format::kElementBytes;
  alignas(64) std::byte tiles[2][kTileBytes];
  const std::size_t left = canonical_split(source_count);
  for (std::size_t element = 0; element < whole.count; element += kTile) {
    const std::size_t n = std::min(kTile, whole.count - element);
    const std::size_t offset = element * Format::kElementBytes;
    const void* const children[2] = {
        reduce_to_tile<Format, Op, kMost>(tiles[0], whole.sources, left, offset, n),
        reduce_to_tile<Format, Op, kMost>(tiles[1], whole.sources + left, source_count - left, offset, n)};
    reduce_in_registers<Format, Op, 2>(
        {whole.destinations, whole.destination_count, offset, children, 0, n, whole.past_caches}, finish);
  }
}

// A ReduceFunction for operators that take no divisor; kMost sources are held in registers.
template <class Format, class Op, std::size_t kMost>
void reduce(void* const* destinations, std::size_t destination_count, const void* const* sources,
            std::size_t source_count, std::size_t count, Results results) {
  const OperandRange range{destinations, destination_count, 0, sources, 0, count, results.past_caches};
  if (source_count == 1) {
    if constexpr (!Format::kCopyable) {
      return reduce_in_registers<Format, Op, 1>(range, Keep{});
    } else {
      return copy(destinations, destination_count, sources[0], count * Format::kElementBytes);
    }
  }
  if (source_count <= kMost) return reduce_few<Format, Op, kMost>(range, source_count);
  reduce_in_tiles<Format, Op, kMost>(range, source_count, Keep{});
}

template <class Format, class Op, std::size_t kMost, class Finish>
void reduce_and_finish(const OperandRange& range, std::size_t source_count, Finish finish) {
  if (source_count == 1) return reduce_in_registers<Format, Op, 1>(range, finish);
  if (source_count == 2) return reduce_in_registers<Format, Op, 2>(range, finish);
  reduce_in_tiles<Format, Op, kMost>(range, source_count, finish);
}

// The ReduceFunction of sum and average for floats. Multiplying by the reciprocal of a power of two rounds the same
// number as dividing by it does, so the bits agree and the division is saved.
template <class Format, std::size_t kMost>
void reduce_sum(void* const* destinations, std::size_t destination_count, const void* const* sources,
                std::size_t source_count, std::size_t count, Results results) {
  using Scalar = typename Format::Scalar;
  const Scalar by = static_cast<Scalar>(results.divisor);
  const OperandRange range{destinations, destination_count, 0, sources, 0, count, results.past_caches};
  if (results.divisor <= 1) {
    reduce<Format, Sum, kMost>(destinations, destination_count, sources, source_count, count, results);
  } else if (std::has_single_bit(results.divisor)) {
    reduce_and_finish<Format, Sum, kMost>(range, source_count, Multiply<Scalar>{Scalar{1} / by});
  } else {
    reduce_and_finish<Format, Sum, kMost>(range, source_count, Divide<Scalar>{by});
  }
}

// What choose(T()) gives for the integer T that `type` stands for; nullptr where it stands for no integer.
template <class Choose>
ReduceFunction choose_for_integer(DType type, const Choose& choose) {
  switch (type) {
    case DType::int8: return choose(std::int8_t{});
    case DType::int16: return choose(std::int16_t{});
    case DType::int32: return choose(std::int32_t{});
    case DType::int64: return choose(std::int64_t{});
    case DType::uint8: return choose(std::uint8_t{});
    case DType::uint16: return choose(std::uint16_t{});
    case DType::uint32: return choose(std::uint32_t{});
    case DType::uint64: return choose(std::uint64_t{});
    default: return nullptr;
  }
}

}  // namespace tutti::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
