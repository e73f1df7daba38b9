// The type of an element: one of DType, or any trivially copyable type of the caller's, which then moves as bytes and
// is reduced by an operator of the caller's (op.h).
#pragma once

#include <bit>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <type_traits>

#include "tutti/types.h"

namespace tutti {

struct float16 {
  std::uint16_t bits;
};
struct bfloat16 {
  std::uint16_t bits;
};

class Element {
 public:
  constexpr Element(DType type)  // NOLINT(google-explicit-constructor): a DType is an element type
      : dtype_(type), bytes_(static_cast<std::uint32_t>(size_of(type))) {
    alignment_ = static_cast<std::uint32_t>(alignment_of(type));
  }
  // An element of the caller's, of any size from 1 byte to 1 GB; `alignment` is a power of two.
  static constexpr Element of_bytes(std::size_t bytes, std::size_t alignment = 1) {
    Element element(DType::uint8);
    element.opaque_ = true;
    element.bytes_ = narrow(bytes);
    element.alignment_ = narrow(alignment);
    return element;
  }
  template <class T>
  static constexpr Element of();

  // Whether it is the caller's own type; dtype() says nothing then.
  constexpr bool opaque() const { return opaque_; }
  constexpr DType dtype() const { return dtype_; }
  constexpr std::size_t bytes() const { return bytes_; }
  constexpr std::size_t alignment() const { return alignment_; }
  constexpr bool operator==(const Element&) const = default;

 private:
  // What is too large stays too large, and is refused by the call.
  static constexpr std::uint32_t narrow(std::size_t value) {
    return value < 0xffff'ffff ? static_cast<std::uint32_t>(value) : 0xffff'ffff;
  }

  DType dtype_;
  bool opaque_ = false;
  std::uint32_t bytes_;
  std::uint32_t alignment_;
};

// The DType of a C++ type that has one; specialise it for a number type of your own.
template <class T>
struct DTypeOf;

#define TUTTI_DTYPE_OF(cpp, name)                       \
  template <>                                           \
  struct DTypeOf<cpp> {                                 \
    static constexpr DType value = DType::name;         \
    static_assert(sizeof(cpp) == size_of(DType::name)); \
  };
TUTTI_DTYPE_OF(float16, float16)
TUTTI_DTYPE_OF(bfloat16, bfloat16)
TUTTI_DTYPE_OF(float, float32)
TUTTI_DTYPE_OF(double, float64)
TUTTI_DTYPE_OF(std::complex<float>, complex64)
TUTTI_DTYPE_OF(std::complex<double>, complex128)
TUTTI_DTYPE_OF(bool, boolean)
#undef TUTTI_DTYPE_OF

// Integers by size and sign: int, long and long long, whatever their names.
template <class T>
requires(std::is_integral_v<T> && sizeof(T) <= 8) struct DTypeOf<T> {
  static constexpr int kSize = std::countr_zero(sizeof(T));
  static constexpr DType kSigned[4] = {DType::int8, DType::int16, DType::int32, DType::int64};
  static constexpr DType kUnsigned[4] = {DType::uint8, DType::uint16, DType::uint32, DType::uint64};
  static constexpr DType value = std::is_signed_v<T> ? kSigned[kSize] : kUnsigned[kSize];
};

// Types that the built-in operators know.
template <class T>
concept Number = requires {
  DTypeOf<T>::value;
};

template <class T>
constexpr Element Element::of() {
  static_assert(std::is_trivially_copyable_v<T>, "elements move as bytes: they must be trivially copyable");
  if constexpr (Number<T>) {
    return DTypeOf<T>::value;
  } else {
    return of_bytes(sizeof(T), alignof(T));
  }
}

// What verbs read from and write to: arrays, std::vector, std::span, Symmetric; anything that is one piece of memory.
template <class R>
using ElementOf = std::ranges::range_value_t<R>;
template <class R>
concept Readable =
    std::ranges::contiguous_range<R> && std::ranges::sized_range<R> && std::is_trivially_copyable_v<ElementOf<R>>;
template <class R>
concept Writable = Readable<R> && !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;
// Async calls use the memory after they return, so they take no temporaries.
template <class R>
concept Lasting = Readable<R> && std::ranges::borrowed_range<R>;
template <class A, class B>
concept SameElements = std::is_same_v<ElementOf<A>, ElementOf<B>>;

// A single value as a buffer: comm.all_reduce(tutti::one(loss)).
template <class T>
constexpr std::span<T, 1> one(T& value) {
  return std::span<T, 1>(&value, 1);
}

}  // namespace tutti
