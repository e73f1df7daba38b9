// Whom a watch is linked with: their beats, their silence, and new links where a gap has opened.
#include <algorithm>

#include "rendezvous/overlay.h"
#include "rendezvous/watch.h"

namespace tutti::rendezvous {
namespace {

// A gap is bridged when it has been there for this many beats: at the end of a job all leave at once, and there will be
// nobody to bridge. The higher rank dials; the lower one, too, where the network may let through only that.
constexpr int kBeatsToHigher = 2, kBeatsToLower = 6;

}  // namespace

void Watch::link(int rank, ConnectionId connection, Time now) {
  Neighbour& neighbour = neighbours_[connection];
  neighbour.rank = rank;
  neighbour.heard = now + first_limit_;  // it may be told to go a little later than this rank
  network_.resume(connection);
}

void Watch::hang_up(ConnectionId connection) {
  network_.close(connection);
  neighbours_.erase(connection);
}

void Watch::accepted(ConnectionId connection, std::string_view from, Time now) {
  if (!relinker_) return network_.close(connection);
  relinker_->accepted(connection, from, now);
}

void Watch::connected(ConnectionId connection, Time now) {
  if (relinker_) relinker_->connected(connection, now);
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

void Watch::take_made(const Relinker::Made& made, Time now) {
  link(made.rank, made.connection, now);
  new_links_.push_back(made.connection);
  for (const News& news : known_.in_order()) network_.send(made.connection, frame_of(news));
  if (!made.rest.empty()) received(made.connection, made.rest, now);
}

void Watch::tick(Time now) {
  if (now < next_tick()) return;
  if (relinker_) relinker_->tick(now);
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
  return std::min({next_beat_, next_judgement_, relinker_ ? relinker_->next_tick() : kNever});
}

}  // namespace tutti::rendezvous
