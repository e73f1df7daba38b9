// Tensors as the core sees them: an address, a number of elements, a type; and what may stand for a tensor that is not
// one dense run of elements.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <functional>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::pytorch {

// Throws unless the core can take the tensor as it is or through a copy: one that is there, strided, in the memory of
// the CPU or of a CUDA GPU. `verb` is for the words.
void require_usable(const at::Tensor& tensor, const char* verb);
// The same for each, and that they are of one type and on one device.
void require_usable(const std::vector<at::Tensor>& tensors, const char* verb);
void require_same_type(const at::Tensor& one, const at::Tensor& other, const char* verb);

// Where elements are only moved: their type, or bytes for types that the core does not know (float8 and the like).
tutti_type type_to_move(const at::Tensor& tensor);
// Where they are reduced; throws for types that cannot be.
tutti_type type_to_reduce(const at::Tensor& tensor, const char* verb);

inline std::size_t count_of(const at::Tensor& tensor) { return static_cast<std::size_t>(tensor.numel()); }
inline std::size_t bytes_of(const at::Tensor& tensor) { return count_of(tensor) * tensor.element_size(); }

// Whether the elements lie one behind the other and are what they seem (no pending conjugation or sign).
bool is_plain(const at::Tensor& tensor);
// The tensor itself where it is plain, else a plain copy.
at::Tensor plain_input(const at::Tensor& tensor);
// The tensor itself where it is plain, else memory for as many elements, to be copied back with copy_back().
at::Tensor plain_output(const at::Tensor& tensor);
// Does nothing where both are the same. Works for every kind of output: leaves that want gradients, inference tensors.
void copy_back(const at::Tensor& from, const at::Tensor& to);

// A tensor with copies of the elements of all of them, one behind the other.
at::Tensor gathered_copy(const std::vector<at::Tensor>& tensors);
// Copies consecutive parts of `from` to each.
void scatter_back(const at::Tensor& from, const std::vector<at::Tensor>& to);

// How the core is shown a list of tensors, one per rank. Follows from their sizes, which all ranks know alike.
//   joined  one behind the other, for the verbs with equal chunks: small tensors, and those of GPUs, whose copies are
//           cheap beside what chunks of different lengths take; copied where they do not lie so
//   apart   where they are, for the verbs with chunks of different lengths and places
enum class Layout : unsigned char { joined, apart };
Layout layout_of(const std::vector<at::Tensor>& tensors);

// A list of tensors, one per rank, as chunks from the lowest address of them.
class TensorList {
 public:
  enum class Use : unsigned char { input, output };
  TensorList(const std::vector<at::Tensor>& tensors, Layout layout, Use use);

  void* base() const { return base_; }
  const std::size_t* counts() const { return counts_.data(); }
  const std::size_t* displacements() const { return displacements_.data(); }
  // What must live as long as the call.
  const std::vector<at::Tensor>& held() const { return held_; }
  // What is left to do for outputs; empty where the core writes them itself.
  std::function<void()> copies_to(const std::vector<at::Tensor>& tensors) const;

 private:
  bool place_apart(const std::vector<at::Tensor>& tensors, Use use);
  void place_joined(const std::vector<at::Tensor>& tensors, Use use);

  void* base_ = nullptr;
  std::vector<std::size_t> counts_, displacements_;
  std::vector<at::Tensor> held_;  // one that holds all, or one each
};

// The operator of a reduction; the premultiplied ones are made for one call.
class Operator {
 public:
  explicit Operator(const c10d::ReduceOp& op);
  ~Operator();
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;

  tutti_op get() const { return op_; }

 private:
  tutti_op op_ = TUTTI_SUM;
  bool made_ = false;
};

}  // namespace tutti::pytorch
