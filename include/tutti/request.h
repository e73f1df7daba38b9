// A verb with its arguments, as plain data: what every typed function of Communicator, the C functions and the language
// bindings come down to, and the way to call a verb whose element type is known only at run time.
//
//   comm.run({.verb = Verb::all_reduce, .input = x, .output = y, .input_count = n, .output_count = n,
//             .element = DType::float32});
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tutti/element.h"
#include "tutti/op.h"
#include "tutti/types.h"

namespace tutti {

inline constexpr int kAnySource = -1;
inline constexpr int kAnyTag = -1;

// The parts of a buffer whose chunks differ in size, in elements, one per rank. Without displacements the chunks lie
// one behind the other.
struct Parts {
  std::span<const std::size_t> counts = {};
  std::span<const std::size_t> displacements = {};
};

// send_recv is a message: a send where input is set by `send`, a receive otherwise.
enum class Direction : unsigned char { none, send, receive };

struct Request {
  Verb verb = Verb::all_reduce;
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t input_count = 0, output_count = 0;  // elements that the buffers hold
  Element element = DType::float32;
  Op op = ReduceOp::sum;
  int root = 0;
  // The v-variant of the verb: the chunks of the buffers that hold one per rank.
  bool uneven = false;
  Parts input_parts = {}, output_parts = {};
  // What else all ranks must have alike: compared with the call, and told where it differs.
  std::uint32_t mark = 0;
  // Where a buffer lies on a GPU: the call comes after what this stream (cudaStream_t) holds, and what comes into it
  // after an async call waits until that has ended. nullptr: after what the default stream of the buffer's device
  // holds, and nothing waits: the output is there when the call, or its Work, has ended.
  void* stream = nullptr;
  // Messages.
  Direction direction = Direction::none;
  bool up_to = false;  // a receive: shorter messages than output_count fit, too
  int peer = -1;
  int tag = 0;
};

}  // namespace tutti
