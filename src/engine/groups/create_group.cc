#include "engine/groups/create_group.h"

#include "base/rank_list.h"
#include "engine/groups/group_meeting.h"

namespace tutti::engine {
namespace {

// The gravest outcome of all, and whose it is.
struct GroupOutcome {
  Outcome gravest;
  std::int32_t rank = -1;  // of the parent
};

Error refusal(const Invitation& invitation, int from) {
  const bool refused = invitation.code == ErrorCode::mismatch;
  return Error(invitation.code,
               name_of(Kind::create_group) + ": " +
                   (refused ? "" : rank_name(from) + ", which makes room for the new group, could not: ") +
                   invitation.words,
               invitation.blamed);
}

// Makes one group; lives for one call.
class Creating {
 public:
  Creating(Engine& parent, std::span<const int> ranks, int tag) : parent_(parent), tag_(tag) {
    group_.members.assign(ranks.begin(), ranks.end());
  }

  std::unique_ptr<Engine> make(SplitRequest mine);

 private:
  bool leads() const { return leader() == parent_.rank(); }
  int leader() const { return group_.members.front(); }
  void carry(std::span<const Letter> letters);
  // Between the first member and each of the others, in the order of the members; its own place is left alone.
  template <class Record>
  std::vector<Letter> letters_of(Direction direction, std::vector<Record>& records) const;
  template <class Record>
  void send_to_all(const Record& record);
  void compare(SplitRequest mine);
  Invitation exchange(const Invitation& mine);
  void exchange_in_memory(const Invitation& mine, GroupPlace& place);
  std::unique_ptr<Engine> meet(GroupMeeting& meeting);
  GroupOutcome settle(const Outcome& mine);

  Engine& parent_;
  int tag_;
  PlannedGroup group_;
  Invitation refusal_;    // failed: the members do not want the same
  bool settled_ = false;  // all members fail, and each knows why: there is nothing left to tell
};

void Creating::carry(std::span<const Letter> letters) {
  try {
    parent_.carry(letters, tag_);
  } catch (const Error& error) {
    settled_ = true;
    throw Error(error.code(), name_of(Kind::create_group) + ": " + error.what(), error.peer());
  }
}

template <class Record>
std::vector<Letter> Creating::letters_of(Direction direction, std::vector<Record>& records) const {
  static_assert(std::is_trivially_copyable_v<Record>);
  std::vector<Letter> letters;
  for (std::size_t i = 1; i < records.size(); ++i)
    letters.push_back({direction, group_.members[i], &records[i], sizeof(Record)});
  return letters;
}

template <class Record>
void Creating::send_to_all(const Record& record) {
  std::vector<Record> copies(group_.members.size(), record);
  carry(letters_of(Direction::send, copies));
}

// The first member learns what the others want.
void Creating::compare(SplitRequest mine) {
  SplitRequest theirs;
  if (!leads()) {
    const Letter letters[] = {{Direction::send, leader(), &mine, sizeof mine},
                              {Direction::receive, leader(), &theirs, sizeof theirs}};
    return carry(letters);
  }
  std::vector<SplitRequest> requests(group_.members.size(), mine), mines = requests;
  std::vector<Letter> letters = letters_of(Direction::receive, requests);
  for (const Letter& letter : letters_of(Direction::send, mines)) letters.push_back(letter);
  carry(letters);
  const auto [odd, usual] = odd_one_of(requests);
  if (odd < 0) return;
  const int rank = group_.members[static_cast<std::size_t>(odd)];
  refusal_.fail(ErrorCode::mismatch,
                rank_name(rank) + " passed another list of ranks than " +
                    rank_name(group_.members[static_cast<std::size_t>(usual)]) + "; all members pass the same",
                rank);
}

Invitation Creating::exchange(const Invitation& mine) {
  Invitation invitation = mine;
  if (leads()) {
    send_to_all(mine);
  } else {
    const Letter letter{Direction::receive, leader(), &invitation, sizeof invitation, true};
    carry({&letter, 1});
  }
  if (invitation.failed != 0) {
    settled_ = true;
    throw refusal(invitation, leader());
  }
  exchange_in_memory(mine, invitation.place);
  return invitation;
}

// Those who share memory, and not with the first member, are told by the first of them. Of its failure the others hear
// when all say what became of them.
void Creating::exchange_in_memory(const Invitation& mine, GroupPlace& place) {
  const int first = first_in_memory(parent_, group_.members);
  if (first == leader()) return;
  Invitation invitation = mine;
  std::vector<Invitation> copies(group_.members.size(), mine);
  std::vector<Letter> letters;
  if (first != parent_.rank()) {
    letters.push_back({Direction::receive, first, &invitation, sizeof invitation, true});
  } else {
    for (const Letter& letter : letters_of(Direction::send, copies)) {
      if (letter.peer != first && parent_.origin().number_in_memory(letter.peer) >= 0) letters.push_back(letter);
    }
  }
  if (!letters.empty()) carry(letters);
  if (invitation.failed != 0) throw refusal(invitation, first);
  place.memory = invitation.place.memory;
}

std::unique_ptr<Engine> Creating::meet(GroupMeeting& meeting) {
  if (refusal_.failed != 0) exchange(refusal_);
  return meeting.meet([this](const Invitation& mine) { return exchange(mine); });
}

// The first member hears what became of all, and says it.
GroupOutcome Creating::settle(const Outcome& mine) {
  GroupOutcome all;
  if (!leads()) {
    Outcome sent = mine;
    const Letter letters[] = {{Direction::send, leader(), &sent, sizeof sent},
                              {Direction::receive, leader(), &all, sizeof all, true}};
    carry(letters);
    return all;
  }
  std::vector<Outcome> outcomes(group_.members.size(), mine);
  carry(letters_of(Direction::receive, outcomes));
  const std::size_t gravest = gravest_of(outcomes);
  all = {outcomes[gravest], group_.members[gravest]};
  send_to_all(all);
  return all;
}

std::unique_ptr<Engine> Creating::make(SplitRequest mine) {
  compare(mine);
  GroupMeeting meeting(parent_, group_, Deadline::after(parent_.timeout() / 2));
  std::unique_ptr<Engine> engine;
  const Outcome outcome = meeting.outcome_of([&] { engine = meet(meeting); }, settled_);
  const GroupOutcome all = settle(outcome);
  require_success(all.gravest, all.rank, group_.members, name_of(Kind::create_group));
  engine->set_parent_ranks(group_.members);
  return engine;
}

}  // namespace

std::unique_ptr<Engine> create_group(Engine& parent, std::span<const int> ranks, int tag) {
  const auto refuse = [](const std::string& why) {
    throw Error(ErrorCode::invalid_argument, name_of(Kind::create_group) + ": " + why);
  };
  if (tag < 0 || tag > kMostLetterTag)
    refuse("a tag is a number from 0 to " + std::to_string(kMostLetterTag) + ", not " + std::to_string(tag));
  const SplitRequest request = split_request_of(parent, Kind::create_group, ranks);
  if (request.color < 0) refuse(rank_name(parent.rank()) + ", which calls, is not in the list; only members call");
  parent.require_alive();
  return ranks.size() == 1 ? alone(parent) : Creating(parent, ranks, tag).make(request);
}

}  // namespace tutti::engine
