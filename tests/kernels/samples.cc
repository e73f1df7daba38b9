// See samples.h. Floats are drawn, component by component, from three pots: hostile constants, numbers of similar size
// (whose sums cancel and whose last bits are lost), and random bits. Of integers and booleans a part is zero.
#include "kernels/samples.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>

namespace tutti::kernels_test {

namespace {

template <class Bits>
void write_bits(Buffer& to, std::size_t index, Bits bits) {
  std::memcpy(to.data() + index * sizeof(Bits), &bits, sizeof(Bits));
}

constexpr std::uint16_t kHostileFloat16[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x8400,
                                             0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0xFE00, 0x7C01, 0xFDFF,
                                             0x7FFF, 0xFFFF, 0x3C00, 0xBC00, 0x3C01, 0x6400, 0x6801, 0x0200};
constexpr std::uint16_t kHostileBFloat16[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x007F, 0x807F, 0x0080, 0x8080,
                                              0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC0, 0xFFC0, 0x7F81, 0xFFBF,
                                              0x7FFF, 0xFFFF, 0x3F80, 0xBF80, 0x3F81, 0x4380, 0x4381, 0x0040};
constexpr std::uint32_t kHostileFloat32[] = {0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x807FFFFF,
                                             0x00800000, 0x80800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000,
                                             0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFBFFFFF, 0x7FFFFFFF, 0xFFFFFFFF,
                                             0x3F800000, 0xBF800000, 0x3F800001, 0x4B800000, 0x4B800001, 0x00400000};
constexpr std::uint64_t kHostileFloat64[] = {
    0x0000000000000000, 0x8000000000000000, 0x0000000000000001, 0x8000000000000001, 0x000FFFFFFFFFFFFF,
    0x800FFFFFFFFFFFFF, 0x0010000000000000, 0x8010000000000000, 0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF,
    0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0xFFF8000000000000, 0x7FF0000000000001,
    0xFFF7FFFFFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF, 0x3FF0000000000000, 0xBFF0000000000000,
    0x3FF0000000000001, 0x4340000000000000, 0x4340000000000001, 0x0008000000000000};

template <class Bits>
void fill_floats(Buffer& to, std::size_t count, std::mt19937_64& random, std::span<const Bits> hostile,
                 std::uint64_t one, int fraction_bits) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t draw = random();
    const std::uint64_t pot = draw % 16;
    Bits bits = static_cast<Bits>(draw >> 8);
    if (pot < 2) {
      bits = hostile[(draw >> 4) % hostile.size()];
    } else if (pot < 12) {
      // Either sign, some ten binary orders of magnitude around one, any fraction.
      const std::uint64_t exponent = (draw >> 4) % 10;
      const std::uint64_t fraction = (draw >> 8) & ((std::uint64_t{1} << fraction_bits) - 1);
      const std::uint64_t magnitude =
          one + (exponent << fraction_bits) - (std::uint64_t{5} << fraction_bits) + fraction;
      const std::uint64_t sign = random() & std::uint64_t{1} << (8 * sizeof(Bits) - 1);
      bits = static_cast<Bits>(magnitude | sign);
    }
    write_bits(to, i, bits);
  }
}

}  // namespace

Buffer make_samples(DType type, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed * 0x9E3779B97F4A7C15 + static_cast<std::uint64_t>(type));
  Buffer samples(count * size_of(type));
  switch (type) {
    case DType::float16: fill_floats<std::uint16_t>(samples, count, random, kHostileFloat16, 0x3C00, 10); break;
    case DType::bfloat16: fill_floats<std::uint16_t>(samples, count, random, kHostileBFloat16, 0x3F80, 7); break;
    case DType::float32:
    case DType::complex64:
      fill_floats<std::uint32_t>(samples, samples.size() / 4, random, kHostileFloat32, 0x3F800000, 23);
      break;
    case DType::float64:
    case DType::complex128:
      fill_floats<std::uint64_t>(samples, samples.size() / 8, random, kHostileFloat64, 0x3FF0000000000000, 52);
      break;
    case DType::boolean:
      for (std::byte& b : samples) b = random() % 2 == 0 ? std::byte{0} : static_cast<std::byte>(random());
      break;
    default:
      for (std::byte& b : samples) b = static_cast<std::byte>(random());
      for (std::size_t i = 0; i < count; ++i) {
        if (random() % 4 == 0) std::memset(samples.data() + i * size_of(type), 0, size_of(type));
      }
      break;
  }
  return samples;
}

}  // namespace tutti::kernels_test
