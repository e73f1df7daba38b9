// tutti topo --measure: the GPUs of the ranks, and how calls on their memory go.
#pragma once

#include <string>
#include <vector>

#include "tutti/communicator.h"

namespace tutti::tools {

struct MeasuredGpu {
  int device = 0;          // kOwnDevice: of each rank its own
  std::string way;         // as Communicator::last_algorithm() has it
  double short_s = 0;      // of a short all_reduce
  double bytes_per_s = 0;  // of a long one: the vector over its time
  std::string why_not;     // in words, where ranks have a driver but get no memory; the rest does not count then
};

// Collective: the first GPU, and where that differs, the GPUs that are dealt out among the ranks. Nothing where no rank
// has a driver, which is what most machines are.
std::vector<MeasuredGpu> measure_gpus(Communicator& comm);

std::string words_of(const MeasuredGpu& gpu);

}  // namespace tutti::tools
