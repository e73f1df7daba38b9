// Behind train::Actor: trajectories that leave while the next one is made, and news as they come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "train/actor_wire.h"
#include "tutti/train/actor_learner.h"

namespace tutti::train {

class ActorSide {
 public:
  ActorSide(Communicator& communicator, std::size_t weights, const ActorOptions& options);
  ~ActorSide();
  ActorSide(const ActorSide&) = delete;
  ActorSide& operator=(const ActorSide&) = delete;

  bool running();
  std::span<const float> weights();
  std::int64_t version() const { return shown_; }
  bool send(std::span<const float> trajectory);

  std::uint64_t trajectories() const { return trajectories_; }
  std::uint64_t versions() const { return versions_; }
  Sentence sentence() const;
  Counters counters() const { return closed_ ? until_closed_ : group_.counters(); }

 private:
  struct SentTrajectory {
    std::vector<float> message;
    Work work;
  };

  void hear();            // waits for news
  void hear_what_came();  // does not
  void take_leave();
  void start(std::vector<float> message);
  [[noreturn]] void tell(const Error& error, const std::string& what) const;

  ActorOptions options_;
  Communicator group_;
  int rank_;
  std::vector<float> weights_;
  std::int64_t version_ = -1, shown_ = -1;  // that has come; that weights() has returned
  std::int64_t credits_ = 0;
  bool closed_ = false;
  Counters until_closed_;
  std::deque<SentTrajectory> sent_;  // under way
  std::uint64_t trajectories_ = 0, versions_ = 0, news_ = 0;
  std::map<std::size_t, std::uint64_t> said_;  // messages by their floats
};

}  // namespace tutti::train
