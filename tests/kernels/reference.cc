// See reference.h. A "number" is an element type as the reference sees it: how to decode, join, divide and encode it.
#include "kernels/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

#include "base/canonical.h"

namespace tutti::kernels_test {

double decode_half(HalfFormat format, std::uint16_t bits) {
  const int exponent_ones = (1 << (15 - format.fraction_bits)) - 1;
  const int exponent = (bits & 0x7FFF) >> format.fraction_bits;
  const int fraction = bits & ((1 << format.fraction_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == exponent_ones) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  const int significand = exponent == 0 ? fraction : fraction + (1 << format.fraction_bits);
  return sign * std::ldexp(significand, std::max(exponent, 1) - 1 + format.lowest_exponent - format.fraction_bits);
}

std::uint16_t encode_half(HalfFormat format, double value, Rounding rounding) {
  const int exponent_ones = (1 << (15 - format.fraction_bits)) - 1;
  const int infinity = exponent_ones << format.fraction_bits;
  if (std::isnan(value)) return static_cast<std::uint16_t>(infinity | 1 << (format.fraction_bits - 1));
  const int sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | infinity);
  if (value == 0) return static_cast<std::uint16_t>(sign);
  const int exponent = std::max(std::ilogb(value), format.lowest_exponent);
  const double scaled = std::ldexp(std::fabs(value), format.fraction_bits - exponent);
  const double whole = rounding == Rounding::nearest_even ? std::nearbyint(scaled) : std::floor(scaled);
  // Counting up from zero by units of the last place walks through all encodings in order, up to infinity.
  const double encoding = std::ldexp(exponent - format.lowest_exponent, format.fraction_bits) + whole;
  return static_cast<std::uint16_t>(sign | static_cast<int>(std::min(encoding, static_cast<double>(infinity))));
}

namespace {

bool is_logical(ReduceOp op) { return op == ReduceOp::land || op == ReduceOp::lor || op == ReduceOp::lxor; }

template <class T>
T join_floats(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average:
    case ReduceOp::premul_sum: return a + b;
    case ReduceOp::product: return a * b;
    case ReduceOp::land: return a != 0 && b != 0 ? T{1} : T{0};
    case ReduceOp::lor: return a != 0 || b != 0 ? T{1} : T{0};
    case ReduceOp::lxor: return (a != 0) != (b != 0) ? T{1} : T{0};
    case ReduceOp::minimum: return std::isnan(a) ? a : std::isnan(b) ? b : (b < a ? b : a);
    default: return std::isnan(a) ? a : std::isnan(b) ? b : (b > a ? b : a);
  }
}

template <class T>
T canonical(T x) {
  return std::isnan(x) ? std::copysign(std::numeric_limits<T>::quiet_NaN(), T{1}) : x;
}

template <class T>
struct FloatNumber {
  using Stored = T;
  using Wide = T;
  static Wide decode(Stored x) { return x; }
  static Wide join(ReduceOp op, Wide a, Wide b) { return join_floats(op, a, b); }
  static Wide divide(Wide x, std::uint32_t by) { return x / static_cast<T>(by); }
  static Stored encode(Wide x, Rounding) { return canonical(x); }
};

template <int kFractionBits, int kLowestExponent>
struct HalfNumber {
  static constexpr HalfFormat kFormat{kFractionBits, kLowestExponent};
  using Stored = std::uint16_t;
  using Wide = float;
  static Wide decode(Stored x) { return static_cast<float>(decode_half(kFormat, x)); }
  static Wide join(ReduceOp op, Wide a, Wide b) { return join_floats(op, a, b); }
  static Wide divide(Wide x, std::uint32_t by) { return x / static_cast<float>(by); }
  static Stored encode(Wide x, Rounding rounding) { return encode_half(kFormat, x, rounding); }
};
using Float16Number = HalfNumber<10, -14>;
using BFloat16Number = HalfNumber<7, -126>;

template <class T>
struct ComplexNumber {
  struct Stored {
    T real, imaginary;
  };
  using Wide = Stored;
  static Wide decode(Stored x) { return x; }
  static Wide join(ReduceOp op, Wide a, Wide b) {
    if (op != ReduceOp::product) return {a.real + b.real, a.imaginary + b.imaginary};
    return {a.real * b.real - a.imaginary * b.imaginary, a.real * b.imaginary + a.imaginary * b.real};
  }
  static Wide divide(Wide x, std::uint32_t by) {
    return {x.real / static_cast<T>(by), x.imaginary / static_cast<T>(by)};
  }
  static Stored encode(Wide x, Rounding) { return {canonical(x.real), canonical(x.imaginary)}; }
};

template <class T>
struct IntegerNumber {
  using Stored = T;
  using Wide = T;
  static Wide decode(Stored x) { return x; }
  static Wide join(ReduceOp op, Wide a, Wide b) {
    const auto x = static_cast<std::uint64_t>(a), y = static_cast<std::uint64_t>(b);
    switch (op) {
      case ReduceOp::product: return static_cast<T>(x * y);
      case ReduceOp::minimum: return std::min(a, b);
      case ReduceOp::maximum: return std::max(a, b);
      case ReduceOp::band: return static_cast<T>(x & y);
      case ReduceOp::bor: return static_cast<T>(x | y);
      case ReduceOp::bxor: return static_cast<T>(x ^ y);
      case ReduceOp::land: return a != 0 && b != 0 ? T{1} : T{0};
      case ReduceOp::lor: return a != 0 || b != 0 ? T{1} : T{0};
      case ReduceOp::lxor: return (a != 0) != (b != 0) ? T{1} : T{0};
      default: return static_cast<T>(x + y);
    }
  }
  static Wide divide(Wide x, std::uint32_t by) {
    using Widest = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    return static_cast<T>(static_cast<Widest>(x) / static_cast<Widest>(by));
  }
  static Stored encode(Wide x, Rounding) { return x; }
};

struct BooleanNumber {
  using Stored = std::uint8_t;
  using Wide = bool;
  static Wide decode(Stored x) { return x != 0; }
  static Wide join(ReduceOp op, Wide a, Wide b) {
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::maximum:
      case ReduceOp::bor:
      case ReduceOp::lor: return a || b;
      case ReduceOp::bxor:
      case ReduceOp::lxor: return a != b;
      default: return a && b;
    }
  }
  static Wide divide(Wide x, std::uint32_t) { return x; }
  static Stored encode(Wide x, Rounding) { return x ? 1 : 0; }
};

// Calls visit.template operator()<Number>() for the number of the type.
template <class Visit>
auto with_number(DType type, const Visit& visit) {
  switch (type) {
    case DType::int8: return visit.template operator()<IntegerNumber<std::int8_t>>();
    case DType::int16: return visit.template operator()<IntegerNumber<std::int16_t>>();
    case DType::int32: return visit.template operator()<IntegerNumber<std::int32_t>>();
    case DType::int64: return visit.template operator()<IntegerNumber<std::int64_t>>();
    case DType::uint8: return visit.template operator()<IntegerNumber<std::uint8_t>>();
    case DType::uint16: return visit.template operator()<IntegerNumber<std::uint16_t>>();
    case DType::uint32: return visit.template operator()<IntegerNumber<std::uint32_t>>();
    case DType::uint64: return visit.template operator()<IntegerNumber<std::uint64_t>>();
    case DType::float16: return visit.template operator()<Float16Number>();
    case DType::bfloat16: return visit.template operator()<BFloat16Number>();
    case DType::float32: return visit.template operator()<FloatNumber<float>>();
    case DType::float64: return visit.template operator()<FloatNumber<double>>();
    case DType::complex64: return visit.template operator()<ComplexNumber<float>>();
    case DType::complex128: return visit.template operator()<ComplexNumber<double>>();
    default: return visit.template operator()<BooleanNumber>();
  }
}

template <class T>
T read(const std::byte* from, std::size_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void write(Buffer& to, std::size_t index, T value) {
  std::memcpy(to.data() + index * sizeof(T), &value, sizeof(T));
}

struct ReduceArguments {
  ReduceOp op;
  std::size_t count;
  std::uint32_t divisor;
  Rounding rounding;
};

template <class Number>
Buffer reduce_numbers(const ReduceArguments& arguments, const std::vector<const std::byte*>& sources) {
  using Stored = typename Number::Stored;
  Buffer result(arguments.count * sizeof(Stored));
  std::vector<Stored> items(sources.size());
  for (std::size_t i = 0; i < arguments.count; ++i) {
    for (std::size_t s = 0; s < sources.size(); ++s) items[s] = read<Stored>(sources[s], i);
    std::size_t joins_left = sources.size() - 1;
    const auto finish = [&](typename Number::Wide x) {
      const bool divides = joins_left == 0 && arguments.divisor > 1;
      return Number::encode(divides ? Number::divide(x, arguments.divisor) : x, arguments.rounding);
    };
    canonical_fold(std::span<Stored>(items), [&](Stored& left, Stored& right) {
      --joins_left;
      left = finish(Number::join(arguments.op, Number::decode(left), Number::decode(right)));
    });
    const bool truth = std::is_same_v<Number, BooleanNumber> || is_logical(arguments.op);
    if (sources.size() == 1 && (truth || arguments.divisor > 1)) {
      const auto alone = Number::decode(items[0]);
      items[0] = finish(is_logical(arguments.op) ? Number::join(ReduceOp::land, alone, alone) : alone);
    }
    write(result, i, items[0]);
  }
  return result;
}

double decode_float(DType type, const std::byte* from, std::size_t index) {
  switch (type) {
    case DType::float16: return decode_half(kFloat16, read<std::uint16_t>(from, index));
    case DType::bfloat16: return decode_half(kBFloat16, read<std::uint16_t>(from, index));
    case DType::float32: return read<float>(from, index);
    default: return read<double>(from, index);
  }
}

void encode_float(DType type, Buffer& to, std::size_t index, double value) {
  switch (type) {
    case DType::float16: return write(to, index, encode_half(kFloat16, value));
    case DType::bfloat16: return write(to, index, encode_half(kBFloat16, value));
    case DType::float32: return write(to, index, canonical(static_cast<float>(value)));
    default: return write(to, index, canonical(value));
  }
}

template <class T>
T clamp_factor(double factor) {
  if (std::isnan(factor)) return 0;
  const double low = static_cast<double>(std::numeric_limits<T>::min());
  const double high = static_cast<double>(std::numeric_limits<T>::max());
  if (factor <= low) return std::numeric_limits<T>::min();
  return factor >= high ? std::numeric_limits<T>::max() : static_cast<T>(factor);
}

template <class Number>
Buffer scale_numbers(const std::byte* source, std::size_t count, double factor) {
  using Stored = typename Number::Stored;
  using Wide = typename Number::Wide;
  Buffer result(count * sizeof(Stored));
  for (std::size_t i = 0; i < count; ++i) {
    const Wide x = Number::decode(read<Stored>(source, i));
    Wide scaled;
    if constexpr (std::is_class_v<Wide>) {
      const auto by = static_cast<decltype(x.real)>(factor);
      scaled = {x.real * by, x.imaginary * by};
    } else if constexpr (std::is_floating_point_v<Wide>) {
      scaled = x * static_cast<Wide>(factor);
    } else {
      scaled = Number::join(ReduceOp::product, x, clamp_factor<Wide>(factor));
    }
    write(result, i, Number::encode(scaled, Rounding::nearest_even));
  }
  return result;
}

}  // namespace

bool reference_supports(DType type, ReduceOp op) {
  const bool is_bitwise = op == ReduceOp::band || op == ReduceOp::bor || op == ReduceOp::bxor;
  const bool is_order = op == ReduceOp::minimum || op == ReduceOp::maximum;
  if (type == DType::boolean) return op != ReduceOp::average && op != ReduceOp::premul_sum;
  if (type == DType::complex64 || type == DType::complex128) return !is_bitwise && !is_order && !is_logical(op);
  if (DType::float16 <= type && type <= DType::float64) return !is_bitwise;
  return true;
}

Buffer reference_reduce(DType type, ReduceOp op, const std::vector<const std::byte*>& sources, std::size_t count,
                        std::uint32_t divisor, Rounding rounding) {
  const ReduceArguments arguments{op, count, divisor, rounding};
  return with_number(type, [&]<class Number>() { return reduce_numbers<Number>(arguments, sources); });
}

Buffer reference_scale(DType type, const std::byte* source, std::size_t count, double factor) {
  return with_number(type, [&]<class Number>() { return scale_numbers<Number>(source, count, factor); });
}

Buffer reference_convert(DType from, DType to, const std::byte* source, std::size_t count) {
  Buffer result(count * size_of(to));
  if (from == to) {
    std::copy_n(source, result.size(), result.begin());
    return result;
  }
  for (std::size_t i = 0; i < count; ++i) encode_float(to, result, i, decode_float(from, source, i));
  return result;
}

}  // namespace tutti::kernels_test
