// How the members of a new group come together, whoever told them of each other (split.h, create_group.h).
//
// Members that share memory get a place in it from the first of them, and those on several hosts a number, by which
// their processes know the group. Who has one of them to give tells the others in an invitation. What ranks tell each
// other are records of one size, without pointers: SplitRequest and those below.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "engine/factory.h"
#include "engine/groups/split_request.h"

namespace tutti::engine {

// What this rank wants: to be in the group that has the ranks of the list in that order. Throws where it cannot be one.
SplitRequest split_request_of(const Engine& parent, Kind kind, std::span<const int> ranks);

// What the first member of a group, or on a host, tells the others.
struct Invitation {
  GroupPlace place;
  std::int32_t failed = 0;   // there is no group, and this is why
  std::int32_t blamed = -1;  // a rank of the parent
  ErrorCode code = ErrorCode::system;
  char words[251] = {};

  void fail(ErrorCode because, std::string_view in_words, int blame);
};

// What became of the meeting at one rank.
struct Outcome {
  enum Weight : std::int32_t { none, waited, failed, parent_failed };  // the gravest is what all ranks throw
  Weight weight = none;
  std::int32_t blamed = -1;  // a rank of the parent
  ErrorCode code = ErrorCode::system;
  char words[503] = {};
};

// Of several, the one that counts: the gravest, and of those the first.
std::size_t gravest_of(std::span<const Outcome> outcomes);
// Throws it, where it is one: `rank` of the parent could not meet the group of `members`.
void require_success(const Outcome& outcome, int rank, const std::vector<int>& members, const std::string& verb);

class GroupMeeting {
 public:
  // Tells the others this rank's invitation, if it is to invite anybody, and returns the one for this rank: the number
  // from the first member, the place in memory from the first that shares it. Throws where there is a failed one among
  // them, this rank's included.
  using Exchange = std::function<Invitation(const Invitation& mine)>;

  GroupMeeting(Engine& parent, PlannedGroup group, const Deadline& deadline)
      : parent_(parent), group_(std::move(group)), deadline_(deadline) {}

  // nullptr where the group leaves this rank out. `exchange` is called once, unless it is empty: nobody invites then.
  std::unique_ptr<Engine> meet(const Exchange& exchange);
  // What becomes of `meet`, which calls the above. What it throws once `settled` holds is thrown on.
  Outcome outcome_of(const std::function<void()>& meet, const bool& settled) const;

 private:
  bool parent_has_failed();
  Outcome outcome_of(const Error& error) const;

  Engine& parent_;
  PlannedGroup group_;
  Deadline deadline_;
  std::optional<Failure> failure_;  // of the parent, where that ended the meeting
};

// A group of this rank alone, which no other rank need know of.
std::unique_ptr<Engine> alone(Engine& parent);

}  // namespace tutti::engine
