#include "rendezvous/joiner.h"

#include <algorithm>

#include "base/rank_list.h"
#include "rendezvous/watch.h"

namespace tutti::rendezvous {
namespace {

using std::chrono::seconds;
// A name that cannot be resolved or a host to which no way leads may come up a little later than this rank.
constexpr Time kLobbyPatience = seconds(5);
// A peer listened before it joined, so whoever refuses now has ended; the lobby's word of it should come first.
constexpr Time kLinkPatience = seconds(3);
constexpr Time kLongestLinking = seconds(20);
constexpr Time kSettleTime = seconds(1);
constexpr std::string_view kLinkRemedy =
    "; see whether a firewall keeps the hosts apart, or set TUTTI_INTERFACE to the network that joins them";

}  // namespace

Joiner::Joiner(Network& network, JoinerOptions options, Time now)
    : network_(network),
      options_(std::move(options)),
      began_(now),
      gate_(network, kStrangers + static_cast<std::size_t>(options_.join.size)),
      lobby_(network, options_.lobby, options_.token.value_or(Token::zero()), hello_for(Purpose::lobby, 0, kLobby)),
      frames_(most_from_lobby(options_.join.size)) {
  lobby_.dial(now);
}

Hello Joiner::hello_for(Purpose purpose, std::uint32_t channel, std::uint32_t to) const {
  Hello hello;
  hello.purpose = purpose;
  hello.channel = channel;
  hello.from = static_cast<std::uint32_t>(options_.rank);
  hello.to = to;
  hello.job = job_hash(options_.job);
  return hello;
}

Joiner::Standing* Joiner::find(Purpose purpose, int peer, std::uint32_t channel) {
  for (Standing& standing : links_) {
    const Link& link = standing.link;
    if (link.purpose == purpose && link.peer == peer && link.channel == channel) return &standing;
  }
  return nullptr;
}

Dialer* Joiner::dialer_of(ConnectionId connection) {
  for (const auto& dialer : dialers_) {
    if (dialer && dialer->connection() == connection) return dialer.get();
  }
  return nullptr;
}

void Joiner::accepted(ConnectionId connection, std::string_view from, Time now) {
  gate_.accepted(connection, from, now);
}

void Joiner::connected(ConnectionId connection, Time now) {
  if (connection == lobby_.connection()) return lobby_.connected(now);
  if (Dialer* dialer = dialer_of(connection)) dialer->connected(now);
}

void Joiner::received(ConnectionId connection, std::span<const std::byte> bytes, Time now) {
  if (state_ == State::failed) return;
  if (!over() && connection == lobby_.connection()) return take_lobby(bytes, now);
  if (gate_.holds(connection)) {
    if (const auto hello = gate_.received(connection, bytes)) {
      // The gate let in only those whose link is due.
      stand(*find(hello->purpose, static_cast<int>(hello->from), hello->channel), connection);
    }
    return;
  }
  if (over()) return;
  for (std::size_t i = 0; i < dialers_.size(); ++i) {
    Dialer* dialer = dialers_[i].get();
    if (dialer == nullptr || dialer->connection() != connection || dialer->state() == Dialer::State::admitted) continue;
    const auto rest = dialer->received(bytes, now);
    const std::string them = "rank " + std::to_string(links_[i].link.peer);
    if (!rest.empty()) {
      fail(
          {ErrorCode::system, links_[i].link.peer,
           them + " sent data to " + us() + " before all ranks had met; " + "run the same version of Tutti everywhere"},
          now);
    } else if (dialer->state() == Dialer::State::refused) {
      fail({ErrorCode::mismatch, links_[i].link.peer, dialer->refusal_in_words(us(), them)}, now);
    } else if (dialer->state() == Dialer::State::admitted) {
      stand(links_[i], connection);
    }
    return;
  }
}

void Joiner::take_lobby(std::span<const std::byte> bytes, Time now) {
  if (lobby_.state() == Dialer::State::proving) {
    bytes = lobby_.received(bytes, now);
    if (lobby_.state() == Dialer::State::refused) {
      verdict_ = {ErrorCode::invalid_argument, -1, lobby_.refusal_in_words(us(), "the lobby")};
      return finish();
    }
    if (lobby_.state() != Dialer::State::admitted) return;
    state_ = State::waiting;
    network_.send(lobby_.connection(), frame_of(options_.join));
  }
  frames_.add(bytes);
  while (!over()) {
    const std::optional<Frame> frame = frames_.next();
    if (!frame) break;
    take(*frame, now);
  }
  if (frames_.broken()) nonsense(now);
}

void Joiner::nonsense(Time now) {
  fail({ErrorCode::system, -1,
        "the lobby at " + lobby_.to() + " sent " + us() +
            " what no lobby sends; run the same version of Tutti everywhere"},
       now);
}

void Joiner::take(const Frame& frame, Time now) {
  if (const auto keeper = decode_greeting(frame); keeper && *keeper < options_.join.size && !greeted_) {
    greeted_ = true;
    keeper_ = *keeper;
  } else if (auto verdict = decode_verdict(frame)) {
    verdict_ = std::move(*verdict);
    if (verdict_.peer >= options_.join.size) verdict_.peer = -1;  // the sizes may be what differs
    finish();
  } else if (state_ == State::settling) {
    // What it says of the meeting has crossed with this rank's failure.
  } else if (auto roster = decode_roster(frame); roster && state_ == State::waiting) {
    take_roster(std::move(*roster), now);
  } else if (frame.kind == static_cast<std::uint8_t>(Word::go) && frame.body.empty() && state_ == State::ready) {
    state_ = State::done;
    lobby_.hang_up();
    gate_.drop_silent();
  } else {
    nonsense(now);
  }
}

void Joiner::take_roster(Roster roster, Time now) {
  if (roster.members.size() != static_cast<std::size_t>(options_.join.size)) {
    return fail({ErrorCode::system, -1,
                 "the lobby named " + std::to_string(roster.members.size()) + " ranks to " + us() +
                     ", which was started for " + std::to_string(options_.join.size)},
                now);
  }
  // All ranks joined with the same wishes, and the lobby changes nothing that a rank says of itself.
  const auto rank = static_cast<std::size_t>(options_.rank);
  const bool ours = roster.wanted == options_.join.wanted && roster.channels == options_.join.channels &&
                    rank < roster.members.size() && roster.members[rank] == options_.join.member;
  if (!ours) return nonsense(now);
  roster_ = std::move(roster);
  state_ = State::linking;
  if (options_.check) {
    if (auto verdict = options_.check(*roster_)) return fail(std::move(*verdict), now);
  }
  link_deadline_ = options_.deadline == kNever ? now + kLongestLinking
                                               : now + std::min(kLongestLinking, (options_.deadline - now) / 4 * 3);
  for (const Link& link : links_of(*roster_, options_.rank)) links_.push_back({link, 0});
  const Token token = roster_->session ? *roster_->session : options_.token.value_or(Token::zero());
  for (const Standing& standing : links_) {
    const Link& link = standing.link;
    const Member& peer = roster_->members[static_cast<std::size_t>(link.peer)];
    const Hello hello = hello_for(link.purpose, link.channel, static_cast<std::uint32_t>(link.peer));
    const Endpoint& to = link.purpose == Purpose::memory ? peer.memory : peer.endpoint;
    dialers_.push_back(link.connects ? std::make_unique<Dialer>(network_, to, token, hello) : nullptr);
    if (link.connects) dialers_.back()->dial(now);
  }
  Gate::Terms terms{token, job_hash(options_.job), static_cast<std::uint32_t>(options_.rank), {}};
  const auto later = [](const Hello& hello) { return is_for_linker(hello.purpose); };
  terms.comes_early = later;
  terms.judge = [this, later](const Hello& hello) -> std::optional<Refusal> {
    if (hello.from >= roster_->members.size()) return Refusal::no_such_rank;
    if (later(hello)) return std::nullopt;
    if (over()) return Refusal::unexpected;
    const Standing* due = find(hello.purpose, static_cast<int>(hello.from), hello.channel);
    return due == nullptr || due->link.connects ? std::optional(Refusal::unexpected) : std::nullopt;
  };
  expect_links();
  gate_.open(std::move(terms));
  if (links_.empty()) {
    state_ = State::ready;
    network_.send(lobby_.connection(), frame_of(Word::ready));
  }
}

// Whoever has proved itself needs no place at the gate any more, so what stands and what waits have a sum.
void Joiner::expect_links() { gate_.set_most(kStrangers + links_.size() - standing_); }

void Joiner::stand(Standing& standing, ConnectionId connection) {
  if (standing.connection != 0) {
    network_.close(standing.connection);  // the peer gave that one up and dialled again
  } else {
    ++standing_;
  }
  standing.connection = connection;
  network_.hold(connection);
  expect_links();
  if (standing_ < links_.size() || state_ != State::linking) return;
  state_ = State::ready;
  network_.send(lobby_.connection(), frame_of(Word::ready));
}

void Joiner::closed(ConnectionId connection, End end, std::string_view words, Time now) {
  if (state_ == State::done) gate_.closed(connection);
  if (over()) return;
  // Where somebody could be sent away for it, the next attempt may do.
  if (end == End::exhausted && make_room()) end = End::refused;
  if (connection == lobby_.connection()) {
    if (lobby_.state() == Dialer::State::admitted) return lobby_closed(now);
    lobby_.closed(end, words, now);
    look_elsewhere(end);
    return judge_lobby(now);
  }
  gate_.closed(connection);
  if (Dialer* dialer = dialer_of(connection)) dialer->closed(end, words, now);
}

void Joiner::lobby_closed(Time) {
  lobby_.hang_up();
  if (state_ != State::settling) {
    const std::string keeper = keeper_ >= 0 ? "rank " + std::to_string(keeper_) : greeted_ ? "the launcher" : "whoever";
    verdict_ = {ErrorCode::peer_lost, keeper_,
                keeper + (greeted_ ? ", which kept the lobby at " : " kept the lobby at ") + options_.lobby +
                    (greeted_ ? "," : "") + " ended in the meeting"};
  }
  finish();
}

// The keeper goes to the refuge if another user holds the lobby's name when it comes; that user may be gone by now.
void Joiner::look_elsewhere(End end) {
  if (!options_.refuge || (end != End::foreign && end != End::refused)) return;
  squatted_ = squatted_ || end == End::foreign;
  const Endpoint refuge = options_.refuge(end == End::foreign);
  if (!refuge.empty()) lobby_.go_to(lobby_.to() == refuge ? options_.lobby : refuge);
}

bool Joiner::make_room() {
  const bool at_gate = gate_.make_room();
  return (options_.make_room && options_.make_room()) || at_gate;
}

void Joiner::judge_lobby(Time now) {
  const End end = lobby_.last_end();
  const bool has_refuge = lobby_.to() != options_.lobby;
  const bool hopeless = (end == End::foreign && !has_refuge) || end == End::exhausted;
  const bool lost = (end == End::unreachable || end == End::unresolved) && lobby_.failing_since() != kNever &&
                    now - lobby_.failing_since() >= kLobbyPatience;
  if (!hopeless && !lost && now < options_.deadline) return;
  const bool passing = end == End::refused || end == End::orderly || end == End::broken;
  verdict_ = {passing ? ErrorCode::timeout : ErrorCode::system, -1,
              us() + " cannot meet the others: the lobby at " + options_.lobby + " was not reached within " +
                  in_words(now - began_) + ": " + lobby_.trouble() +
                  (squatted_ ? "; another user of this host holds that name" : "") +
                  "; see whether the launcher or rank 0 runs there, or set TUTTI_RENDEZVOUS to where it does"};
  finish();
}

void Joiner::judge_link(const Dialer& dialer, int peer, Time now) {
  if (dialer.state() == Dialer::State::admitted || dialer.state() == Dialer::State::refused) return;
  const bool refused = dialer.failing_since() != kNever && now - dialer.failing_since() >= kLinkPatience;
  const bool hopeless = dialer.last_end() == End::foreign || dialer.last_end() == End::exhausted;
  if (!refused && !hopeless) return;
  const Member& member = roster_->members[static_cast<std::size_t>(peer)];
  fail({ErrorCode::system, peer,
        us() + " cannot link up with " + in_words(peer, member) + " at " + dialer.to() + ": " + dialer.trouble() +
            std::string(kLinkRemedy)},
       now);
}

// Who does not answer is named by all the others before the lobby's own time is over: the lobby only knows who is not
// ready, and that is everybody who waits for a link.
void Joiner::judge_links(Time now) {
  if (now < link_deadline_) return;
  std::vector<int> absent;
  std::string trouble;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (links_[i].connection != 0) continue;
    if (absent.empty() || absent.back() != links_[i].link.peer) absent.push_back(links_[i].link.peer);
    if (trouble.empty() && dialers_[i]) trouble = " at " + dialers_[i]->to() + " (" + dialers_[i]->trouble() + ")";
  }
  fail({ErrorCode::timeout, absent.front(),
        us() + " could not link up with " + rank_names(absent) + trouble + " in time" + std::string(kLinkRemedy)},
       now);
}

void Joiner::judge_deadline(Time now) {
  if (now < options_.deadline || state_ == State::settling) return;
  if (state_ == State::reaching) return judge_lobby(now);
  fail({ErrorCode::timeout, -1,
        us() + " waited " + in_words(now - began_) +
            " in the meeting for the other ranks; see whether all of them run, " +
            "or allow more time (TUTTI_TIMEOUT_MS)"},
       now);
}

void Joiner::fail(Verdict verdict, Time now) {
  if (over() || state_ == State::settling) return;
  verdict_ = std::move(verdict);
  if (lobby_.state() != Dialer::State::admitted) return finish();
  network_.send(lobby_.connection(), frame_of(verdict_));
  state_ = State::settling;
  settle_until_ = now + kSettleTime;
}

void Joiner::finish() {
  state_ = State::failed;
  lobby_.hang_up();
  gate_.close();
  // Ranks that went already learn the cause before they see this rank's connections end.
  Failure failure{options_.rank, -1, false, Loss::ended, verdict_.code};
  if (verdict_.peer >= 0)
    failure = {verdict_.peer, -1, verdict_.code == ErrorCode::peer_lost, Loss::ended, verdict_.code};
  const Bytes words = last_words(options_.rank, failure);
  for (const Standing& standing : links_) {
    if (standing.connection == 0) continue;
    if (standing.link.purpose == Purpose::control) network_.send(standing.connection, words);
    network_.close(standing.connection);
  }
  for (const auto& dialer : dialers_) {
    if (dialer && dialer->state() != Dialer::State::admitted) dialer->hang_up();
  }
}

void Joiner::tick(Time now) {
  if (over()) return;
  gate_.tick(now);
  if (state_ == State::settling) {
    if (now >= settle_until_) finish();
    return;
  }
  lobby_.tick(now);
  for (std::size_t i = 0; i < dialers_.size() && state_ == State::linking; ++i) {
    if (!dialers_[i]) continue;
    dialers_[i]->tick(now);
    judge_link(*dialers_[i], links_[i].link.peer, now);
  }
  if (state_ == State::linking) judge_links(now);
  if (!over()) judge_deadline(now);
}

Time Joiner::next_tick() const {
  if (over()) return kNever;
  Time next = std::min(gate_.next_tick(), state_ == State::settling ? settle_until_ : options_.deadline);
  if (state_ == State::settling) return next;
  next = std::min(next, lobby_.next_tick());
  if (state_ != State::linking) return next;
  next = std::min(next, link_deadline_);
  for (const auto& dialer : dialers_) {
    if (dialer) next = std::min(next, dialer->next_tick());
  }
  return next;
}

}  // namespace tutti::rendezvous
