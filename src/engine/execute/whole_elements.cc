#include "engine/execute/whole_elements.h"

#include <algorithm>
#include <cstring>

#include "base/canonical.h"
#include "engine/execute/own_operator.h"
#include "schedule/verbs.h"

namespace tutti::engine {
namespace {

Verb mover_of(Verb verb) {
  if (verb == Verb::reduce) return Verb::gather;
  return verb == Verb::reduce_scatter ? Verb::all_to_all : Verb::all_gather;
}

// An operand is as large as the result that it becomes a part of.
std::uint64_t operand_bytes(const Call& call) {
  return call.verb == Verb::all_to_all ? call.output_bytes : call.input_bytes;
}

}  // namespace

void move_whole(Call& call, int rank, int size, UnevenChunks& chunks) {
  const bool vector = schedule::facts_of(call.verb).cut == schedule::Cut::vector;
  call.whole = true;
  call.verb = mover_of(call.verb);
  call.in_place = false;  // the output is written at the end
  const std::uint64_t units = call.unit_bytes;
  call.unit_bytes = 1;
  call.count *= units;
  if (vector) call.moved_bytes *= static_cast<std::uint64_t>(size);
  if (!call.uneven) return;
  for (auto* numbers : {&chunks.input_counts, &chunks.input_displacements}) {
    for (std::uint64_t& number : *numbers) number *= units;
  }
  // From every rank comes what it has for this one.
  std::fill(chunks.output_counts.begin(), chunks.output_counts.end(),
            chunks.input_counts[static_cast<std::size_t>(rank)]);
  for (std::size_t i = 0; i < chunks.output_counts.size(); ++i)
    chunks.output_displacements[i] = i * chunks.output_counts[i];
}

std::byte* WholeElements::fit(const Call& call, int rank, int size) {
  operands_ = nullptr;
  if (call.verb == Verb::gather && rank != call.root) return nullptr;
  const std::uintptr_t misaligned = call.own->element.alignment() - 1;
  memory_.resize(static_cast<std::size_t>(size) * operand_bytes(call) + misaligned);
  const auto beyond = reinterpret_cast<std::uintptr_t>(memory_.data()) & misaligned;
  return operands_ = memory_.data() + (beyond == 0 ? 0 : misaligned + 1 - beyond);
}

void WholeElements::fold(const Call& call, int rank, int size) {
  const Verb verb = call.statement().verb();  // what was asked for
  const int contributors = schedule::promised(verb, size, rank, call.root, 0).contributors;
  if (call.output == nullptr || call.output_bytes == 0 || contributors == 0 || operands_ == nullptr) return;
  each_.clear();
  for (int i = 0; i < contributors; ++i) each_.push_back(operands_ + static_cast<std::size_t>(i) * operand_bytes(call));
  const std::size_t count = call.output_bytes / call.own->element.bytes();
  const auto join = [&](std::byte* left, std::byte* right) {
    apply_own(*call.own, left, left, right, count);
    return left;
  };
  const std::byte* result = each_[0];
  if (schedule::facts_of(verb).prefix) {
    result = prefix_fold(std::span<std::byte* const>(each_), join);
  } else {
    canonical_fold(std::span(each_), join);
  }
  std::memcpy(call.output, result, call.output_bytes);
}

}  // namespace tutti::engine
