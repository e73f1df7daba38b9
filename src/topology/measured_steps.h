// Steps of training that were timed: strategies of tutti::train over models of zeros, which compute nothing. A value
// with a text form, which surveys hold where `tutti tune` measured a group that shares memory (rates.h).
//
// A strategy's calls are asynchronous: several are under way at once, driven by the caller where it waits and by the
// progress thread where it does not, between updates, over gradients that were just written. All of that is in such a
// step, and in no call that is timed by itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::topology {

struct MeasuredStep {
  int stage = 0;            // of ZeRO; 0: data parallel
  std::uint64_t bytes = 0;  // of the gradients of a bucket, or of a unit of stage 3
  int buckets = 0;          // of a step, all alike
  double seconds = 0;       // in which a call of the step was under way

  bool is_like(const MeasuredStep& other) const {
    return stage == other.stage && bytes == other.bytes && buckets == other.buckets;
  }
  bool operator==(const MeasuredStep&) const = default;
};

// A JSON list, a line for each. Throws Error(invalid_argument) that says what is wrong with the text.
std::string to_text(const std::vector<MeasuredStep>& steps);
std::vector<MeasuredStep> steps_from_text(const std::string& text);

}  // namespace tutti::topology
