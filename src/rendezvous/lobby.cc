#include "rendezvous/lobby.h"

#include "base/rank_list.h"

namespace tutti::rendezvous {
namespace {

Verdict dead(int rank, const std::string& who, const std::string& words) {
  return {ErrorCode::peer_lost, rank, who + " " + words};
}

}  // namespace

Lobby::Lobby(Network& network, LobbyOptions options, Time now)
    : network_(network),
      options_(std::move(options)),
      gate_(network, kStrangers + static_cast<std::size_t>(options_.size)),
      began_(now),
      seats_(static_cast<std::size_t>(options_.size)) {
  Gate::Terms terms{options_.token.value_or(Token::zero()), job_hash(options_.job), kLobby, {}};
  terms.judge = [](const Hello& hello) {
    return hello.purpose == Purpose::lobby ? std::nullopt : std::optional(Refusal::unexpected);
  };
  gate_.open(std::move(terms));
}

void Lobby::accepted(ConnectionId connection, std::string_view from, Time now) {
  gate_.accepted(connection, from, now);
}

void Lobby::received(ConnectionId connection, std::span<const std::byte> bytes, Time now) {
  if (gate_.holds(connection)) {
    if (const auto hello = gate_.received(connection, bytes)) admit(connection, *hello);
    return;
  }
  const auto found = guests_.find(connection);
  if (found == guests_.end()) return;
  found->second.frames.add(bytes);
  // Taking a frame may send everybody away, this guest too.
  for (;;) {
    const auto guest = guests_.find(connection);
    if (guest == guests_.end()) return;
    const std::optional<Frame> frame = guest->second.frames.next();
    if (guest->second.frames.broken()) {
      return fail({ErrorCode::system, guest->second.rank,
                   "rank " + std::to_string(guest->second.rank) +
                       " does not speak the lobby's language; run the same "
                       "version of Tutti everywhere"});
    }
    if (!frame) return;
    take(connection, *frame, now);
  }
}

void Lobby::admit(ConnectionId connection, const Hello& hello) {
  Guest guest;
  guest.rank = static_cast<int>(hello.from);
  guests_.emplace(connection, std::move(guest));
  expect_guests();
  network_.send(connection, greeting_frame(options_.keeper));
  const int rank = static_cast<int>(hello.from);
  // Its size tells more than its number does; that comes with the join.
  const bool open = !went_ || options_.again;
  if (open && in_range(rank) && seat(rank).connection == 0) seat(rank).connection = connection;
  if (verdict_) return tell(connection, *verdict_);
  if (!open) {
    tell(connection, {ErrorCode::mismatch, rank,
                      "the ranks of this job have met already and rank " + std::to_string(rank) +
                          " is one of them; start each rank once"});
  }
}

void Lobby::take(ConnectionId connection, const Frame& frame, Time now) {
  const int rank = guests_.at(connection).rank;
  if (auto join = decode_join(frame)) return take_join(connection, std::move(*join));
  if (const auto verdict = decode_verdict(frame); verdict && verdict->peer < options_.size) {
    // A rank whose time is over before all have joined cannot know who is missing; we do.
    const bool waited = verdict->code == ErrorCode::timeout && joined_ < options_.size;
    return fail(waited ? missing(now) : *verdict);
  }
  const bool known = in_range(rank) && seat(rank).connection == connection && joined_ == options_.size;
  if (frame.kind == static_cast<std::uint8_t>(Word::ready) && frame.body.empty() && known && !seat(rank).ready) {
    seat(rank).ready = true;
    if (++ready_ == options_.size) send_go();
    return;
  }
  fail({ErrorCode::system, rank,
        "rank " + std::to_string(rank) +
            " said something in the meeting that has no meaning "
            "there; run the same version of Tutti everywhere"});
}

void Lobby::take_join(ConnectionId connection, Join join) {
  const int rank = guests_.at(connection).rank;
  const std::string number = std::to_string(rank), size = std::to_string(options_.size);
  if (join.size != options_.size) {
    return fail({ErrorCode::mismatch, rank,
                 in_words(rank, join.member) + " was started for " + std::to_string(join.size) +
                     " ranks, the lobby for " + size + "; start all ranks with one world size"});
  }
  if (!in_range(rank)) {
    return fail({ErrorCode::mismatch, rank,
                 in_words(rank, join.member) + " is out of range: the job has " + size + " ranks, numbered from 0 to " +
                     std::to_string(options_.size - 1)});
  }
  if (seat(rank).connection != connection || seat(rank).join) {
    const Member unknown{"another host", "", "", "", 0};
    const Member& first = seat(rank).join ? seat(rank).join->member : unknown;
    return fail({ErrorCode::mismatch, rank,
                 "two processes say that they are rank " + number + ": pid " + std::to_string(first.pid) + " on " +
                     first.host + " and pid " + std::to_string(join.member.pid) + " on " + join.member.host +
                     "; give every process a rank of its own"});
  }
  seat(rank).join = std::move(join);
  if (++joined_ == options_.size) send_roster();
}

void Lobby::send_roster() {
  std::vector<Join> joins;
  for (const Seat& seat : seats_) joins.push_back(*seat.join);
  if (auto verdict = judge(joins)) return fail(std::move(*verdict));
  Roster roster{joins[0].wanted, joins[0].channels, {}, {}};
  for (const Join& join : joins) roster.members.push_back(join.member);
  if (!options_.token) {
    std::array<std::byte, Token::kBytes> bytes{};
    network_.random(bytes);
    roster.session = Token::from_bytes(bytes);
  }
  const Bytes frame = frame_of(roster);
  for (const Seat& seat : seats_) network_.send(seat.connection, frame);
}

void Lobby::send_go() {
  went_ = true;
  const Bytes frame = frame_of(Word::go);
  for (const auto& [connection, guest] : guests_) {
    network_.send(connection, frame);
    network_.close(connection);
  }
  guests_.clear();
  expect_guests();
  if (!options_.again) return;
  // The next meeting has no deadline here: whoever waits for it has one, and tells.
  for (Seat& seat : seats_) seat = Seat{};
  joined_ = ready_ = 0;
  options_.deadline = kNever;
}

void Lobby::closed(ConnectionId connection, End, std::string_view, Time) {
  gate_.closed(connection);
  const auto found = guests_.find(connection);
  if (found == guests_.end()) return;
  const int rank = found->second.rank;
  guests_.erase(found);
  if (!in_range(rank) || seat(rank).connection != connection) return;
  Seat& gone = seat(rank);
  gone.settled = true;
  const std::string who = gone.join ? in_words(rank, gone.join->member) : "rank " + std::to_string(rank);
  fail(dead(rank, who, "ended in the meeting"));
}

void Lobby::note_death(int rank, const std::string& words) {
  if (!in_range(rank)) return;
  seat(rank).settled = true;
  fail(dead(rank, "rank " + std::to_string(rank), words + " before all ranks had met"));
}

std::vector<int> Lobby::ranks_where(bool (*condition)(const Seat&)) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < options_.size; ++rank) {
    if (condition(seats_[static_cast<std::size_t>(rank)])) ranks.push_back(rank);
  }
  return ranks;
}

Verdict Lobby::missing(Time now) const {
  const auto joined = ranks_where([](const Seat& seat) { return seat.join.has_value(); });
  const auto absent = ranks_where([](const Seat& seat) { return !seat.join; });
  const auto unready = ranks_where([](const Seat& seat) { return !seat.ready; });
  const std::vector<int>& late = absent.empty() ? unready : absent;
  std::string text = rank_names(late) + (late.size() == 1 ? " has not " : " have not ") +
                     (absent.empty() ? "linked up with the other ranks" : "joined") + " within " +
                     in_words(now - began_);
  if (!absent.empty()) text += joined.empty() ? "; no rank joined" : "; joined: " + rank_names(joined);
  if (!options_.hint.empty()) text += "; " + options_.hint;
  const std::string refusals = gate_.refusals();
  if (!refusals.empty()) text += "; " + refusals;
  text += absent.empty() ? "; see whether a firewall keeps the hosts apart, or set TUTTI_INTERFACE"
          : gate_.saw(Refusal::wrong_token) || gate_.saw(Refusal::other_job)
              ? "; give all ranks the same TUTTI_TOKEN_FILE and TUTTI_JOB"
              : "; see whether all ranks were started and can reach the lobby, or allow more time (TUTTI_TIMEOUT_MS)";
  return {ErrorCode::timeout, late.front(), text};
}

void Lobby::fail(Verdict verdict) {
  if ((went_ && !options_.again) || verdict_) return;
  verdict_ = std::move(verdict);
  if (!in_range(verdict_->peer)) verdict_->peer = -1;
  std::vector<ConnectionId> all;
  for (const auto& [connection, guest] : guests_) all.push_back(connection);
  for (const ConnectionId connection : all) tell(connection, *verdict_);
}

void Lobby::tell(ConnectionId connection, const Verdict& verdict) {
  const int rank = guests_.at(connection).rank;
  if (in_range(rank)) seat(rank).settled = true;
  network_.send(connection, frame_of(verdict));
  network_.close(connection);
  guests_.erase(connection);
}

bool Lobby::over() const {
  const auto settled = [](const Seat& seat) { return seat.settled; };
  return (went_ && guests_.empty()) || expired_ || (verdict_ && std::all_of(seats_.begin(), seats_.end(), settled));
}

void Lobby::tick(Time now) {
  gate_.tick(now);
  if (now < options_.deadline || expired_) return;
  if (!went_) fail(missing(now));
  expired_ = true;
}

Time Lobby::next_tick() const { return std::min(gate_.next_tick(), expired_ ? kNever : options_.deadline); }

}  // namespace tutti::rendezvous
