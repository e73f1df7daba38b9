// What a reduction does with two elements: a built-in operator, or one of the caller's.
//
//   comm.all_reduce(loss, ReduceOp::average);
//   comm.all_reduce(loss, Op::premul_sum(0.5));
//   std::vector<ValueIndex<float>> best = ...; comm.all_reduce(best, Op::maxloc<float>());
//   struct Best { float value; int owner; };
//   comm.all_reduce(best, Op::of<Best>([](const Best& a, const Best& b) { return b.value > a.value ? b : a; }));
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>

#include "tutti/element.h"
#include "tutti/export.h"

namespace tutti {

// CUDA C++, with a hash of its letters that every call compares and none makes.
class TUTTI_API DeviceSource {
 public:
  DeviceSource() = default;
  DeviceSource(std::string text);  // NOLINT(google-explicit-constructor): it is text
  DeviceSource(const char* text) : DeviceSource(std::string(text)) {}  // NOLINT(google-explicit-constructor): likewise

  const std::string& text() const { return text_; }
  std::uint64_t hash() const { return hash_; }

 private:
  std::string text_;
  std::uint64_t hash_ = 0;
};

// An operator of the caller's. It must be associative; it may be applied on any thread, one at a time per call, and
// must touch nothing that the caller changes meanwhile. What it throws fails the call with Error(invalid_argument) that
// carries its words, and the communicator with it; other ranks see Error(peer_failed). An element has at most 1 MB; one
// larger than 32 KB / ranks is slower, because all operands are moved to all ranks that have a result.
class TUTTI_API Operator {
 public:
  virtual ~Operator() = default;
  // result[i] = left[i] op right[i]; `left` stems from lower ranks than `right`. result may be left or right.
  virtual void combine(void* result, const void* left, const void* right, std::size_t count) const = 0;

  Element element = DType::uint8;
  // Where false, operands keep the order of the ranks. All ranks must say the same.
  bool commutative = true;
  std::string name;  // for people, and compared between ranks
  std::string type;  // of the code, where it is known: compared between ranks, too
  // The same in CUDA C++, for buffers on devices; empty: they go through host memory. It defines
  //   __device__ Element combine(const Element& left, const Element& right)
  // where Element is the element's type, of 16-bit floats their bits as unsigned short. Of elements of the caller's own
  // it defines Element, too. Compared between ranks.
  DeviceSource device_source;
};

// A value and where it is: what Op::minloc and Op::maxloc reduce.
template <class T, class I = std::int32_t>
struct ValueIndex {
  T value;
  I index;
};

class Op {
 public:
  Op(ReduceOp op) : builtin_(op) {}  // NOLINT(google-explicit-constructor): a ReduceOp is an operator
  explicit Op(std::shared_ptr<const Operator> own) : builtin_(ReduceOp::sum), own_(std::move(own)) {}

  // Multiplies this rank's input by `factor`, rounds, then sums.
  static Op premul_sum(double factor) {
    Op op(ReduceOp::premul_sum);
    op.factor_ = factor;
    return op;
  }

  // The smallest or largest value, and with it the lowest index that has it, for elements ValueIndex<value, index>.
  // Values are integers, float32 or float64; indices int32 or int64. A NaN wins, so that it is not lost.
  TUTTI_API static Op minloc(DType value, DType index);
  TUTTI_API static Op maxloc(DType value, DType index);
  template <class T, class I = std::int32_t>
  static Op minloc() {
    return minloc(DTypeOf<T>::value, DTypeOf<I>::value);
  }
  template <class T, class I = std::int32_t>
  static Op maxloc() {
    return maxloc(DTypeOf<T>::value, DTypeOf<I>::value);
  }

  // join(const T&, const T&) -> T, for any trivially copyable T. `device_source`: Operator::device_source.
  template <class T, class Join>
  requires std::convertible_to<std::invoke_result_t<const Join&, const T&, const T&>, T>
  static Op of(Join join, bool commutative = true, std::string name = {}, std::string device_source = {});

  ReduceOp builtin() const { return builtin_; }
  double factor() const { return factor_; }
  // nullptr where it is a built-in one.
  const std::shared_ptr<const Operator>& own() const { return own_; }

 private:
  ReduceOp builtin_;
  double factor_ = 1.0;
  std::shared_ptr<const Operator> own_;
};

template <class T, class Join>
requires std::convertible_to<std::invoke_result_t<const Join&, const T&, const T&>, T> Op
Op::of(Join join, bool commutative, std::string name, std::string device_source) {
  class Joined final : public Operator {
   public:
    explicit Joined(Join with) : join_(std::move(with)) {}
    void combine(void* result, const void* left, const void* right, std::size_t count) const override {
      auto* out = static_cast<T*>(result);
      const auto *a = static_cast<const T*>(left), *b = static_cast<const T*>(right);
      for (std::size_t i = 0; i < count; ++i) out[i] = join_(a[i], b[i]);
    }

   private:
    Join join_;
  };
  auto joined = std::make_shared<Joined>(std::move(join));
  joined->element = Element::of<T>();
  joined->commutative = commutative;
  joined->name = std::move(name);
  joined->device_source = std::move(device_source);
#ifdef __cpp_rtti
  joined->type = typeid(Join).name();
#endif
  return Op(std::move(joined));
}

}  // namespace tutti
