// tutti topo --measure: the first GPU of every rank, and how calls on its memory go.
#pragma once

#include <optional>
#include <string>

#include "tutti/communicator.h"

namespace tutti::tools {

struct MeasuredGpu {
  std::string way;         // as Communicator::last_algorithm() has it
  double short_s = 0;      // of a short all_reduce
  double bytes_per_s = 0;  // of a long one: the vector over its time
  std::string why_not;     // in words, where ranks have a driver but get no memory; the rest does not count then
};

// Collective. Nothing where no rank has a driver, which is what most machines are.
std::optional<MeasuredGpu> measure_gpu(Communicator& comm);

std::string words_of(const MeasuredGpu& gpu);

}  // namespace tutti::tools
