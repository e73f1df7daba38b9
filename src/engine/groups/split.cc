#include "engine/groups/split.h"

#include <type_traits>

#include "base/rank_list.h"
#include "engine/groups/group_meeting.h"

namespace tutti::engine {
namespace {

// Makes this rank's group; lives for one call.
class Making {
 public:
  Making(Engine& parent, Kind kind) : parent_(parent), verb_(name_of(kind)) {}

  std::unique_ptr<Engine> make(const SplitRequest& mine);

 private:
  template <class Record>
  std::vector<Record> gather(const Record& mine);
  void require_alike() const;
  std::unique_ptr<Engine> meet(GroupMeeting& meeting);
  Invitation exchange(const Invitation& mine);
  void require_all_met(const Outcome& mine);

  Engine& parent_;
  std::string verb_;
  std::vector<SplitRequest> requests_;
  PlannedGroup group_;
  bool settled_ = false;  // all ranks fail, and each knows why: there is nothing left to tell
};

template <class Record>
std::vector<Record> Making::gather(const Record& mine) {
  static_assert(std::is_trivially_copyable_v<Record>);
  std::vector<Record> all(static_cast<std::size_t>(parent_.size()));
  try {
    parent_.run_own({.verb = Verb::all_gather,
                     .input = &mine,
                     .output = all.data(),
                     .input_count = sizeof mine,
                     .output_count = all.size() * sizeof mine,
                     .element = DType::uint8});
  } catch (const Error& error) {
    settled_ = true;
    throw Error(error.code(), verb_ + ": " + error.what(), error.peer());
  }
  return all;
}

void Making::require_alike() const {
  const auto [odd, usual] = odd_one_of(requests_);
  if (odd < 0) return;
  const Kind kind = requests_[static_cast<std::size_t>(odd)].kind;
  const Kind others = requests_[static_cast<std::size_t>(usual)].kind;
  const std::string what = kind != others ? "called " + name_of(kind) + ", " + rank_name(usual) + " " + name_of(others)
                                          : "passed another list of ranks than " + rank_name(usual);
  throw Error(ErrorCode::mismatch,
              verb_ + ": " + rank_name(odd) + " " + what + "; all ranks of the group ask for the same groups", odd);
}

Invitation Making::exchange(const Invitation& mine) {
  const std::vector<Invitation> invitations = gather(mine);
  for (std::size_t rank = 0; rank < invitations.size(); ++rank) {
    if (invitations[rank].failed == 0) continue;
    settled_ = true;
    throw Error(invitations[rank].code,
                verb_ + ": " + rank_name(static_cast<int>(rank)) +
                    ", which makes room for its new group, could not: " + invitations[rank].words,
                static_cast<int>(rank));
  }
  if (group_.size() == 0) return {};
  Invitation invitation = invitations[static_cast<std::size_t>(group_.members.front())];
  invitation.place.memory =
      invitations[static_cast<std::size_t>(first_in_memory(parent_, group_.members))].place.memory;
  return invitation;
}

std::unique_ptr<Engine> Making::meet(GroupMeeting& meeting) {
  if (!has_company(requests_)) return meeting.meet({});
  return meeting.meet([this](const Invitation& mine) { return exchange(mine); });
}

// All ranks pick the same one.
void Making::require_all_met(const Outcome& mine) {
  const std::vector<Outcome> outcomes = gather(mine);
  const std::size_t rank = gravest_of(outcomes);
  require_success(outcomes[rank], static_cast<int>(rank), group_of(requests_, static_cast<int>(rank)).members, verb_);
}

std::unique_ptr<Engine> Making::make(const SplitRequest& mine) {
  requests_ = gather(mine);
  require_alike();
  group_ = group_of(requests_, parent_.rank());
  GroupMeeting meeting(parent_, group_, Deadline::after(parent_.timeout() / 2));
  std::unique_ptr<Engine> engine;
  const Outcome outcome = meeting.outcome_of([&] { engine = meet(meeting); }, settled_);
  require_all_met(outcome);
  if (engine != nullptr) engine->set_parent_ranks(group_.members);
  return engine;
}

}  // namespace

std::unique_ptr<Engine> split(Engine& parent, int color, int key) {
  return Making(parent, Kind::split).make({.kind = Kind::split, .color = color, .key = key});
}

std::unique_ptr<Engine> subgroup(Engine& parent, std::span<const int> ranks) {
  const SplitRequest request = split_request_of(parent, Kind::subgroup, ranks);
  return Making(parent, request.kind).make(request);
}

std::unique_ptr<Engine> duplicate(Engine& parent) {
  return Making(parent, Kind::duplicate).make({.kind = Kind::duplicate});
}

}  // namespace tutti::engine
