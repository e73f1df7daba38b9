// A verb with its arguments, as the engine sees it: checked, and with what the executor needs worked out.
//
// What the choice of algorithm depends on is read on the caller's thread when the call is made, because that is the one
// order that all ranks share: an async call may start at different moments on different ranks.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/mix.h"
#include "base/statement.h"
#include "choice/chooser.h"
#include "choice/given.h"
#include "device/staging.h"
#include "kernels/kernels.h"
#include "schedule/algorithms/table.h"
#include "schedule/layout.h"
#include "trace/recorder.h"
#include "transport/transport.h"
#include "tutti/op.h"
#include "tutti/types.h"

namespace tutti::engine {

// Equal on all ranks that make the same call after the same calls: what peers compare before they believe each other's
// data. `before` stands for the calls before it, so that a difference nobody met shows at the next call.
inline std::uint64_t fingerprint_of(const Statement& statement, std::uint64_t before) {
  const std::uint64_t kinds = mix(before, statement.kinds ^ statement.detail * 0xc2b2ae3d27d4eb4full);
  return mix(mix(kinds, statement.count), statement.sequence);
}

// The place of a row in the table; those of schedules that callers brought come behind it, one for each verb.
inline std::ptrdiff_t number_of(const schedule::Algorithm& row) {
  if (choice::is_given(row)) return static_cast<std::ptrdiff_t>(schedule::kMostAlgorithms) + static_cast<int>(row.verb);
  return &row - schedule::kFirstAlgorithm;
}

// Statement::programs of a call that runs the algorithm with this place in the table, or one of two.
constexpr std::uint64_t programs_of(std::ptrdiff_t row) { return static_cast<std::uint64_t>(row) + 1; }
constexpr std::uint64_t programs_of(std::ptrdiff_t ordinary, std::ptrdiff_t direct) {
  return programs_of(direct) << 8 | programs_of(ordinary);
}
static_assert(schedule::kMostAlgorithms + kVerbs < 256 && Statement::kRankBits >= 16);

// "all_reduce #3 of 10 float32, sum": what a statement says, in words.
std::string words_of(const Statement& statement);

// The counts and displacements of a v-verb's chunks, in units of the executor. Lives as long as its call.
struct UnevenChunks {
  std::vector<std::uint64_t> input_counts, input_displacements, output_counts, output_displacements;
  std::vector<std::size_t> by_place;  // while they are checked
};

struct Call {
  // First, in pairs: what is copied and at once read in other pieces makes the processor wait.
  const std::byte* input = nullptr;  // nullptr where this rank has none
  std::byte* output = nullptr;
  schedule::Chunks input_chunks = {}, output_chunks = {};
  Verb verb = Verb::all_reduce;
  // The executor moves units: elements, or single bytes of the caller's own elements where nothing is reduced.
  std::uint64_t count = 0;  // units of the vector, or of each chunk
  std::uint32_t unit_bytes = 1;
  std::uint64_t input_bytes = 0, output_bytes = 0;  // of this rank's buffers
  std::uint64_t moved_bytes = 0;                    // of the vector or of all chunks: the same on all ranks

  int root = 0;                              // send_recv: the sender; kAnySource until it is known
  int peer = -1;                             // send_recv: the other rank, likewise
  bool sends = false;                        // send_recv: or receives
  kernels::ReduceFunction reduce = nullptr;  // the kernel of (type, op)
  const Operator* own = nullptr;             // the caller's own operator instead
  std::uint32_t divisor = 1;                 // average
  kernels::ScaleFunction scale = nullptr;    // premul_sum: scales the input, which is then summed
  double factor = 1.0;
  bool uneven = false;
  bool keep_order = false;     // operands keep the order of the ranks
  bool in_place = false;       // what input and output share is one memory
  bool whole = false;          // moves the operands of a reduction, which is folded at the end (whole_elements.h)
  std::uint64_t kinds = 0;     // Statement::kinds, but for the receiver of a message
  std::uint64_t elements = 0;  // what a person would call the count
  std::uint64_t detail = 0;

  device::Staging* staging = nullptr;              // of buffers on a device: `input` and `output` stand in for them
  const schedule::Algorithm* row = nullptr;        // the algorithm to run, where it is not to be chosen
  const trace::GroupRecorder* recorder = nullptr;  // of what the call does, where that is recorded

  // Filled in by the engine.
  std::uint64_t sequence = 0;     // of the collective, or of the message in its direction; kUnnumbered until it has one
  std::uint64_t fingerprint = 0;  // of a collective and of all before it
  std::chrono::milliseconds timeout{0};  // without any movement
  bool symmetric_memory_exists = false;  // the group has made some
  transport::MemoryRef input_ref = 0, output_ref = 0;

  static constexpr std::uint64_t kUnnumbered = ~std::uint64_t{0};

  choice::Question question(bool across = false) const {
    return {verb, moved_bytes, uneven, keep_order, symmetric_memory_exists, row, across, root};
  }
  bool is_message() const { return verb == Verb::send_recv; }
  int tag() const { return static_cast<int>(statement().mark()); }  // of a message
  // What counters and traces have of it: of a v-variant whose counts not all ranks know, those that this one does.
  std::uint64_t counted_bytes() const {
    return uneven ? std::max({moved_bytes, input_bytes, output_bytes}) : moved_bytes;
  }
  // What a rank that makes this call says of it: the same on all ranks that make the same call. A receive whose message
  // is not known yet has no number, and leaves open what its caller left open.
  Statement statement() const { return {sequence + 1, kinds, elements, detail}; }
  std::string describe() const { return words_of(statement()); }
};

// What has done a call. `row`: nullptr where devices did it all.
struct DoneBy {
  const schedule::Algorithm* row = nullptr;
  std::string_view name;
};

// Whether the call needs a copy of its input as it was: peers would copy what is being overwritten, or the program
// itself reads it again.
inline bool keeps_input(const Call& call, const schedule::Algorithm& row) {
  return !row.user_windows && call.in_place && !schedule::runs_in_place(row);
}

}  // namespace tutti::engine
