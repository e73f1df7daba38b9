#include "engine/program_case.h"

#include <algorithm>

#include "check.h"
#include "engine/reference.h"
#include "schedule/verbs.h"

namespace tutti::testing {

using schedule::Algorithm;
using schedule::Buffer;
using schedule::Holding;

namespace {

constexpr std::byte kUntouched{0xA5};

Bytes fold_prefix(const ProgramCase& c, int ranks) {
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < ranks; ++rank) inputs.push_back(c.input_of(rank));
  return prefix_fold(std::span<const Bytes>(inputs), [&](const Bytes& left, const Bytes& right) {
    Bytes sum(left.size());
    void* const destination = sum.data();
    const void* const sources[] = {left.data(), right.data()};
    kernels::find_reduce(c.type(), c.op())(&destination, 1, sources, 2, c.count, 1);
    return sum;
  });
}

Bytes reduced(const ProgramCase& c, int chunk) {
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < c.ranks; ++rank) inputs.push_back(chunk < 0 ? c.input_of(rank) : c.chunk_of(rank, chunk));
  return reduce_naively(c.type(), c.op(), std::move(inputs), c.count, c.hosts);
}

}  // namespace

std::size_t ProgramCase::bytes(Buffer buffer, int rank) const {
  const Holding holding = schedule::holding_of(row.verb, buffer, ranks, rank, root);
  const std::size_t one = count * size_of(type());
  if (holding == Holding::nothing) return 0;
  return holding == Holding::all && chunks() ? one * static_cast<std::size_t>(ranks) : one;
}

Bytes ProgramCase::input_of(int rank) const {
  Bytes data(bytes(Buffer::input, rank));
  fill_hostile(DType::float32, data.data(), data.size() / 4, 7, rank);
  return data;
}

Bytes ProgramCase::chunk_of(int rank, int chunk) const {
  const Bytes data = input_of(rank);
  const auto one = static_cast<std::ptrdiff_t>(count * size_of(type()));
  return {data.begin() + chunk * one, data.begin() + (chunk + 1) * one};
}

Bytes ProgramCase::expected_of(int rank) const {
  Bytes result;
  const auto append = [&](const Bytes& more) { result.insert(result.end(), more.begin(), more.end()); };
  switch (row.verb) {
    case Verb::all_reduce: return reduced(*this, -1);
    case Verb::reduce: return rank == root ? reduced(*this, -1) : Bytes{};
    case Verb::reduce_scatter: return reduced(*this, rank);
    case Verb::broadcast: return input_of(root);
    case Verb::send_recv: return rank == root ? Bytes{} : input_of(root);
    case Verb::scatter: return chunk_of(root, rank);
    case Verb::gather:
    case Verb::all_gather:
      for (int from = 0; from < ranks && (row.verb == Verb::all_gather || rank == root); ++from) append(input_of(from));
      return result;
    case Verb::all_to_all:
      for (int from = 0; from < ranks; ++from) append(chunk_of(from, rank));
      return result;
    case Verb::scan: return fold_prefix(*this, rank + 1);
    case Verb::exclusive_scan: return rank == 0 ? Bytes{} : fold_prefix(*this, rank);
    case Verb::barrier: break;
  }
  return result;
}

std::string ProgramCase::words() const {
  return std::string(name_of(row.verb)) + " by " + std::string(row.name) + ", " + std::to_string(ranks) +
         " ranks, root " + std::to_string(root) + ", count " + std::to_string(count) + (in_place ? ", in place" : "");
}

std::vector<int> roots_of(const Algorithm& row, int ranks) {
  if (!schedule::facts_of(row.verb).rooted) return {0};
  if (ranks > 5) return {0, ranks - 2};
  std::vector<int> roots;
  for (int root = 0; root < ranks; ++root) roots.push_back(root);
  return roots;
}

CaseBuffers::Memory::Memory(std::size_t bytes) : bytes_(bytes), memory_(bytes + 2 * kGuard, kUntouched) {}

bool CaseBuffers::Memory::guards_intact() const {
  const auto is = [](std::byte byte) { return byte == kUntouched; };
  const auto end = static_cast<std::ptrdiff_t>(kGuard + bytes_);
  return std::all_of(memory_.begin(), memory_.begin() + kGuard, is) &&
         std::all_of(memory_.begin() + end, memory_.end(), is);
}

CaseBuffers::CaseBuffers(const ProgramCase& c, int rank)
    : case_(c),
      rank_(rank),
      given_(c.input_of(rank)),
      shared_(c.in_place && !given_.empty() && c.bytes(Buffer::output, rank) != 0),
      first_(shared_ ? std::max(given_.size(), c.bytes(Buffer::output, rank)) : given_.size()),
      second_(shared_ ? 0 : c.bytes(Buffer::output, rank)) {
  const std::size_t in_bytes = given_.size(), out_bytes = c.bytes(Buffer::output, rank);
  // The smaller one is the own chunk inside the larger one.
  const std::size_t own = static_cast<std::size_t>(rank) * c.count * size_of(c.type());
  input_ = first_.data() + (shared_ && in_bytes < out_bytes ? own : 0);
  output_ = shared_ ? first_.data() + (out_bytes < in_bytes ? own : 0) : second_.data();
  std::copy(given_.begin(), given_.end(), input_);
}

engine::Binding CaseBuffers::binding() {
  engine::Binding binding;
  binding.input = input_;
  binding.output = output_;
  binding.count = case_.row.verb == Verb::barrier ? 0 : case_.count;
  binding.element_bytes = static_cast<std::uint32_t>(size_of(case_.type()));
  binding.reduce = kernels::find_reduce(case_.type(), case_.op());
  binding.divisor = case_.op() == ReduceOp::average ? static_cast<std::uint32_t>(case_.ranks) : 1;
  return binding;
}

void CaseBuffers::require_right() const {
  const Bytes expected = case_.expected_of(rank_);
  const std::size_t out_bytes = case_.bytes(Buffer::output, rank_);
  require(expected.size() == out_bytes, case_.words() + ": the table and the test disagree about the output");
  require(std::equal(expected.begin(), expected.end(), output_), case_.words() + ": the output");
  require(first_.guards_intact() && second_.guards_intact(), case_.words() + ": writes outside its buffers");
  bool intact = true;
  for (std::size_t i = 0; i < given_.size(); ++i) {
    const bool overwritten = shared_ && input_ + i >= output_ && input_ + i < output_ + out_bytes;
    intact = intact && (overwritten || input_[i] == given_[i]);
  }
  require(intact, case_.words() + ": the input is not intact");
}

}  // namespace tutti::testing
