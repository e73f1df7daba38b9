// What earlier requests came to: calls repeat, and checking a small one takes longer than moving it.
//
// Only what a request says decides what becomes of it, so that the same request again is the same call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/request.h"

namespace tutti::engine {

class RequestCache {
 public:
  // As call_of(), which it asks where the request is not one of the last.
  void call_of(const Request& request, const GroupView& group, UnevenChunks& chunks, Call& call) {
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
    Request request;
    Call call;
    bool filled = false;

    bool is_for(const Request& other) const {
      return other.input == request.input && other.output == request.output &&
             other.input_count == request.input_count && other.output_count == request.output_count &&
             other.element == request.element && other.verb == request.verb &&
             other.op.builtin() == request.op.builtin() && other.direction == request.direction &&
             other.up_to == request.up_to && other.root == request.root && other.peer == request.peer &&
             other.tag == request.tag && filled && is_plain(other);
    }
  };

  // Whether what is compared is all of it.
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
  static void check(const Request& request, const GroupView& group, UnevenChunks& chunks, Call& call, Entry& entry);

  std::array<Entry, std::size_t{1} << kPlaceBits> entries_;
};

}  // namespace tutti::engine
