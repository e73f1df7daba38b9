// Whom a watch is linked with: their beats, their silence, and new links, where a gap has opened or data is to go.
#include <algorithm>

#include "rendezvous/overlay.h"
#include "rendezvous/watch.h"

namespace tutti::rendezvous {
namespace {

// A gap is bridged when it has been there for this many beats: at the end of a job all leave at once, and there will be
// nobody to bridge. The higher rank dials; the lower one, too, where the network may let through only that.
constexpr int kBeatsToHigher = 2, kBeatsToLower = 6;

}  // namespace

Watch::Neighbour& Watch::link(int rank, ConnectionId connection, Time now) {
  Neighbour& neighbour = neighbours_[connection];
  neighbour.rank = rank;
  neighbour.heard = now + first_limit_;  // it may be told to go a little later than this rank
  network_.resume(connection);
  return neighbour;
}

void Watch::hang_up(ConnectionId connection) {
  network_.close(connection);
  neighbours_.erase(connection);
}

void Watch::open_gate() {
  Gate::Terms terms{options_.linking->token, options_.linking->job, static_cast<std::uint32_t>(options_.rank), {}};
  terms.judge = [this](const Hello& hello) -> std::optional<Refusal> {
    if (hello.from >= static_cast<std::uint32_t>(options_.size)) return Refusal::no_such_rank;
    const int from = static_cast<int>(hello.from);
    if (is_for_linker(hello.purpose)) return linker_->judge(hello);
    const bool due = hello.purpose == Purpose::control && from != options_.rank && !is_gone(from);
    return due ? std::nullopt : std::optional(Refusal::unexpected);
  };
  gate_->open(std::move(terms));
}

void Watch::accepted(ConnectionId connection, std::string_view from, Time now) {
  if (!gate_) return network_.close(connection);
  gate_->accepted(connection, from, now);
}

void Watch::connected(ConnectionId connection, Time now) {
  if (!linker_) return;
  if (linker_->holds(connection)) return linker_->connected(connection, now);
  relinker_->connected(connection, now);
}

void Watch::received_elsewhere(ConnectionId connection, std::span<const std::byte> bytes, Time now) {
  if (gate_ && gate_->holds(connection)) {
    const auto hello = gate_->received(connection, bytes);
    return hello ? admit(*hello, connection, now) : void();
  }
  if (linker_ && linker_->holds(connection)) {
    linker_->received(connection, bytes, now);
    return judge_links();
  }
  if (!relinker_ || !relinker_->holds(connection)) return network_.drop(connection);  // nobody of this job
  const auto made = relinker_->received(connection, bytes, now);
  if (!made) return;
  join(made->rank, made->connection, true, now);
  if (!made->rest.empty()) received(made->connection, made->rest, now);
}

void Watch::closed_elsewhere(ConnectionId connection, End end, std::string_view words, Time now) {
  if (!gate_) return;
  gate_->closed(connection);
  if (!linker_->holds(connection)) return relinker_->closed(connection, end, words, now);
  // Where somebody could be sent away for it, the next attempt may do.
  if (end == End::exhausted && make_room()) end = End::broken;
  linker_->closed(connection, end, words, now);
  judge_links();
}

bool Watch::make_room() {
  const bool elsewhere = make_room_ && make_room_();
  return (gate_ && gate_->make_room()) || elsewhere;
}

void Watch::admit(const Hello& hello, ConnectionId connection, Time now) {
  if (hello.purpose == Purpose::control) return join(static_cast<int>(hello.from), connection, false, now);
  linker_->admit(hello, connection, now);
}

void Watch::want_link(int rank, std::uint32_t channel, Time now) {
  if (linker_) linker_->want(rank, channel, now);
}

// Whoever cannot be reached is as good as lost, although it may live.
void Watch::judge_links() {
  for (Linker::Trouble& trouble : linker_->take_troubles()) {
    if (is_gone(trouble.rank) || known_.lost(options_.rank)) continue;
    if (trouble.ours) own_trouble_ = trouble.words;
    if (trouble.ours) continue;
    troubles_.push_back(std::move(trouble.words));
    lose(trouble.rank, Loss::unreachable);
  }
}

void Watch::hear(Neighbour& neighbour, Time when) {
  if (neighbour.suspect) suspicions_.push_back({neighbour.rank, true, when - neighbour.heard});
  neighbour.suspect = false;
  neighbour.heard = when;
}

void Watch::judge_silence(Time now) {
  next_judgement_ = kNever;
  std::vector<int> silent;
  for (auto& [connection, neighbour] : neighbours_) {
    if (!known_.departed(neighbour.rank) && judge_silence(neighbour, now)) silent.push_back(neighbour.rank);
  }
  for (const int rank : silent) lose(rank, Loss::silent);
}

bool Watch::judge_silence(Neighbour& neighbour, Time now) {
  if (now - neighbour.heard >= first_limit_ && quiet_for_) {
    // Data that came too long ago only moves the beginning of the silence, and the clock that dates it is a coarse one.
    const Time quiet = quiet_for_(neighbour.rank);
    if (quiet < first_limit_) hear(neighbour, now - quiet);
    neighbour.heard = std::max(neighbour.heard, now - quiet);
  }
  const Time silent = now - neighbour.heard;
  if (options_.silence > Time(0) && silent >= options_.silence) return true;
  if (silent < first_limit_) {
    next_judgement_ = std::min(next_judgement_, neighbour.heard + first_limit_);
    return false;
  }
  if (!neighbour.suspect && any_group_lives()) {
    neighbour.suspect = true;
    suspicions_.push_back({neighbour.rank, false, silent});
  }
  // Data that breaks its silence is found only by looking.
  next_judgement_ = std::min(next_judgement_, now + beat_every_);
  if (options_.silence > Time(0)) next_judgement_ = std::min(next_judgement_, neighbour.heard + options_.silence);
  return false;
}

bool Watch::is_linked(int rank) const {
  return std::any_of(neighbours_.begin(), neighbours_.end(),
                     [&](const auto& entry) { return entry.second.rank == rank; });
}

int Watch::next_living(int step) const {
  int rank = options_.rank;
  do rank = (rank + step + options_.size) % options_.size;
  while (rank != options_.rank && !seems_there(rank));
  return rank;
}

std::vector<int> Watch::missing_neighbours() const {
  std::vector<int> living;
  std::size_t place = 0;
  for (int rank = 0; rank < options_.size; ++rank) {
    if (rank == options_.rank) place = living.size();
    if (rank == options_.rank || seems_there(rank)) living.push_back(rank);
  }
  std::vector<int> missing;
  for (const int other : neighbours_of(static_cast<int>(place), static_cast<int>(living.size()))) {
    const int rank = living[static_cast<std::size_t>(other)];
    if (!is_linked(rank)) missing.push_back(rank);
  }
  return missing;
}

void Watch::keep_joined(Time now) {
  relinker_->drop([this](int rank) { return is_gone(rank) || is_linked(rank); });
  // Whatever it had to say was heard by nobody who is still there, and most likely that was a goodbye.
  for (const int rank : relinker_->ended(now)) tell_goodbye(rank);
  if (options_.silence > Time(0)) {
    for (const int rank : relinker_->silent(options_.silence, now)) lose(rank, Loss::silent);
  }
  const auto joined = [this](int rank) { return rank == options_.rank || is_linked(rank); };
  if (known_.lost(options_.rank) || (joined(next_living(1)) && joined(next_living(-1)))) {
    beats_apart_ = 0;
    return;
  }
  if (++beats_apart_ < kBeatsToHigher) return;
  std::vector<int> missing = missing_neighbours();
  if (beats_apart_ < kBeatsToLower) std::erase_if(missing, [this](int rank) { return rank > options_.rank; });
  relinker_->seek(missing, now);
}

void Watch::join(int rank, ConnectionId connection, bool knows, Time now) {
  link(rank, connection, now).knows = knows;
  new_links_.push_back(connection);
  for (const News& news : known_.in_order()) network_.send(connection, frame_of(news));
}

void Watch::tick(Time now) {
  if (now < next_tick()) return;
  if (gate_) {
    gate_->tick(now);
    relinker_->tick(now);
    linker_->tick(now);
    judge_links();
  }
  if (now >= next_beat_) {
    const Bytes beat = beat_frame();
    for (const auto& [connection, neighbour] : neighbours_) {
      if (!known_.departed(neighbour.rank)) network_.send(connection, beat);
    }
    next_beat_ = now + beat_every_;
    if (relinker_) keep_joined(now);
  }
  const bool late = now - ticked_ > 2 * beat_every_;
  ticked_ = now;
  if (first_limit_ == Time(0)) return;
  if (late && !catching_up_) {
    // What the neighbours sent meanwhile has not been read yet; read first, judge then. And whatever held this rank up,
    // a job stopped from the terminal or a machine that slept, may have held up others, which take a moment to wake.
    catching_up_ = true;
    next_judgement_ = now + beat_every_;
  } else if (now >= next_judgement_) {
    catching_up_ = false;
    judge_silence(now);
  }
}

Time Watch::next_tick() const {
  Time next = std::min(next_beat_, next_judgement_);
  if (gate_) next = std::min({next, gate_->next_tick(), relinker_->next_tick(), linker_->next_tick()});
  return next;
}

}  // namespace tutti::rendezvous
