// What a program checks with on every rank of a job: each rank says what was wrong there, and exits with how many
// things were.
#pragma once

#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <tutti/tutti.hpp>

namespace job_checks {

inline int wrong = 0;

inline void expect(bool right, const std::string& words, int rank) {
  if (right) return;
  ++wrong;
  std::fprintf(stderr, "WRONG on rank %d: %s\n", rank, words.c_str());
}

inline void says(const std::string& words, const std::string& part, int rank) {
  expect(words.find(part) != std::string::npos, "\"" + words + "\" does not say \"" + part + "\"", rank);
}

// The words of the error that f throws, of that code where one is given.
template <class F>
std::string words_of(F&& f, std::optional<tutti::ErrorCode> code = {}) {
  try {
    f();
  } catch (const tutti::Error& error) {
    return code.value_or(error.code()) == error.code() ? error.what() : "another code: " + std::string(error.what());
  }
  return "no error";
}

// All of a program's main().
template <class... Checks>
int run(const Checks&... checks) {
  try {
    torch::set_num_threads(1);
    tutti::Communicator comm = tutti::init();
    (checks(comm), ...);
    if (wrong == 0) std::printf("rank %d of %d: all right\n", comm.rank(), comm.size());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    ++wrong;
  }
  return wrong;
}

}  // namespace job_checks
