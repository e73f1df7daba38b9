// Tensor parallel: layers cut over the ranks of one axis, for any engine that has arrays. For libtorch there are
// modules, in tutti/train/torch_tensor_parallel.h.
//
//   tutti::train::TensorParallel tp(mesh.along("tp"));
//   const auto [first, count] = tp.even_part_of(hidden, "the hidden size");   // this rank's columns of A, rows of B
//   y = x * A[:, part];  z = f(y) * B[part, :];                       // every rank has a term of z
//   tp.cross(Crossing::reduce, z, z, {.type = DType::float32, .extent = z_numbers});
//   ...
//   tp.cross(Crossing::reduce, dx, dx, ...);                          // backward of Crossing::copy, before x * A
//
// A *crossing* is how an array gets from what a layer leaves to what the next one needs. There are three pairs; the
// backward of a crossing is the forward of its conjugate:
//
//   crossing                   forward                             its backward, which is its conjugate
//   copy                       nothing: all ranks have the same    reduce: the sum of what their uses leave
//   reduce                     all_reduce: the sum of all terms    copy
//   gather                     all_gather: the parts as one        scatter: this rank's part
//   scatter                    this rank's part of what all have   gather
//   gather_sequence            all_gather, for all to work with    reduce_scatter_sequence
//   reduce_scatter_sequence    this rank's part of the sum         gather_sequence
//
// The first pair is tensor parallel as such, the last one takes its place in sequence parallel. gather is for a result
// that all ranks go on with in the same way; where each goes on in its own, gradients differ and have to be summed:
// gather_sequence.
//
// Threads: as a communicator. It talks on a duplicate of the axis'. With one rank nothing is called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/export.h"
#include "tutti/train/report.h"
#include "tutti/train/tensor_parallel_shape.h"

namespace tutti::train {

enum class Crossing : unsigned char { copy, reduce, gather, scatter, gather_sequence, reduce_scatter_sequence };

constexpr Crossing conjugate(Crossing crossing) {
  constexpr Crossing kOther[] = {
      Crossing::reduce,         Crossing::copy, Crossing::scatter, Crossing::gather, Crossing::reduce_scatter_sequence,
      Crossing::gather_sequence};
  return kOther[static_cast<std::size_t>(crossing)];
}

// An array with a dimension that is cut: how many elements the whole has before it, along it and behind it.
struct CutArray {
  DType type = DType::float32;
  std::size_t before = 1, extent = 1, behind = 1;

  std::size_t count() const { return before * extent * behind; }
};

// Places [first, first + count) of a dimension.
struct CutPart {
  std::int64_t first = 0, count = 0;

  bool operator==(const CutPart&) const = default;
};

class TUTTI_API TensorParallel {
 public:
  // Collective. `axis` is what errors call it.
  explicit TensorParallel(Communicator& communicator, std::string axis = "tp");

  int rank() const { return comm_.rank(); }
  int size() const { return comm_.size(); }
  const std::string& axis() const { return axis_; }

  // This rank's part of a dimension, none longer than another by more than one.
  CutPart part_of(std::int64_t extent) const;
  // The same where all parts must be alike. Throws Error(invalid_argument) that names the axis, `what` and its size.
  CutPart even_part_of(std::int64_t extent, std::string_view what) const;

  // Collective. `array` is the whole; a part has an even part of its extent. copy and reduce may be in place.
  void cross(Crossing crossing, const void* from, void* to, const CutArray& array);
  // The same while the caller computes, for what lies in one piece: nothing before the dimension that is cut. Where the
  // crossing talks to nobody it is done at once, and the Work is not valid(); wait_all() passes over it.
  [[nodiscard]] Work start(Crossing crossing, const void* from, void* to, const CutArray& array);

  // Collective, in place.
  void reduce(void* values, std::size_t count, DType type, ReduceOp op);

  // What travels, with calls and counters of its own.
  Communicator& communicator() { return comm_; }
  Counters counters() const { return comm_.counters(); }

 private:
  Request request(Crossing crossing, const void* from, void* to, const CutArray& array) const;

  Communicator comm_;
  std::string axis_;
  std::vector<std::byte> scratch_;  // for chunks that do not lie in one piece
};

// Cross entropy of rows of logits whose columns are cut over ranks, as part_of(vocabulary) does it, without gathering
// them: of every row only the largest logit, the sum of exponentials and the target's logit travel. `gradient`, of the
// sum of all losses, is for the logits of this rank; it may be empty. Collective; targets are the same on all ranks.
TUTTI_API void vocabulary_cross_entropy(TensorParallel& ranks, std::span<const float> logits,
                                        std::span<const std::int64_t> targets, std::int64_t vocabulary,
                                        std::span<float> losses, std::span<float> gradient);
TUTTI_API void vocabulary_cross_entropy(TensorParallel& ranks, std::span<const double> logits,
                                        std::span<const std::int64_t> targets, std::int64_t vocabulary,
                                        std::span<double> losses, std::span<double> gradient);

// What a rank says in a step, forward and backward of one batch, by formula.
TUTTI_API Sentence tensor_parallel_sentence(const TensorParallelShape& shape);

}  // namespace tutti::train
