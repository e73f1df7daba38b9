#include "tutti/train/tensor_parallel.h"

#include <cstring>
#include <utility>

#include "strategy/tensor_sentence.h"
#include "train/words.h"

namespace tutti::train {
namespace {

// From [before][size * piece] to [size][before][piece], or back; pieces are of bytes.
enum class Regroup { by_rank, by_place };
void regroup(Regroup how, const std::byte* from, std::byte* to, std::size_t before, std::size_t ranks,
             std::size_t piece) {
  for (std::size_t at = 0; at < before; ++at) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::size_t place = (at * ranks + rank) * piece, by_rank = (rank * before + at) * piece;
      const bool to_rank = how == Regroup::by_rank;
      std::memcpy(to + (to_rank ? by_rank : place), from + (to_rank ? place : by_rank), piece);
    }
  }
}

bool talks(Crossing crossing) { return crossing != Crossing::copy && crossing != Crossing::scatter; }

bool gathers(Crossing crossing) { return crossing == Crossing::gather || crossing == Crossing::gather_sequence; }

}  // namespace

TensorParallel::TensorParallel(Communicator& communicator, std::string axis)
    : comm_(communicator.duplicate()), axis_(std::move(axis)) {}

CutPart TensorParallel::part_of(std::int64_t extent) const {
  const auto border = [&](std::int64_t rank) { return extent * rank / size(); };
  return {border(rank()), border(rank() + 1) - border(rank())};
}

CutPart TensorParallel::even_part_of(std::int64_t extent, std::string_view what) const {
  if (extent % size() == 0) return part_of(extent);
  refuse_call("axis \"" + axis_ + "\" of " + std::to_string(size()) + " ranks cannot cut " + std::string(what) + ", " +
              std::to_string(extent) + ", evenly; make it a multiple of " + std::to_string(size()) +
              ", or give the axis a size that divides it");
}

Request TensorParallel::request(Crossing crossing, const void* from, void* to, const CutArray& array) const {
  const std::size_t whole = array.count(), part = whole / static_cast<std::size_t>(size());
  Request request{.input = from, .output = to, .input_count = whole, .output_count = whole, .element = array.type};
  if (gathers(crossing)) {
    request.verb = Verb::all_gather;
    request.input_count = part;
  } else if (crossing == Crossing::reduce_scatter_sequence) {
    request.verb = Verb::reduce_scatter;
    request.output_count = part;
  }
  return request;
}

void TensorParallel::cross(Crossing crossing, const void* from, void* to, const CutArray& array) {
  const bool is_cut = crossing != Crossing::copy && crossing != Crossing::reduce;
  if (is_cut) (void)even_part_of(static_cast<std::int64_t>(array.extent), "a dimension of an activation");
  const std::size_t ranks = static_cast<std::size_t>(size()), element = size_of(array.type);
  const std::size_t piece = array.extent * array.behind * element / (is_cut ? ranks : 1);
  if (size() == 1 || crossing == Crossing::copy) {
    if (from != to) std::memcpy(to, from, array.count() * element);
  } else if (crossing == Crossing::scatter) {
    const auto* whole = static_cast<const std::byte*>(from) + static_cast<std::size_t>(rank()) * piece;
    for (std::size_t at = 0; at < array.before; ++at)
      std::memcpy(static_cast<std::byte*>(to) + at * piece, whole + at * ranks * piece, piece);
  } else if (!is_cut || array.before == 1) {
    comm_.run(request(crossing, from, to, array));
  } else {
    scratch_.resize(array.count() * element);
    if (gathers(crossing)) {
      comm_.run(request(crossing, from, scratch_.data(), array));
      regroup(Regroup::by_place, scratch_.data(), static_cast<std::byte*>(to), array.before, ranks, piece);
    } else {
      regroup(Regroup::by_rank, static_cast<const std::byte*>(from), scratch_.data(), array.before, ranks, piece);
      comm_.run(request(crossing, scratch_.data(), to, array));
    }
  }
}

Work TensorParallel::start(Crossing crossing, const void* from, void* to, const CutArray& array) {
  if (array.before != 1)
    refuse_call("start(): a crossing in the background needs an array that is cut along its first dimension");
  if (size() > 1 && talks(crossing)) {
    if (crossing != Crossing::reduce)
      (void)even_part_of(static_cast<std::int64_t>(array.extent), "a dimension of an activation");
    return comm_.submit(request(crossing, from, to, array));
  }
  cross(crossing, from, to, array);
  return {};
}

void TensorParallel::reduce(void* values, std::size_t count, DType type, ReduceOp op) {
  if (size() == 1) return;
  comm_.run({.verb = Verb::all_reduce,
             .input = values,
             .output = values,
             .input_count = count,
             .output_count = count,
             .element = type,
             .op = op});
}

Sentence tensor_parallel_sentence(const TensorParallelShape& shape) { return strategy::sentence_of(shape); }

}  // namespace tutti::train
