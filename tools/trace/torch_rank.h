// What one file of torch.profiler has of its rank, on its own clock. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/trace/event_file.h"
#include "tools/trace/intervals.h"

namespace tutti::analysis {

// A call as this rank had it.
struct TorchCall {
  std::string verb, group;  // the group's name and ranks, as far as they are told
  int ranks = 0;            // of the group; 0 where it is not told
  double bytes = 0;
  Interval time;
};

struct TorchRank {
  std::optional<int> rank, size;  // where the file tells them
  std::string backend;
  std::optional<double> epoch_us;  // of its clock: times of several files can be put on one axis
  Interval whole;
  Intervals compute, communication;
  std::vector<TorchCall> calls;  // in the order of their beginnings
  std::map<std::int64_t, Interval> steps;
  bool on_gpu = false;
  bool launches_only = false;  // NCCL was called, and its kernels were not profiled
  std::size_t unreadable = 0;  // events
};

// Throws Error(invalid_argument), in words that go on behind "is no trace that can be read: ".
TorchRank torch_rank(const EventFile& file);

}  // namespace tutti::analysis
