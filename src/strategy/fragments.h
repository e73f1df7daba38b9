// Local updates as pure data: which parameters are exchanged together, after which steps, and what that says.
//
// Exchanges are numbered through. Exchange k is of fragment k mod f, and every fragment has its turn once in `every`
// steps, evenly spread; the last one at their end:
//
//   every = 6, 3 fragments    steps   1   2   3   4   5   6   7   8  ...
//                             begins      0       1       2       0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "strategy/buckets.h"
#include "tutti/train/report.h"

namespace tutti::strategy {

// By parameter, its fragment. Neighbours are together, fragments as equally large as that allows, and each has a
// parameter: there are as many parameters as fragments at least.
std::vector<std::size_t> cut_into_fragments(std::span<const TensorSize> parameters, std::size_t fragments);

// After how many steps an exchange begins.
std::int64_t begin_of_exchange(std::int64_t exchange, std::int64_t every, std::size_t fragments);

// Of a fragment, on this rank. Quantised ones travel by all_to_all, and their mean comes back by all_gather.
struct FragmentBytes {
  std::uint64_t sent = 0;
  bool quantised = false;
  std::uint64_t returned = 0;
};

struct ExchangeShape {
  std::int64_t every = 1;
  int replicas = 1;
  int site_ranks = 1;         // of a replica
  bool asynchronous = false;  // contributions carry how many steps they are made of
  std::vector<FragmentBytes> fragments = {};
};

// What a step says to make exchanges.
train::Sentence sentence_of(const ExchangeShape& shape);

}  // namespace tutti::strategy
