// Many tensors, few operations: what is too small to be worth a collective of its own shares one.
//
//   tutti::Fusion fusion(comm);
//   for (auto& gradient : gradients) fusion.all_reduce(gradient, tutti::ReduceOp::average);
//   fusion.wait();
//
// Tensors are copied one behind the other into a buffer of symmetric memory; when it is full, or the next tensor has
// another type or operator, the buffer is reduced in one operation while the next fills the other half; results are
// copied back when the tensor's part has ended, at the latest in wait(). A tensor larger than half the buffer is reduced
// where it is. The bits are those of one all_reduce per tensor.
//
// All ranks add the same tensors in the same order. Same thread rule as the communicator, which must outlive it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "tutti/communicator.h"

namespace tutti {

class Fusion {
 public:
  // Collective: allocates `bytes` of symmetric memory.
  explicit Fusion(Communicator& communicator, std::size_t bytes = 8 << 20);
  Fusion(Fusion&&) noexcept;
  Fusion& operator=(Fusion&&) noexcept;
  // Waits, and leaves an error to the communicator's next call.
  ~Fusion();

  // In place; the tensor is the library's until wait().
  template <Writable Tensor>
  requires Lasting<Tensor>
  void all_reduce(Tensor&& tensor, const Op& op = ReduceOp::sum) {
    add(std::ranges::data(tensor), std::ranges::size(tensor), Element::of<ElementOf<Tensor>>(), op);
  }
  void add(void* tensor, std::size_t count, Element element, const Op& op);
  // Starts what has been added so far, without waiting for it.
  void flush();
  // Until every tensor holds its result.
  void wait();
  // Collectives started so far: how much was fused.
  std::size_t operations() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Several tensors in one operation: coalesced, however large they are.
template <Writable Tensor>
void all_reduce_coalesced(Communicator& communicator, std::span<Tensor> tensors, const Op& op = ReduceOp::sum) {
  std::size_t bytes = 0;
  for (Tensor& tensor : tensors) bytes += std::ranges::size(tensor) * sizeof(ElementOf<Tensor>);
  Fusion fusion(communicator, 2 * bytes);
  for (Tensor& tensor : tensors) fusion.all_reduce(tensor, op);
  fusion.wait();
}

}  // namespace tutti
