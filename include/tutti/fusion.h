// Many tensors, few operations: what is too small to be worth a collective of its own shares one.
//
//   tutti::Fusion fusion(comm);
//   for (auto& gradient : gradients) fusion.all_reduce(gradient, tutti::ReduceOp::average);
//   fusion.wait();
//
// Tensors are copied one behind the other into a buffer of symmetric memory; when half of it is full, or the next
// tensor has another type or operator, that half is reduced in one operation while the next tensors fill the other;
// results are copied back when the half is needed again, at the latest in wait(). A tensor larger than half the buffer
// is reduced where it is. In a deterministic communicator the bits are those of one all_reduce per tensor.
//
// Operators of one's own count as the same where they are one object, or have the same name.
//
// All ranks add the same tensors in the same order, and change operators (the factor of a premul_sum, too) at the same
// tensors. Same thread rule as the communicator, which must outlive it.
#pragma once

#include <cstddef>
#include <memory>
#include <ranges>
#include <span>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/export.h"

namespace tutti {

class TUTTI_API Fusion {
 public:
  // Collective: allocates `bytes` of symmetric memory.
  explicit Fusion(Communicator& communicator, std::size_t bytes = 8 << 20);
  Fusion(Fusion&&) noexcept;
  Fusion& operator=(Fusion&&) noexcept;
  // Waits, and leaves an error to the communicator's next call. While an exception passes, what has not been started is
  // not started any more.
  ~Fusion();

  // In place; the tensor is the library's until wait(). An error may be that of tensors added before; this one has not
  // been added then, and those keep their values.
  template <Writable Tensor>
  requires Lasting<Tensor>
  void all_reduce(Tensor&& tensor, const Op& op = ReduceOp::sum) {
    add(std::ranges::data(tensor), std::ranges::size(tensor), Element::of<ElementOf<Tensor>>(), op);
  }
  void add(void* tensor, std::size_t count, Element element, const Op& op);
  // Starts what has been added so far, without waiting for it.
  void flush();
  // Until every tensor holds its result. Throws the first error after all operations have ended; nothing is left to
  // wait for then, and tensors whose operation failed keep their values, but for those reduced where they are.
  void wait();
  // Collectives started so far: how much was fused.
  std::size_t operations() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Several tensors of one type in one operation, in place: packed into ordinary memory, reduced, unpacked. A single
// tensor is reduced where it is. All ranks pass the same lengths in the same order.
TUTTI_API void all_reduce_coalesced(Communicator& communicator, std::span<void* const> tensors,
                                    std::span<const std::size_t> counts, Element element, const Op& op);

template <std::ranges::forward_range Tensors>
requires Writable<std::ranges::range_reference_t<Tensors>>
void all_reduce_coalesced(Communicator& communicator, Tensors&& tensors, const Op& op = ReduceOp::sum) {
  std::vector<void*> data;
  std::vector<std::size_t> counts;
  for (auto&& tensor : tensors) {
    data.push_back(std::ranges::data(tensor));
    counts.push_back(std::ranges::size(tensor));
  }
  using Value = ElementOf<std::ranges::range_reference_t<Tensors>>;
  all_reduce_coalesced(communicator, data, counts, Element::of<Value>(), op);
}

}  // namespace tutti
