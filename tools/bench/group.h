// The ranks of one implementation: started, greeted, told what to do, and ended, whatever they do meanwhile.
//
// A rank that ends, fails or does not answer in time ends its group, and only that: Dropped says why, in words for
// people, and the bench goes on without it.
#pragma once

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "tools/bench/session.h"
#include "tools/launch/process.h"

namespace tutti::bench {

class Dropped : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Group {
 public:
  // Listens; nothing is started yet.
  Group(Session& session, std::string name, int ranks);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  const std::string& name() const { return name_; }
  // What the first rank said about itself.
  const std::string& about() const { return about_; }
  bool alive() const { return dropped_.empty(); }
  const std::string& why_dropped() const { return dropped_; }

  std::string socket_path() const;
  // A folder of its own.
  const std::filesystem::path& folder() const { return folder_; }

  // Starts a process, whose standard streams go to the group's log. Throws Dropped where it cannot be run.
  void start(tools::ProcessStart start);
  // Until all ranks have said hello. Throws Dropped.
  void await_hello(std::chrono::milliseconds limit);
  // Tells all ranks, and returns their answers. Throws Dropped.
  std::vector<std::string> ask(const std::string& line, std::chrono::milliseconds limit);

  // Ends it for good, and keeps the reason.
  void give_up(const std::string& why);
  // Ends all processes: kindly where they may have a moment, and returns when they are gone.
  void end(bool kindly);

 private:
  struct Rank {
    FileDescriptor socket;
    FileDescriptor life;  // pidfd
    std::string inbox;
  };
  struct Child {
    pid_t pid = -1;
    FileDescriptor life;
  };

  [[noreturn]] void drop(const std::string& why);
  void accept_one();
  void read_from(Rank& rank);
  bool take_line(Rank& rank, std::string& line);
  bool take_hello(Rank& rank);
  void require_running(const std::vector<pollfd>& descriptors, std::size_t first_child);
  void await_end(Clock::time_point deadline);
  bool any_running() const;
  std::string last_words() const;

  Session& session_;
  std::string name_;
  std::size_t size_;
  std::filesystem::path folder_;
  std::string about_;
  std::string dropped_;
  FileDescriptor listener_;
  std::vector<Rank> strangers_;  // connected, and not yet said who they are
  std::vector<Rank> ranks_;      // by rank
  std::size_t greeted_ = 0;
  std::vector<Child> children_;
};

}  // namespace tutti::bench
