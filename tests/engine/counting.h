// Counts what a thread allocates and locks, by standing in for the functions of the C library in this program.
#pragma once

namespace tutti::testing {

struct Counts {
  long allocations = 0;
  long locks = 0;
};

// Between the two this thread is counted; stop_counting() says what it did since the last start.
// While `apart` says that this thread is in what does not count, nothing does.
void start_counting(int (*apart)() = nullptr);
Counts stop_counting();

}  // namespace tutti::testing
