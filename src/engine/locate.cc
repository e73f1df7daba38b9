// The operators minloc and maxloc, as operators on elements of their own.
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tutti/error.h"
#include "tutti/op.h"

namespace tutti {
namespace {

enum class Wins : unsigned char { smaller, larger };

// Whether `right` takes the place of `left`. A NaN comes before all numbers; equal values go by their indices.
template <Wins kWins, class T, class I>
bool replaces(const ValueIndex<T, I>& left, const ValueIndex<T, I>& right) {
  if constexpr (std::is_floating_point_v<T>) {
    const bool left_is = std::isnan(left.value), right_is = std::isnan(right.value);
    if (left_is || right_is) return left_is == right_is ? right.index < left.index : right_is;
  }
  if (right.value == left.value) return right.index < left.index;
  return kWins == Wins::smaller ? right.value < left.value : right.value > left.value;
}

// Elements may lie anywhere: some callers have them at addresses that their types would not.
template <Wins kWins, class T, class I>
class Locate final : public Operator {
 public:
  void combine(void* result, const void* left, const void* right, std::size_t count) const override {
    using Pair = ValueIndex<T, I>;
    for (std::size_t i = 0; i < count; ++i) {
      Pair a, b;
      std::memcpy(&a, static_cast<const std::byte*>(left) + i * sizeof(Pair), sizeof(Pair));
      std::memcpy(&b, static_cast<const std::byte*>(right) + i * sizeof(Pair), sizeof(Pair));
      if (replaces<kWins>(a, b)) a = b;
      if constexpr (std::is_floating_point_v<T>) {
        if (std::isnan(a.value)) a.value = std::numeric_limits<T>::quiet_NaN();  // one NaN, as of every reduction
      }
      std::memcpy(static_cast<std::byte*>(result) + i * sizeof(Pair), &a, sizeof(Pair));
    }
  }
};

// Calls make(T()) for the type of the values; what is no such type is refused.
template <class Make>
auto with_value(DType type, const Make& make) {
  switch (type) {
    case DType::int8: return make(std::int8_t{});
    case DType::int16: return make(std::int16_t{});
    case DType::int32: return make(std::int32_t{});
    case DType::int64: return make(std::int64_t{});
    case DType::uint8: return make(std::uint8_t{});
    case DType::uint16: return make(std::uint16_t{});
    case DType::uint32: return make(std::uint32_t{});
    case DType::uint64: return make(std::uint64_t{});
    case DType::float32: return make(float{});
    case DType::float64: return make(double{});
    default: break;
  }
  throw Error(ErrorCode::unsupported,
              std::string(name_of(type)) + " has no minloc and maxloc: values are integers, float32 or float64");
}

// Made once: calls with it are as quick as any.
template <Wins kWins, class T, class I>
const std::shared_ptr<const Operator>& the_only() {
  static const std::shared_ptr<const Operator> kOnly = [] {
    auto made = std::make_shared<Locate<kWins, T, I>>();
    made->element = Element::of<ValueIndex<T, I>>();
    made->name = std::string(kWins == Wins::smaller ? "minloc" : "maxloc") + " of " +
                 std::string(name_of(DTypeOf<T>::value)) + " and " + std::string(name_of(DTypeOf<I>::value));
    return made;
  }();
  return kOnly;
}

template <Wins kWins>
Op locate(DType value, DType index) {
  if (index != DType::int32 && index != DType::int64) {
    throw Error(ErrorCode::unsupported,
                "the index of minloc and maxloc is an int32 or int64, not " + std::string(name_of(index)));
  }
  const bool narrow = index == DType::int32;
  return with_value(value, [narrow]<class T>(T) {
    return narrow ? Op(the_only<kWins, T, std::int32_t>()) : Op(the_only<kWins, T, std::int64_t>());
  });
}

}  // namespace

Op Op::minloc(DType value, DType index) { return locate<Wins::smaller>(value, index); }
Op Op::maxloc(DType value, DType index) { return locate<Wins::larger>(value, index); }

}  // namespace tutti
