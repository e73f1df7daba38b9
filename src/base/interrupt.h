// Whether the program wants the calls of this thread to stop waiting; tutti/interrupt.h is the door to it.
//
// Code that waits calls throw_if_interrupted() a few times a second, and waits no longer than kAskedEvery at once while
// somebody may be asked.
#pragma once

#include <chrono>

namespace tutti {

struct Interrupt {
  bool (*asked)(void* context) = nullptr;
  void* context = nullptr;
};

inline constexpr std::chrono::milliseconds kAskedEvery{100};

// Of the calling thread.
Interrupt& interrupt();
inline bool interruptible() { return interrupt().asked != nullptr; }
// The most milliseconds to wait at once, for system calls that count them.
inline long long most_wait_ms() { return interruptible() ? kAskedEvery.count() : 1'000'000; }
// Error(aborted) where the program says so.
void throw_if_interrupted();

}  // namespace tutti
