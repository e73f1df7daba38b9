// What all driver groups of a bench share: a folder for sockets and logs, the guard against leftovers, the signals.
#pragma once

#include <poll.h>

#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/launch/guard.h"
#include "tools/launch/signals.h"

namespace tutti::bench {

using Clock = std::chrono::steady_clock;

// Ctrl-C and its like; whoever catches it ends the groups.
class Interrupted : public std::runtime_error {
 public:
  explicit Interrupted(int number) : std::runtime_error("interrupted"), signal(number) {}
  int signal;
};

// A resource; one at a time.
class Session {
 public:
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Readable by this user alone.
  const std::filesystem::path& folder() const { return folder_; }
  // A name that no other group of this session has.
  std::string fresh_name(const std::string& stem) { return stem + "-" + std::to_string(names_++); }
  const tools::Guard& guard() const { return guard_; }
  const tools::Signals& signals() const { return signals_; }

  // Polls until one of them is ready or the deadline has passed; returns whether one is. Throws Interrupted.
  bool wait(std::vector<pollfd>& descriptors, Clock::time_point deadline);

 private:
  tools::Guard guard_;  // forked first, with the signals as they were
  tools::Signals signals_;
  std::filesystem::path folder_;
  int names_ = 0;
};

}  // namespace tutti::bench
