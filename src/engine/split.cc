#include "engine/split.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/mix.h"
#include "base/rank_list.h"
#include "engine/factory.h"
#include "engine/wishes.h"
#include "rendezvous/address.h"

namespace tutti::engine {
namespace {

using rendezvous::Token;

// What ranks tell each other are records of one size, without pointers: Wish, and these.

struct Invitation {
  std::byte nonce[Token::kBytes] = {};  // makes the group's name and its token
  char lobby[96] = {};                  // empty: this rank keeps none
  std::int32_t failed = 0;              // it should have, and could not
  ErrorCode code = ErrorCode::system;
  char words[251] = {};
};

struct Outcome {
  enum Weight : std::int32_t { none, waited, failed, parent_failed };  // the gravest is what all ranks throw
  Weight weight = none;
  std::int32_t blamed = -1;  // a rank of the parent
  ErrorCode code = ErrorCode::system;
  char words[503] = {};
};

template <std::size_t kBytes>
void put(char (&text)[kBytes], std::string_view words) {
  const std::size_t length = std::min(words.size(), kBytes - 1);
  std::memcpy(text, words.data(), length);
  text[length] = 0;
}

// Makes this rank's group; lives for one call.
class Making {
 public:
  Making(Engine& parent, Kind kind) : parent_(parent), verb_(name_of(kind)) {}

  std::unique_ptr<Engine> make(const Wish& mine);

 private:
  template <class Record>
  std::vector<Record> gather(const Record& mine);
  void require_alike() const;
  std::unique_ptr<Engine> make_threads();
  std::unique_ptr<Engine> meet();
  void keep_lobby(rendezvous::MeetingOptions& meeting, Invitation& invitation);
  void follow(rendezvous::MeetingOptions& meeting, const std::vector<Invitation>& invitations) const;
  std::vector<Invitation> exchange(const Invitation& mine);
  Outcome outcome_of(const Error& error) const;
  void require_success(const std::vector<Outcome>& outcomes) const;

  Engine& parent_;
  std::string verb_;
  Deadline deadline_;  // of the meeting
  std::vector<Wish> wishes_;
  Group group_;
  std::uint32_t number_ = 0;        // of this call, among those of the parent
  std::optional<Failure> failure_;  // of the parent, where that ended the meeting
  bool settled_ = false;            // all ranks fail, and each knows why: there is nothing left to tell
};

template <class Record>
std::vector<Record> Making::gather(const Record& mine) {
  static_assert(std::is_trivially_copyable_v<Record>);
  std::vector<Record> all(static_cast<std::size_t>(parent_.size()));
  try {
    parent_.run({.verb = Verb::all_gather,
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
  const auto [odd, usual] = odd_one_of(wishes_);
  if (odd < 0) return;
  const Kind kind = wishes_[static_cast<std::size_t>(odd)].kind;
  const Kind others = wishes_[static_cast<std::size_t>(usual)].kind;
  const std::string what = kind != others ? "called " + name_of(kind) + ", " + rank_name(usual) + " " + name_of(others)
                                          : "passed another list of ranks than " + rank_name(usual);
  throw Error(ErrorCode::mismatch,
              verb_ + ": " + rank_name(odd) + " " + what + "; all ranks of the group ask for the same groups", odd);
}

std::unique_ptr<Engine> Making::make_threads() {
  if (group_.size() == 0) return nullptr;
  const std::uint64_t key = std::uint64_t{number_} << 32 | static_cast<std::uint32_t>(group_.members.front());
  return make_engine(parent_.origin().threads->part(key, group_.rank_of(parent_.rank()), group_.size()),
                     parent_.options(), deadline_, &parent_.costs());
}

std::vector<Invitation> Making::exchange(const Invitation& mine) {
  std::vector<Invitation> invitations = gather(mine);
  for (std::size_t rank = 0; rank < invitations.size(); ++rank) {
    if (invitations[rank].failed == 0) continue;
    settled_ = true;
    throw Error(invitations[rank].code,
                verb_ + ": " + rank_name(static_cast<int>(rank)) +
                    ", the first of its new group, could not let it meet: " + invitations[rank].words,
                static_cast<int>(rank));
  }
  return invitations;
}

std::string job_of(const Invitation& invitation) {
  return "group " + Token::from_bytes(std::span(invitation.nonce)).hex();
}

// The parent's token never travels, and neither does that of its groups: what travels is of no use without the former.
std::optional<Token> token_of(const Invitation& invitation, const std::optional<Token>& parent) {
  if (!parent) return std::nullopt;
  return Token::from_bytes(parent->mac({std::as_bytes(std::span("group")), std::span(invitation.nonce)}));
}

void Making::keep_lobby(rendezvous::MeetingOptions& meeting, Invitation& invitation) {
  const Token random = Token::random();
  std::copy(random.bytes().begin(), random.bytes().end(), invitation.nonce);
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

void Making::follow(rendezvous::MeetingOptions& meeting, const std::vector<Invitation>& invitations) const {
  const Invitation& invitation = invitations[static_cast<std::size_t>(group_.members.front())];
  meeting.lobby = invitation.lobby;
  meeting.job = job_of(invitation);
  if (!group_.one_host) meeting.token = token_of(invitation, parent_.origin().again.token);
}

std::unique_ptr<Engine> Making::meet() {
  const rendezvous::Again& again = parent_.origin().again;
  const Options& options = parent_.options();
  rendezvous::MeetingOptions meeting;
  meeting.rank = group_.rank_of(parent_.rank());
  meeting.size = group_.size();
  meeting.wanted = wanted(options.transport);
  meeting.settings = settings(options);
  meeting.channels = Engine::kTracks + 1;
  // Across hosts the address at which the parent's ranks reached this one is known to be a good one.
  meeting.interface = group_.one_host ? again.interface : again.address;
  meeting.suspicion = again.suspicion;
  meeting.silence = again.silence;
  meeting.tells_suspicions = false;
  meeting.deadline = deadline_;
  meeting.hopeless = [this] {
    if (!failure_) failure_ = parent_.failure();  // asked again, it may take its time to find the same
    return failure_.has_value();
  };
  meeting.log = again.log;

  Invitation invitation;
  bool told = false;  // this rank's part in the exchange is done
  const auto tell = [&] {
    told = true;
    return exchange(invitation);
  };
  if (group_.size() > 1 && meeting.rank == 0) {
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
    } else if (has_company(wishes_)) {
      const std::vector<Invitation> invitations = tell();
      if (group_.size() > 1) follow(meeting, invitations);
    }
    if (group_.size() == 0) return nullptr;
    met = rendezvous::meet(meeting);
  } catch (const std::exception& error) {
    if (told || !meeting.publish) throw;
    // The others wait for an invitation: they get the reason why there is none, and so does this rank.
    const auto* known = dynamic_cast<const Error*>(&error);
    invitation.failed = 1;
    invitation.code = known != nullptr ? known->code() : ErrorCode::system;
    put(invitation.words, error.what());
    tell();
  }
  // What there is to warn of was said when the parent was made.
  const Log log = again.log.says(Log::Level::info) ? again.log : Log();
  return make_engine(std::move(met), options, log, deadline_, &parent_.costs());
}

Outcome Making::outcome_of(const Error& error) const {
  Outcome outcome;
  if (failure_) {
    const Verdict verdict = Verdict::of(*failure_);
    const std::string what =
        failure_->died ? words_of(failure_->loss, parent_.origin().again.silence) : " gave up after an error";
    outcome.weight = Outcome::parent_failed;
    outcome.code = verdict.code();
    outcome.blamed = verdict.culprit(parent_.rank());
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

// All ranks pick the same one: the gravest, and of those the first.
void Making::require_success(const std::vector<Outcome>& outcomes) const {
  const auto found = std::max_element(outcomes.begin(), outcomes.end(),
                                      [](const Outcome& a, const Outcome& b) { return a.weight < b.weight; });
  if (found->weight == Outcome::none) return;
  const int rank = static_cast<int>(found - outcomes.begin());
  const Group group = group_of(wishes_, rank);
  throw Error(found->code,
              verb_ + ": " + rank_name(rank) + " is not in its new group of " + rank_names(group.members) +
                  ", which counts them from 0: " + found->words,
              found->blamed >= 0 ? found->blamed : rank);
}

std::unique_ptr<Engine> Making::make(const Wish& mine) {
  wishes_ = gather(mine);
  require_alike();
  deadline_ = Deadline::after(parent_.timeout() / 2);
  number_ = parent_.next_group();
  group_ = group_of(wishes_, parent_.rank());
  Outcome outcome;
  std::unique_ptr<Engine> engine;
  try {
    engine = parent_.origin().threads ? make_threads() : meet();
  } catch (const Error& error) {
    if (settled_) throw;
    outcome = outcome_of(error);
  } catch (const std::exception& error) {
    outcome = outcome_of(Error(ErrorCode::system, error.what()));
  }
  require_success(gather(outcome));
  return engine;
}

Wish wish_of(Engine& parent, Kind kind) {
  Wish wish;
  wish.kind = kind;
  wish.host = hash_of(parent.origin().again.host_id);
  return wish;
}

}  // namespace

std::unique_ptr<Engine> split(Engine& parent, int color, int key) {
  Wish wish = wish_of(parent, Kind::split);
  wish.color = color;
  wish.key = key;
  return Making(parent, wish.kind).make(wish);
}

std::unique_ptr<Engine> subgroup(Engine& parent, std::span<const int> ranks) {
  Wish wish = wish_of(parent, Kind::subgroup);
  wish.color = -1;
  wish.list = ranks.size();
  std::vector<bool> listed(static_cast<std::size_t>(parent.size()));
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const int rank = ranks[i];
    if (rank < 0 || rank >= parent.size()) {
      throw Error(ErrorCode::invalid_argument, "subgroup: " + std::to_string(rank) +
                                                   " is not a rank of this group of " + std::to_string(parent.size()));
    }
    if (listed[static_cast<std::size_t>(rank)])
      throw Error(ErrorCode::invalid_argument, "subgroup: " + rank_name(rank) + " is listed twice");
    listed[static_cast<std::size_t>(rank)] = true;
    wish.list = mix(wish.list, static_cast<std::uint64_t>(rank));
    if (rank != parent.rank()) continue;
    wish.color = 0;
    wish.key = static_cast<std::int32_t>(i);
  }
  return Making(parent, wish.kind).make(wish);
}

std::unique_ptr<Engine> duplicate(Engine& parent) {
  const Wish wish = wish_of(parent, Kind::duplicate);
  return Making(parent, wish.kind).make(wish);
}

}  // namespace tutti::engine
