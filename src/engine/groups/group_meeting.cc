#include "engine/groups/group_meeting.h"

#include <algorithm>
#include <cstring>

#include "base/mix.h"
#include "base/rank_list.h"

namespace tutti::engine {
namespace {

template <std::size_t kBytes>
void put(char (&text)[kBytes], std::string_view words) {
  const std::size_t length = std::min(words.size(), kBytes - 1);
  std::memcpy(text, words.data(), length);
  text[length] = 0;
}

}  // namespace

SplitRequest split_request_of(const Engine& parent, Kind kind, std::span<const int> ranks) {
  SplitRequest request;
  request.kind = kind;
  request.color = -1;
  request.list = ranks.size();
  std::vector<bool> listed(static_cast<std::size_t>(parent.size()));
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::invalid_argument, name_of(kind) + ": " + why);
  };
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const int rank = ranks[i];
    if (rank < 0 || rank >= parent.size())
      refuse(std::to_string(rank) + " is not a rank of this group of " + std::to_string(parent.size()));
    if (listed[static_cast<std::size_t>(rank)]) refuse(rank_name(rank) + " is listed twice");
    listed[static_cast<std::size_t>(rank)] = true;
    request.list = mix(request.list, static_cast<std::uint64_t>(rank));
    if (rank != parent.rank()) continue;
    request.color = 0;
    request.key = static_cast<std::int32_t>(i);
  }
  return request;
}

void Invitation::fail(ErrorCode because, std::string_view in_words, int blame) {
  failed = 1;
  code = because;
  blamed = blame;
  put(words, in_words);
}

std::size_t gravest_of(std::span<const Outcome> outcomes) {
  const auto found = std::max_element(outcomes.begin(), outcomes.end(),
                                      [](const Outcome& a, const Outcome& b) { return a.weight < b.weight; });
  return static_cast<std::size_t>(found - outcomes.begin());
}

void require_success(const Outcome& outcome, int rank, const std::vector<int>& members, const std::string& verb) {
  if (outcome.weight == Outcome::none) return;
  throw Error(outcome.code,
              verb + ": " + rank_name(rank) + " is not in its new group of " + rank_names(members) +
                  ", which counts them from 0: " + outcome.words,
              outcome.blamed >= 0 ? outcome.blamed : rank);
}

bool GroupMeeting::parent_has_failed() {
  if (!failure_) failure_ = parent_.failure();  // asked again, it may take its time to find the same
  return failure_.has_value();
}

std::unique_ptr<Engine> GroupMeeting::meet(const Exchange& exchange) {
  Invitation invitation;
  try {
    invitation.place = make_place(parent_, group_.members);
  } catch (const Error& error) {
    if (!exchange) throw;
    invitation.fail(error.code(), error.what(), parent_.rank());
  }
  if (exchange) invitation = exchange(invitation);
  if (group_.size() == 0) return nullptr;
  return make_engine(parent_, group_.members, invitation.place, deadline_, [this] { return parent_has_failed(); });
}

Outcome GroupMeeting::outcome_of(const std::function<void()>& meet, const bool& settled) const {
  try {
    meet();
  } catch (const Error& error) {
    if (settled) throw;
    return outcome_of(error);
  } catch (const std::exception& error) {
    return outcome_of(Error(ErrorCode::system, error.what()));
  }
  return {};
}

Outcome GroupMeeting::outcome_of(const Error& error) const {
  Outcome outcome;
  if (failure_) {
    const Diagnosis diagnosis = Diagnosis::of(*failure_);
    const std::string what =
        failure_->died ? words_of(failure_->loss, parent_.origin().silence) : " gave up after an error";
    outcome.weight = Outcome::parent_failed;
    outcome.code = diagnosis.code();
    outcome.blamed = diagnosis.culprit(parent_.rank());
    const bool hearsay = outcome.blamed != failure_->rank;
    put(outcome.words, "meanwhile " + rank_name(failure_->rank) + " of the old group" + what +
                           (hearsay ? ", blaming " + rank_name(outcome.blamed) : ""));
    return outcome;
  }
  outcome.weight = error.code() == ErrorCode::timeout ? Outcome::waited : Outcome::failed;
  outcome.code = error.code();
  const bool named = error.peer() >= 0 && error.peer() < group_.size();
  outcome.blamed = named ? group_.members[static_cast<std::size_t>(error.peer())] : -1;
  put(outcome.words, error.what());
  return outcome;
}

std::unique_ptr<Engine> alone(Engine& parent) {
  const Deadline deadline = Deadline::after(parent.timeout());
  PlannedGroup group;
  group.members = {parent.rank()};
  auto engine = GroupMeeting(parent, group, deadline).meet({});
  engine->set_parent_ranks(group.members);
  return engine;
}

}  // namespace tutti::engine
