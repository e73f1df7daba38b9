// Every algorithm there is: one row each. Adding one = one file, one row, one golden file.
#pragma once

#include <span>
#include <string_view>

#include "schedule/program.h"

namespace tutti::schedule {

struct Shape {
  int ranks = 1;
  int rank = 0;
  int root = 0;
};

struct Algorithm {
  Verb verb;
  std::string_view name;
  Program (*generate)(const Shape& shape);
  bool canonical;        // reductions follow the canonical order (the verifier's tests hold the row to it)
  bool user_windows;     // needs windows onto the callers' buffers
  bool scratch_windows;  // needs windows onto scratch
};

std::span<const Algorithm> algorithms();

// nullptr where there is none of that name.
const Algorithm* find_algorithm(Verb verb, std::string_view name);

// One file each.
Program direct_all_reduce(const Shape& shape);
Program staged_all_reduce(const Shape& shape);
Program exchange_all_reduce(const Shape& shape);
Program recursive_doubling_all_reduce(const Shape& shape);
Program recursive_halving_all_reduce(const Shape& shape);
Program ring_all_reduce(const Shape& shape);
Program binomial_broadcast(const Shape& shape);
Program send_recv(const Shape& shape);

}  // namespace tutti::schedule
