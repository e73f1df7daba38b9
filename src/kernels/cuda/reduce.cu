// The reductions of kernels.h on a CUDA device: one pass over any number of sources into any number of destinations,
// with the bits of the processor's kernels.
//
// Compiled at run time (device/kernel_compiler.h), once for each type, operator and number of sources:
//   TUTTI_FORMAT   the struct below that reads, joins, rounds and packs elements
//   TUTTI_OP       the struct below that joins two
//   TUTTI_SOURCES  how many sources there are, at most kMostOperands
// with contraction to fused operations off, so that every node rounds by itself. With an operator of the caller's, whose
// source stands before this one and defines Element and combine(), there is TUTTI_OWN_BYTES instead of the first two, and
// TUTTI_OWN_ALIGNMENT: of an element.

// ---- operators: `a` is of the lower rank

struct Sum {
  template <class T>
  static __device__ T join(T a, T b) {
    return a + b;
  }
};

struct Product {
  template <class T>
  static __device__ T join(T a, T b) {
    return a * b;
  }
};

// Of floats: where one of them is NaN, neither comparison holds, and the sum of both is NaN.
struct Minimum {
  template <class T>
  static __device__ T join(T a, T b) {
    return b < a ? b : b >= a ? a : a + b;
  }
};

struct Maximum {
  template <class T>
  static __device__ T join(T a, T b) {
    return a < b ? b : a >= b ? a : a + b;
  }
};

struct BitAnd {
  template <class T>
  static __device__ T join(T a, T b) {
    return a & b;
  }
};

struct BitOr {
  template <class T>
  static __device__ T join(T a, T b) {
    return a | b;
  }
};

struct BitXor {
  template <class T>
  static __device__ T join(T a, T b) {
    return a ^ b;
  }
};

// ---- formats: what lies in memory, what is computed with, and how one becomes the other

template <class T>
struct Integer {
  using Stored = T;
  using Value = T;
  static __device__ Value unpack(Stored stored) { return stored; }
  static __device__ Value round(Value value) { return value; }
  static __device__ Stored pack(Value value) { return value; }
  static __device__ Value divide(Value value, unsigned divisor) {
    return static_cast<Value>(value / static_cast<long long>(divisor));
  }
};

template <>
__device__ unsigned long long Integer<unsigned long long>::divide(unsigned long long value, unsigned divisor) {
  return value / divisor;
}

struct Float32 {
  using Stored = float;
  using Value = float;
  static __device__ Value unpack(Stored stored) { return stored; }
  static __device__ Value round(Value value) { return value; }
  static __device__ Stored pack(Value value) { return value != value ? __int_as_float(0x7FC00000) : value; }
  static __device__ Value divide(Value value, unsigned divisor) { return value / static_cast<float>(divisor); }
};

struct Float64 {
  using Stored = double;
  using Value = double;
  static __device__ Value unpack(Stored stored) { return stored; }
  static __device__ Value round(Value value) { return value; }
  static __device__ Stored pack(Value value) {
    return value != value ? __longlong_as_double(0x7FF8000000000000LL) : value;
  }
  static __device__ Value divide(Value value, unsigned divisor) { return value / static_cast<double>(divisor); }
};

struct BFloat16 {
  using Stored = unsigned short;
  using Value = float;
  static __device__ Value unpack(Stored stored) { return __uint_as_float(static_cast<unsigned>(stored) << 16); }
  // To nearest even, by adding half a unit, less one unless the result is odd.
  static __device__ Stored pack(Value value) {
    const unsigned bits = __float_as_uint(value);
    if (value != value) return 0x7FC0;
    return static_cast<Stored>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  }
  static __device__ Value round(Value value) { return unpack(pack(value)); }
  static __device__ Value divide(Value value, unsigned divisor) { return value / static_cast<float>(divisor); }
};

struct Float16 {
  using Stored = unsigned short;
  using Value = float;
  static __device__ Value unpack(Stored stored) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(stored));
    return value;
  }
  static __device__ Stored pack(Value value) {
    Stored stored;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(stored) : "f"(value));
    return value != value ? 0x7E00 : stored;
  }
  static __device__ Value round(Value value) { return unpack(pack(value)); }
  static __device__ Value divide(Value value, unsigned divisor) { return value / static_cast<float>(divisor); }
};

#ifdef TUTTI_OWN_BYTES
static_assert(sizeof(Element) == TUTTI_OWN_BYTES, "an Element of the operator's source has another size than the call's");
static_assert(TUTTI_OWN_ALIGNMENT % alignof(Element) == 0,
              "an Element of the operator's source is to be aligned more strictly than the call's are");

struct Own {
  using Stored = Element;
  using Value = Element;
  static __device__ const Value& unpack(const Stored& stored) { return stored; }
  static __device__ const Value& round(const Value& value) { return value; }
  static __device__ const Stored& pack(const Value& value) { return value; }
  static __device__ const Value& divide(const Value& value, unsigned) { return value; }
  static __device__ Value join(const Value& left, const Value& right) { return combine(left, right); }
};

#define TUTTI_FORMAT Own
#define TUTTI_OP Own
#endif

// ---- the tree of base/canonical.h

__host__ __device__ constexpr int core_of(int n) {
  int core = 1;
  while (2 * core <= n) core *= 2;
  return core;
}

// How many of n >= 2 sources lie below the left child.
__host__ __device__ constexpr int canonical_split(int n) {
  const int half = core_of(n) / 2, pairs = n - core_of(n);
  return half + (pairs < half ? pairs : half);
}

// The root is not rounded yet.
template <class Format, class Op, int kSources>
struct Tree {
  static __device__ typename Format::Value root(const typename Format::Stored* sources) {
    constexpr int kLeft = canonical_split(kSources);
    typename Format::Value left = Tree<Format, Op, kLeft>::root(sources);
    if (kLeft > 1) left = Format::round(left);
    typename Format::Value right = Tree<Format, Op, kSources - kLeft>::root(sources + kLeft);
    if (kSources - kLeft > 1) right = Format::round(right);
    return Op::join(left, right);
  }
};

template <class Format, class Op>
struct Tree<Format, Op, 1> {
  static __device__ typename Format::Value root(const typename Format::Stored* sources) {
    return Format::unpack(sources[0]);
  }
};

// ---- one launch

using Format = TUTTI_FORMAT;
using Stored = Format::Stored;
constexpr int kSources = TUTTI_SOURCES;
constexpr bool kInLines = 16 % sizeof(Stored) == 0;
constexpr int kInLine = kInLines ? 16 / sizeof(Stored) : 1;  // elements of one access

struct alignas(16) Line {
  Stored elements[kInLine];
};

static __device__ Stored reduced(const Stored* elements, unsigned divisor) {
  if (kSources == 1 && divisor <= 1) return elements[0];  // a copy, which keeps the payload of a NaN
  Format::Value value = Tree<Format, TUTTI_OP, kSources>::root(elements);
  if (divisor > 1) value = Format::divide(value, divisor);
  return Format::pack(value);
}

// Of gridDim.y blocks of the sources, `step` elements from one to the next. Where there are several, block b goes to
// destination b alone, else to all of them.
// `lines`: how many of a block begin at multiples of 16 bytes in all operands; what is left behind them goes one by one.
extern "C" __global__ void __launch_bounds__(512)
    tutti_reduce(Operands operands, int destinations, unsigned long long count, unsigned long long lines,
                 unsigned divisor, unsigned long long step) {
  const unsigned long long threads = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  const unsigned long long first = static_cast<unsigned long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int begin = gridDim.y > 1 ? blockIdx.y : 0, end = gridDim.y > 1 ? blockIdx.y + 1 : destinations;
  const auto source = [&](int s) { return static_cast<const Stored*>(operands.sources[s]) + blockIdx.y * step; };
  for (unsigned long long at = first; kInLines && at < lines; at += threads) {
    Line read[kSources], written;
#pragma unroll
    for (int s = 0; s < kSources; ++s) read[s] = reinterpret_cast<const Line*>(source(s))[at];
#pragma unroll
    for (int i = 0; i < kInLine; ++i) {
      Stored elements[kSources];
#pragma unroll
      for (int s = 0; s < kSources; ++s) elements[s] = read[s].elements[i];
      written.elements[i] = reduced(elements, divisor);
    }
    for (int d = begin; d < end; ++d) static_cast<Line*>(operands.destinations[d])[at] = written;
  }
  for (unsigned long long at = lines * kInLine + first; at < count; at += threads) {
    Stored elements[kSources];
#pragma unroll
    for (int s = 0; s < kSources; ++s) elements[s] = source(s)[at];
    const Stored result = reduced(elements, divisor);
    for (int d = begin; d < end; ++d) static_cast<Stored*>(operands.destinations[d])[at] = result;
  }
}
