// Elements of the caller's that are too large for messages, under an operator of the caller's.
//
// A message carries at least one whole element of a reduction. Where that is too much, the operands are moved as bytes,
// by a verb that only moves, to every rank that has a result, and folded there, in the order of all algorithms.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/call.h"

namespace tutti::engine {

// The largest element that an operator of the caller's takes.
inline constexpr std::size_t kMostOwnBytes = std::size_t{1} << 20;

// Makes of a reduction the call that moves its operands; `chunks` are those of a v-verb.
void move_whole(Call& call, int rank, int size, UnevenChunks& chunks);

// Where the operands of such a call land.
class WholeElements {
 public:
  // The place for them; nullptr where this rank has no use for it.
  std::byte* fit(const Call& call, int rank, int size);
  // Into the call's output, once they are there.
  void fold(const Call& call, int rank, int size);

 private:
  std::vector<std::byte> memory_;
  std::byte* operands_ = nullptr;  // aligned as the element is
  std::vector<std::byte*> each_;
};

}  // namespace tutti::engine
