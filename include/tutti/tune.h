// Measuring what this group's machines take for the parts of a schedule, so that algorithms are chosen by their real
// prices. `tutti tune` does it for a host, or for the hosts of a job, and keeps the result for later jobs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tutti/communicator.h"

namespace tutti {

// One call that was timed, and what it is predicted to take with the rates that were found.
struct TunedCall {
  Verb verb;
  std::string_view algorithm;
  std::size_t bytes;  // of the vector, or of all chunks together
  double measured_us;
  double predicted_us;
  bool on_device = false;  // its buffers lie on a GPU
};

struct Tuned {
  std::string costs;             // the table of costs, as text, with this group's rates in it
  bool memory = false;           // the rates of ranks that share memory; otherwise those of streams
  double error = 0;              // by how much predictions are off, as a factor, in the geometric mean
  double regret = 0;             // what is lost by trusting them: chosen over quickest, geometric mean over sizes
  std::vector<TunedCall> calls;  // empty but on rank 0
  double device_error = 0;       // of calls on device memory, likewise on rank 0; 0: the ranks have no device
  std::string why_no_device;     // in words, where some have one but not all get memory of theirs
};

// Collective; takes a few seconds, on machines that do nothing else. `say` (or nullptr) hears how far it is, 0 to 1, on
// rank 0. `quick`: few sizes, once each, which gives a rough idea in a moment. The communicator itself goes on choosing
// as before. Calls on the memory of the first GPU of each rank come last: the driver is loaded for them where there is
// one.
TUTTI_API Tuned tune(Communicator& communicator, const std::function<void(double)>& say = nullptr, bool quick = false);

}  // namespace tutti
