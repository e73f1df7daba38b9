// tutti topo --measure: what lies between the ranks of a job, by messages there and back, and how they reach GPUs.
#pragma once

#include <optional>
#include <string>

namespace tutti::tools {

struct MeasureOptions {
  std::optional<int> ranks;  // to start on this host; none: this process is a rank of a job
  std::string file;          // the topology goes there; empty: nowhere
  std::string svg;
  bool json = false, text = false;
};

// Rank 0 prints. Ends the command, in words, where there is nobody to measure.
void measure(const MeasureOptions& asked);

}  // namespace tutti::tools
