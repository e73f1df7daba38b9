// Gates: words in host memory that streams of a device wait for, and the host opens.
//
// A word only ever grows, so that it serves one call after the other: whoever still waits for an earlier value passes.
// Words are never freed, because nobody knows when a stream comes to look at one. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "device/driver.h"

namespace tutti::device {

// A word of host memory that a stream waits for.
struct StreamGate {
  std::uint32_t* word = nullptr;
  std::uint32_t value = 0;  // of the word; the next one waits for one more

  void open();
  // Where the device sees it; 0: it does not, any more.
  CuAddress shown(const Driver& driver) const;
};

class StreamGates {
 public:
  // For all communicators of this process.
  static StreamGates& of_process();

  // One that the current context knows: what was registered goes with the context that did it. Throws Error(system)
  // where the driver registers no memory.
  StreamGate take(const Driver& driver);
  void give_back(const StreamGate& gate);

 private:
  std::mutex mutex_;
  std::vector<StreamGate> free_;
};

}  // namespace tutti::device
