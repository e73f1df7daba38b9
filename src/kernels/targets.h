// The instruction sets this library holds code for, so that tests and benchmarks can go through them one by one.
//
// Invariant: index 0 is what find_* use unless told otherwise. Not for production code: function pointers found earlier
// keep pointing where they did.
#pragma once

#include <cstddef>
#include <string>

namespace tutti::kernels {

std::size_t target_count();                  // compiled in and supported by this machine, at least 1, best first
std::string target_name(std::size_t index);  // e.g. "AVX2"
void use_target(std::size_t index);          // later find_* calls answer with the code for this one

}  // namespace tutti::kernels
