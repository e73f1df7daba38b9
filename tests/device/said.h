// What ranks say on standard error.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <string>

#include "check.h"

namespace tutti::testing {

// By processes that have met as if started with their variables, with this TUTTI_LOG; all must end well.
inline std::string said_by(int ranks, const char* log, const RankFunction& function) {
  static int groups = 0;
  const std::string place = "unix:@tutti-said-" + std::to_string(::getpid()) + "-" + std::to_string(groups++);
  ::testing::internal::CaptureStderr();
  const auto ends = run_processes(ranks, [&](Communicator& outer) {
    const auto set = [](const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); };
    set("TUTTI_RANK", std::to_string(outer.rank()));
    set("TUTTI_SIZE", std::to_string(outer.size()));
    set("TUTTI_RENDEZVOUS", place);
    set("TUTTI_JOB", place);
    set("TUTTI_LOG", log);
    Communicator comm = init();
    function(comm);
  });
  std::string said = ::testing::internal::GetCapturedStderr();
  expect_all_ok(ends);
  return said;
}

inline std::size_t times_in(const std::string& text, const std::string& words) {
  std::size_t times = 0;
  for (std::size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++times;
  return times;
}

}  // namespace tutti::testing
