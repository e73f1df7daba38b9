#include "backend/tensors.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "backend/errors.h"

namespace tutti::pytorch {
namespace {

std::optional<tutti_type> known_type(at::ScalarType type) {
  switch (type) {
    case at::kChar: return TUTTI_INT8;
    case at::kShort: return TUTTI_INT16;
    case at::kInt: return TUTTI_INT32;
    case at::kLong: return TUTTI_INT64;
    case at::kByte: return TUTTI_UINT8;
    case at::ScalarType::UInt16: return TUTTI_UINT16;
    case at::ScalarType::UInt32: return TUTTI_UINT32;
    case at::ScalarType::UInt64: return TUTTI_UINT64;
    case at::kHalf: return TUTTI_FLOAT16;
    case at::kBFloat16: return TUTTI_BFLOAT16;
    case at::kFloat: return TUTTI_FLOAT32;
    case at::kDouble: return TUTTI_FLOAT64;
    case at::kComplexFloat: return TUTTI_COMPLEX64;
    case at::kComplexDouble: return TUTTI_COMPLEX128;
    case at::kBool: return TUTTI_BOOLEAN;
    default: return std::nullopt;
  }
}

at::Tensor empty_like_flat(const at::Tensor& tensor, std::size_t count) {
  return at::empty({static_cast<std::int64_t>(count)}, tensor.options().layout(at::kStrided).requires_grad(false));
}

std::size_t total_of(const std::vector<at::Tensor>& tensors) {
  std::size_t total = 0;
  for (const at::Tensor& tensor : tensors) total += count_of(tensor);
  return total;
}

at::Tensor room_for(const std::vector<at::Tensor>& tensors) {
  return empty_like_flat(tensors.front(), total_of(tensors));
}

// Where the tensors lie one behind the other, the one that holds all of them; else undefined.
at::Tensor joined_view(const std::vector<at::Tensor>& tensors) {
  const at::Tensor& first = tensors.front();
  const auto* next = static_cast<const char*>(first.const_data_ptr());
  for (const at::Tensor& tensor : tensors) {
    if (!is_plain(tensor) || tensor.const_data_ptr() != next || !tensor.is_alias_of(first)) return {};
    next += bytes_of(tensor);
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return first.as_strided({static_cast<std::int64_t>(total_of(tensors))}, {1});
}

double factor_of(const c10d::ReduceOp& op) {
  const auto* supplement = dynamic_cast<c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());  // of any backend
  if (supplement == nullptr) throw_value("PREMUL_SUM: the factor is missing");
  if (!supplement->tensor_factor.defined()) return supplement->double_factor;
  require_usable(supplement->tensor_factor, "PREMUL_SUM");
  return supplement->tensor_factor.item().toDouble();
}

}  // namespace

void require_usable(const at::Tensor& tensor, const char* verb) {
  const auto reachable = [](const c10::Device& device) { return device.is_cpu() || device.is_cuda(); };
  if (tensor.defined() && tensor.layout() == at::kStrided && reachable(tensor.device()) && !tensor.is_quantized())
    return;
  const std::string where(verb);
  if (!tensor.defined()) throw_value(where + ": a tensor is undefined");
  if (tensor.layout() != at::kStrided) {
    throw_value(where + ": a tensor is " + c10::str(tensor.layout()) +
                "; tutti moves dense tensors: make it dense with to_dense(), or exchange indices and values");
  }
  if (!reachable(tensor.device())) {
    throw_value(where + ": a tensor is on " + tensor.device().str() +
                "; tutti moves tensors of CPUs and of CUDA GPUs: use tensor.cpu(), or another backend for that device");
  }
  throw_value(where + ": a tensor is quantized; send its int_repr() and its scale");
}

void require_same_type(const at::Tensor& one, const at::Tensor& other, const char* verb) {
  if (one.scalar_type() == other.scalar_type()) return;
  throw_value(std::string(verb) + ": tensors of different types, " + c10::str(one.scalar_type()) + " and " +
              c10::str(other.scalar_type()));
}

void require_usable(const std::vector<at::Tensor>& tensors, const char* verb) {
  for (const at::Tensor& tensor : tensors) {
    require_usable(tensor, verb);
    require_same_type(tensors.front(), tensor, verb);
    if (tensor.device() != tensors.front().device()) {
      throw_value(std::string(verb) + ": tensors on different devices, " + tensors.front().device().str() + " and " +
                  tensor.device().str() + "; those of one call lie on one");
    }
  }
}

tutti_type type_to_move(const at::Tensor& tensor) {
  return known_type(tensor.scalar_type()).value_or(TUTTI_BYTES(tensor.element_size()));
}

tutti_type type_to_reduce(const at::Tensor& tensor, const char* verb) {
  const auto type = known_type(tensor.scalar_type());
  if (!type) {
    throw_type(std::string(verb) + ": tensors of type " + c10::str(tensor.scalar_type()) +
               " can be moved but not reduced; convert them, to float16 or bfloat16 for instance");
  }
  return *type;
}

bool is_plain(const at::Tensor& tensor) { return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg(); }

at::Tensor plain_input(const at::Tensor& tensor) {
  if (is_plain(tensor)) return tensor;
  const at::NoGradGuard no_gradients;
  at::Tensor copy = empty_like_flat(tensor, count_of(tensor)).view(tensor.sizes());
  copy.copy_(tensor);
  return copy;
}

at::Tensor plain_output(const at::Tensor& tensor) {
  return is_plain(tensor) ? tensor : empty_like_flat(tensor, count_of(tensor)).view(tensor.sizes());
}

void copy_back(const at::Tensor& from, const at::Tensor& to) {
  if (from.is_same(to)) return;
  const at::AutoDispatchBelowADInplaceOrView below;
  to.copy_(from.view(to.sizes()));
}

at::Tensor gathered_copy(const std::vector<at::Tensor>& tensors) {
  at::Tensor all = room_for(tensors);
  const at::NoGradGuard no_gradients;
  std::int64_t at = 0;
  for (const at::Tensor& tensor : tensors) {
    all.narrow(0, at, tensor.numel()).view(tensor.sizes()).copy_(tensor);
    at += tensor.numel();
  }
  return all;
}

void scatter_back(const at::Tensor& from, const std::vector<at::Tensor>& to) {
  std::int64_t at = 0;
  for (const at::Tensor& tensor : to) {
    copy_back(from.narrow(0, at, tensor.numel()), tensor);
    at += tensor.numel();
  }
}

Layout layout_of(const std::vector<at::Tensor>& tensors) {
  constexpr std::size_t kMostJoined = 64 << 10;  // bytes of all of them
  const at::Tensor& first = tensors.front();
  const bool equal = std::all_of(tensors.begin(), tensors.end(),
                                 [&](const at::Tensor& tensor) { return tensor.numel() == first.numel(); });
  const bool joined = equal && (!first.device().is_cpu() || bytes_of(first) * tensors.size() <= kMostJoined);
  return joined ? Layout::joined : Layout::apart;
}

TensorList::TensorList(const std::vector<at::Tensor>& tensors, Layout layout, Use use) {
  for (const at::Tensor& tensor : tensors) counts_.push_back(count_of(tensor));
  if (layout == Layout::apart && place_apart(tensors, use)) return;
  place_joined(tensors, use);
}

// False where an address is no whole number of elements away from the lowest.
bool TensorList::place_apart(const std::vector<at::Tensor>& tensors, Use use) {
  const std::size_t element = tensors.front().element_size();
  const auto address_of = [](const at::Tensor& tensor) {
    return reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr());
  };
  constexpr std::uintptr_t kNone = std::numeric_limits<std::uintptr_t>::max();
  std::uintptr_t lowest = kNone;
  for (const at::Tensor& tensor : tensors) {
    held_.push_back(use == Use::input ? plain_input(tensor) : plain_output(tensor));
    if (tensor.numel() != 0) lowest = std::min(lowest, address_of(held_.back()));
  }
  for (const at::Tensor& tensor : held_) {
    const std::uintptr_t away = tensor.numel() == 0 ? 0 : address_of(tensor) - lowest;
    if (away % element != 0) {
      held_.clear();
      displacements_.clear();
      return false;
    }
    displacements_.push_back(away / element);
  }
  base_ = lowest == kNone ? nullptr : reinterpret_cast<void*>(lowest);
  return true;
}

void TensorList::place_joined(const std::vector<at::Tensor>& tensors, Use use) {
  at::Tensor all = joined_view(tensors);
  if (!all.defined()) all = use == Use::input ? gathered_copy(tensors) : room_for(tensors);
  std::size_t at = 0;
  for (const std::size_t count : counts_) {
    displacements_.push_back(at);
    at += count;
  }
  base_ = all.data_ptr();
  held_ = {all};
}

std::function<void()> TensorList::copies_to(const std::vector<at::Tensor>& tensors) const {
  if (held_.size() == 1 && tensors.size() != 1) {
    if (held_.front().const_data_ptr() == tensors.front().const_data_ptr() && joined_view(tensors).defined()) return {};
    return [from = held_.front(), tensors] { scatter_back(from, tensors); };
  }
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  for (std::size_t i = 0; i < held_.size(); ++i) {
    if (held_[i].const_data_ptr() != tensors[i].const_data_ptr()) copies.emplace_back(held_[i], tensors[i]);
  }
  if (copies.empty()) return {};
  return [copies] {
    for (const auto& [from, to] : copies) copy_back(from, to);
  };
}

Operator::Operator(const c10d::ReduceOp& op) {
  switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
    case c10d::ReduceOp::SUM: op_ = TUTTI_SUM; return;
    case c10d::ReduceOp::AVG: op_ = TUTTI_AVERAGE; return;
    case c10d::ReduceOp::PRODUCT: op_ = TUTTI_PRODUCT; return;
    case c10d::ReduceOp::MIN: op_ = TUTTI_MINIMUM; return;
    case c10d::ReduceOp::MAX: op_ = TUTTI_MAXIMUM; return;
    case c10d::ReduceOp::BAND: op_ = TUTTI_BAND; return;
    case c10d::ReduceOp::BOR: op_ = TUTTI_BOR; return;
    case c10d::ReduceOp::BXOR: op_ = TUTTI_BXOR; return;
    case c10d::ReduceOp::PREMUL_SUM:
      check(tutti_op_premul_sum(factor_of(op), &op_));
      made_ = true;
      return;
    default: break;
  }
  throw_value("there is no operator " + std::to_string(static_cast<int>(op.op_)));
}

Operator::~Operator() {
  if (made_) tutti_op_free(&op_);
}

}  // namespace tutti::pytorch
