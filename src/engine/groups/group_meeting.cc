#include "engine/groups/group_meeting.h"

#include <algorithm>
#include <cstring>

#include "base/mix.h"
#include "base/rank_list.h"
#include "rendezvous/address.h"

namespace tutti::engine {
namespace {

using rendezvous::Token;

template <std::size_t kBytes>
void put(char (&text)[kBytes], std::string_view words) {
  const std::size_t length = std::min(words.size(), kBytes - 1);
  std::memcpy(text, words.data(), length);
  text[length] = 0;
}

std::string job_of(const Invitation& invitation) {
  return "group " + Token::from_bytes(std::span(invitation.nonce)).hex();
}

// The parent's token never travels, and neither does that of its groups: what travels is of no use without the former.
std::optional<Token> token_of(const Invitation& invitation, const std::optional<Token>& parent) {
  if (!parent) return std::nullopt;
  return Token::from_bytes(parent->mac({std::as_bytes(std::span("group")), std::span(invitation.nonce)}));
}

}  // namespace

SplitRequest split_request_of(Engine& parent, Kind kind) {
  SplitRequest request;
  request.kind = kind;
  request.host = hash_of(parent.origin().again.host_id);
  return request;
}

SplitRequest split_request_of(Engine& parent, Kind kind, std::span<const int> ranks) {
  SplitRequest request = split_request_of(parent, kind);
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

rendezvous::MeetingOptions GroupMeeting::options() {
  const rendezvous::Again& again = parent_.origin().again;
  rendezvous::MeetingOptions meeting;
  meeting.rank = group_.rank_of(parent_.rank());
  meeting.size = group_.size();
  meeting.wanted = wanted(parent_.options().transport);
  meeting.settings = settings(parent_.options());
  meeting.channels = Engine::kTracks + 1;
  meeting.suspicion = again.suspicion;
  meeting.silence = again.silence;
  meeting.tells_suspicions = false;
  meeting.deadline = deadline_;
  meeting.hopeless = [this] { return parent_has_failed(); };
  meeting.log = again.log;
  return meeting;
}

void GroupMeeting::keep_lobby(rendezvous::MeetingOptions& meeting, Invitation& invitation) {
  const Token random = Token::random();
  std::copy(random.bytes().begin(), random.bytes().end(), invitation.nonce);
  invitation.one_host = group_.one_host ? 1 : 0;
  meeting.keep_lobby = true;
  if (group_.one_host) {
    meeting.lobby = "unix:@tutti-group-" + Token::random().hex().substr(0, 32);
  } else {
    const rendezvous::Again& again = parent_.origin().again;
    meeting.lobby = rendezvous::endpoint_of(again.address, 0);
    meeting.token = token_of(invitation, again.token);
  }
  meeting.job = job_of(invitation);
}

void GroupMeeting::follow(rendezvous::MeetingOptions& meeting, const Invitation& invitation) {
  group_.one_host = invitation.one_host != 0;
  meeting.lobby = invitation.lobby;
  meeting.job = job_of(invitation);
  if (!group_.one_host) meeting.token = token_of(invitation, parent_.origin().again.token);
}

bool GroupMeeting::parent_has_failed() {
  if (!failure_) failure_ = parent_.failure();  // asked again, it may take its time to find the same
  return failure_.has_value();
}

std::unique_ptr<Engine> GroupMeeting::meet_in_place(const Exchange& exchange) {
  Invitation invitation;
  if (leads()) {
    try {
      invitation.place = make_place(parent_, group_.size());
    } catch (const Error& error) {
      if (!exchange) throw;
      invitation.fail(error.code(), error.what(), parent_.rank());
    }
  }
  if (exchange) invitation = exchange(invitation);
  if (group_.size() == 0) return nullptr;
  return make_engine(parent_, group_.members, invitation.place, deadline_, [this] { return parent_has_failed(); });
}

std::unique_ptr<Engine> GroupMeeting::meet_at_lobby(const Exchange& exchange) {
  const rendezvous::Again& again = parent_.origin().again;
  rendezvous::MeetingOptions meeting = options();
  Invitation invitation;
  bool told = false;  // this rank's part in the exchange is done
  const auto tell = [&] {
    told = true;
    return exchange(invitation);
  };
  if (invites()) {
    meeting.publish = [&](const rendezvous::Endpoint& lobby) {
      if (lobby.size() >= sizeof invitation.lobby)
        throw Error(ErrorCode::system, "the address " + lobby + " is too long to be told");
      put(invitation.lobby, lobby);
      tell();
    };
  }
  rendezvous::Met met;
  try {
    if (meeting.publish) {
      keep_lobby(meeting, invitation);
    } else if (exchange) {
      const Invitation theirs = tell();
      if (group_.size() > 1) follow(meeting, theirs);
    }
    if (group_.size() == 0) return nullptr;
    // Across hosts the address at which the parent's ranks reached this one is known to be a good one.
    meeting.interface = group_.one_host ? again.interface : again.address;
    met = rendezvous::meet(meeting);
  } catch (const std::exception& error) {
    if (told || !meeting.publish) throw;
    // The others wait for an invitation: they get the reason why there is none, and so does this rank.
    const auto* known = dynamic_cast<const Error*>(&error);
    invitation.fail(known != nullptr ? known->code() : ErrorCode::system, error.what(), parent_.rank());
    tell();
  }
  // What there is to warn of was said when the parent was made.
  const Log log = again.log.says(Log::Level::info) ? again.log : Log();
  return make_engine(std::move(met), parent_.options(), log, deadline_, &parent_);
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
        failure_->died ? words_of(failure_->loss, parent_.origin().again.silence) : " gave up after an error";
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
