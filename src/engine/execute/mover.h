// What copies and reduces for an operation elsewhere than on its thread: a device, whose work is started now and ends
// later.
//
// Without one (Binding::mover) a step runs where it is found, and is done when that returns. With one it is started,
// and asked about until it has ended: only then do its messages leave, are those it read given back, is its progress
// published and goes its lane on. Steps of different lanes are under way at once and may end in any order.
//
// A mover belongs to one operation, and knows the type and the operator of the call that this is bound to. Nothing
// here blocks. What ends must wake the rank (Transport::notify_self), which sleeps while it finds nothing to do. Who
// gives an operation up waits for what was started before the buffers are the caller's again.
#pragma once

#include <cstdint>
#include <span>

#include "schedule/program.h"

namespace tutti::engine {

class Mover {
 public:
  // A part of a step that lies in one piece in each of its operands. The spans hold only until start() returns.
  struct Stretch {
    schedule::StepOp op{};  // copy or reduce
    std::span<void*const> destinations, sources;
    std::uint64_t count = 0;  // elements
    std::uint32_t divisor = 1;
  };

  virtual ~Mover() = default;
  // Starts a stretch of the lane's step; those of a lane may end in any order.
  virtual void start(std::uint32_t lane, const Stretch& stretch) = 0;
  // Whether all that was started for the lane has ended.
  virtual bool ended(std::uint32_t lane) = 0;
};

}  // namespace tutti::engine
