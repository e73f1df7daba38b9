// What earlier requests came to: calls repeat, and checking a small one takes longer than moving it.
//
// Only what a request says decides what becomes of it, so that the same request again is the same call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/request.h"

namespace tutti::engine {

class Recall {
 public:
  // As call_of(), which it asks where the request is not one of the last.
  void call_of(const Request& request, const Asked& group, UnevenChunks& chunks, Call& call) {
    Entry& entry = entries_[place_of(request)];
    if (entry.is_for(request)) {
      call = entry.call;
    } else {
      check(request, group, chunks, call, entry);
    }
  }

 private:
  static constexpr int kPlaceBits = 4;

  struct Entry {
    const void* input = nullptr;
    const void* output = nullptr;
    std::size_t input_count = 0, output_count = 0;
    Element element = DType::uint8;
    Verb verb = Verb::all_reduce;
    ReduceOp op = ReduceOp::sum;
    Direction direction = Direction::none;
    bool filled = false;
    int root = 0, peer = 0, tag = 0;
    Call call;

    bool is_for(const Request& request) const {
      return request.input == input && request.output == output && request.input_count == input_count &&
             request.output_count == output_count && request.element == element && request.verb == verb &&
             request.op.builtin() == op && request.direction == direction && request.root == root &&
             request.peer == peer && request.tag == tag && filled && is_plain(request);
    }
  };

  // Whether an entry says all of it.
  static bool is_plain(const Request& request) {
    return !request.uneven && request.mark == 0 && request.op.own() == nullptr &&
           request.op.builtin() != ReduceOp::premul_sum;
  }
  static std::size_t place_of(const Request& request) {
    std::uint64_t hash = reinterpret_cast<std::uintptr_t>(request.input);
    hash += 3 * reinterpret_cast<std::uintptr_t>(request.output) + request.output_count + request.input_count;
    hash += static_cast<std::uint64_t>(request.verb) << 32 | static_cast<std::uint64_t>(request.direction) << 40;
    return hash * 0x9e3779b97f4a7c15ull >> (64 - kPlaceBits);
  }
  static void check(const Request& request, const Asked& group, UnevenChunks& chunks, Call& call, Entry& entry);

  std::array<Entry, std::size_t{1} << kPlaceBits> entries_;
};

}  // namespace tutti::engine
