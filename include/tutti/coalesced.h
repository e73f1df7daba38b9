// Many tensors, one operation: what is too small to be worth a collective of its own shares one. In a deterministic
// communicator the bits are those of one all_reduce per tensor. For the gradients of a model, in every step, there is
// tutti/train/strategy.h: they lie in symmetric memory from the beginning, and travel while backward runs.
#pragma once

#include <cstddef>
#include <ranges>
#include <span>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/export.h"

namespace tutti {

// Several tensors of one type in one operation, in place: packed into memory of the host, reduced, unpacked. A single
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
