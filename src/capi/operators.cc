#include "capi/operators.h"

#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>

#include "capi/errors.h"
#include "tutti/reduce_local.h"

namespace tutti::capi {
namespace {

class Combined final : public Operator {
 public:
  Combined(tutti_combine function, void* context) : function_(function), context_(context) {}
  void combine(void* result, const void* left, const void* right, std::size_t count) const override {
    function_(result, left, right, count, context_);
  }

 private:
  tutti_combine function_;
  void* context_;
};

// Operators that are not built in, by number. Numbers are not used again, so a freed operator is never another one.
class Registry {
 public:
  static Registry& instance() {
    static auto* const kRegistry = new Registry;  // outlives every caller, those at exit included
    return *kRegistry;
  }
  tutti_op add(Op op) {
    const std::lock_guard lock(mutex_);
    ops_.emplace(next_, std::move(op));
    return next_++;
  }
  // The operator stays alive with the copy.
  Op find(tutti_op number, std::string_view where) const {
    const std::shared_lock lock(mutex_);
    const auto found = ops_.find(number);
    if (found == ops_.end()) refuse(number, where);
    return found->second;
  }
  // The operator of before stays alive with its copies.
  void replace(tutti_op number, Op op, std::string_view where) {
    const std::lock_guard lock(mutex_);
    const auto found = ops_.find(number);
    if (found == ops_.end()) refuse(number, where);
    found->second = std::move(op);
  }
  void remove(tutti_op number, std::string_view where) {
    const std::lock_guard lock(mutex_);
    if (ops_.erase(number) == 0) refuse(number, where);
  }

 private:
  static constexpr tutti_op kFirst = 1 << 16;  // far from the built-in ones

  [[noreturn]] void refuse(tutti_op number, std::string_view where) const {
    const std::string begin = std::string(where) + ": ";
    if (number == TUTTI_OP_NONE) reject(begin + "the operator is TUTTI_OP_NONE");
    if (number >= kFirst && number < next_) reject(begin + "this operator is no more: tutti_op_free was called for it");
    reject(begin + "there is no operator " + std::to_string(number));
  }

  mutable std::shared_mutex mutex_;
  std::unordered_map<tutti_op, Op> ops_;
  tutti_op next_ = kFirst;
};

constexpr std::size_t kBuiltIn = kReduceOps - 1;  // premul_sum comes with a factor
static_assert(kBuiltIn <= TUTTI_MINLOC);

// TUTTI_VALUE_INDEX.
bool is_value_index(tutti_type type) { return (type & 0xff) == 0xfe; }
DType value_of(tutti_type type) { return static_cast<DType>(type >> 8 & 0xff); }
DType index_of(tutti_type type) { return static_cast<DType>(type >> 16 & 0xff); }

// Refuses pairs that there are none of.
Op minloc_of(tutti_type type, std::string_view where) {
  if ((type >> 8 & 0xff) >= kDTypes || type >> 16 >= kDTypes)
    reject(std::string(where) + ": TUTTI_VALUE_INDEX of types that there are not");
  try {
    return Op::minloc(value_of(type), index_of(type));
  } catch (const Error& error) {
    throw Error(error.code(), std::string(where) + ": " + error.what());
  }
}

}  // namespace

Element element_of(tutti_type type, std::string_view where) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 30;
  if ((type & 0xff) == 0xff) {
    const tutti_type bytes = type >> 24, alignment = type >> 8 & 0xffff;
    if (bytes == 0 || bytes > kMostBytes)
      reject(std::string(where) + ": an element has 1 byte to 1 GB, not " + std::to_string(bytes));
    return Element::of_bytes(bytes, alignment);
  }
  if (is_value_index(type)) return minloc_of(type, where).own()->element;
  if (type >= kDTypes) reject(std::string(where) + ": there is no element type " + std::to_string(type));
  return static_cast<DType>(type);
}

Op op_of(tutti_op op, tutti_type type, std::string_view where) {
  if (op < kBuiltIn) return static_cast<ReduceOp>(op);
  if (op == TUTTI_MINLOC || op == TUTTI_MAXLOC) {
    const char* const name = op == TUTTI_MINLOC ? "TUTTI_MINLOC" : "TUTTI_MAXLOC";
    if (!is_value_index(type))
      reject(std::string(where) + ": " + name + " reduces elements of TUTTI_VALUE_INDEX, a value and its index");
    return op == TUTTI_MINLOC ? minloc_of(type, where) : Op::maxloc(value_of(type), index_of(type));
  }
  return Registry::instance().find(op, where);
}

}  // namespace tutti::capi

using namespace tutti::capi;

extern "C" {

size_t tutti_type_size(tutti_type type) {
  try {
    return element_of(type, "").bytes();
  } catch (...) {
    return 0;  // which is the answer, and no failed call
  }
}

tutti_code tutti_op_create(tutti_combine combine, void* context, tutti_type type, int commutative, const char* name,
                           tutti_op* op) {
  return guarded([&] {
    tutti_op& made = place(op, "tutti_op_create: op");
    made = TUTTI_OP_NONE;
    if (combine == nullptr) reject("tutti_op_create: combine is NULL");
    const auto own = std::make_shared<Combined>(combine, context);
    own->element = element_of(type, "tutti_op_create");
    own->commutative = commutative != 0;
    if (name != nullptr) own->name = name;
    made = Registry::instance().add(tutti::Op(own));
  });
}

tutti_code tutti_op_set_device_source(tutti_op op, const char* source) {
  return guarded([&] {
    constexpr const char* kWhere = "tutti_op_set_device_source";
    if (source == nullptr) reject(std::string(kWhere) + ": source is NULL");
    const bool builtin = op < kBuiltIn || op == TUTTI_MINLOC || op == TUTTI_MAXLOC;
    const auto own = builtin ? nullptr : Registry::instance().find(op, kWhere).own();
    if (own == nullptr) reject(std::string(kWhere) + ": the operator is not one of tutti_op_create");
    const auto with = std::make_shared<Combined>(static_cast<const Combined&>(*own));
    with->device_source = source;
    Registry::instance().replace(op, tutti::Op(with), kWhere);
  });
}

tutti_code tutti_op_premul_sum(double factor, tutti_op* op) {
  return guarded([&] {
    tutti_op& made = place(op, "tutti_op_premul_sum: op");
    made = TUTTI_OP_NONE;
    made = Registry::instance().add(tutti::Op::premul_sum(factor));
  });
}

tutti_code tutti_reduce_local(const void* left, const void* right, void* output, size_t count, tutti_type type,
                              tutti_op op) {
  return guarded([&] {
    tutti::reduce_local(left, right, output, count, element_of(type, "reduce_local"), op_of(op, type, "reduce_local"));
  });
}

tutti_code tutti_op_free(tutti_op* op) {
  return guarded([&] {
    tutti_op& freed = place(op, "tutti_op_free: op");
    if (freed < kBuiltIn || freed == TUTTI_MINLOC || freed == TUTTI_MAXLOC || freed == TUTTI_OP_NONE) return;
    Registry::instance().remove(freed, "tutti_op_free");
    freed = TUTTI_OP_NONE;
  });
}

}  // extern "C"
