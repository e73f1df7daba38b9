// A brute-force interpreter of schedules: what happens when all ranks run their programs with some timing.
//
// It shares no idea with the verifier: it runs concrete values under a seeded random scheduler, one event at a time
// (acquire, read a block, write a block, finish), and looks at what comes out. A rank's input appears when the rank
// enters, and its buffers are poisoned the moment it returns. A fault it shows is real; a run without one is no proof.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "schedule/layout.h"
#include "schedule/lower.h"

namespace tutti::schedule {
namespace interpretation {
class Machine;
}

// The fault of a reduction that is right but for its order.
inline constexpr std::string_view kAnotherOrder = "another order than the canonical one";

// The fault of a write to the output while some rank that sends to the writer has not been heard: were that rank in
// another call, the output would be lost.
inline constexpr std::string_view kEarlyOutput = "writes its output before it has heard from every sender";

struct Trial {
  std::span<const Lowered> programs;
  Layout layout;
  std::uint32_t credits = 0;  // of every edge; 0 = as it offers
  bool in_place = false;
  bool canonical = true;  // results must come in canonical order, not only agree
};

class Interpreter {
 public:
  explicit Interpreter(const Trial& trial);
  ~Interpreter();

  // What went wrong with the timing that `seed` picks, or empty.
  std::string run(std::uint64_t seed);

 private:
  std::unique_ptr<interpretation::Machine> machine_;
};

}  // namespace tutti::schedule
