// The other servers of a parameter server, as each of them sees them: in a communicator of the servers alone, where
// each tells the others that it has served all its workers. Who leaves it before that, or dies, has failed.
//
// In a worker's group that could not be told apart: it fails alike where a server goes, where a server gives up that
// one worker, and where the worker complains of a server that has not answered it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "tutti/communicator.h"

namespace tutti::train {

struct LostServer {
  int server = -1;  // its number
  Error error;
};

class OtherServers {
 public:
  // `group`: of all servers, in their order; none where there is one alone.
  explicit OtherServers(std::optional<Communicator> group);
  ~OtherServers() { give_up(); }
  OtherServers(const OtherServers&) = delete;
  OtherServers& operator=(const OtherServers&) = delete;

  // What await_any() has to look at besides, to hear of them.
  void add_to(std::vector<Work*>& works);
  // One that has failed, if that is known within so long.
  std::optional<LostServer> lost(std::chrono::milliseconds within = std::chrono::milliseconds(0));
  // Tells them that all workers were served here, and waits until that is so there. One that has not come so far within
  // so long is lost.
  std::optional<LostServer> finish(std::chrono::milliseconds within);
  // Fails for the others, unless it has finished.
  void give_up();

 private:
  void leave();

  struct Other {
    int server = -1;
    std::int64_t word = 0;
    Work told;  // not valid once it has told
  };

  std::optional<Communicator> group_;
  std::vector<Other> others_;
  std::optional<LostServer> failed_before_;  // this one listened to it
};

}  // namespace tutti::train
