#include "rendezvous/watch.h"

#include <algorithm>

namespace tutti::rendezvous {
namespace {

enum ControlFrame : std::uint8_t { kBeat = 1, kGoodbye = 2, kVerdict = 3, kStatement = 4 };

Bytes statement_frame(std::uint32_t channel, const Statement& statement) {
  return frame_of(
      kStatement,
      Writer().u32(channel).u64(statement.sequence).u64(statement.kinds).u64(statement.count).u64(statement.detail));
}

// The smaller of two limits, of which 0 is none.
Time first_of(Time a, Time b) { return a == Time(0) || b == Time(0) ? std::max(a, b) : std::min(a, b); }

Loss loss_of(End end) {
  return end == End::orderly ? Loss::ended : end == End::unreachable ? Loss::unreachable : Loss::reset;
}

}  // namespace

Bytes failure_frame(const Failure& failure) {
  return frame_of(kVerdict, Writer()
                                .i32(failure.rank)
                                .i32(failure.blamed)
                                .u8(static_cast<std::uint8_t>((failure.died ? 1 : 0) | (failure.left ? 2 : 0)))
                                .u8(static_cast<std::uint8_t>(failure.loss))
                                .u8(static_cast<std::uint8_t>(failure.cause)));
}

Watch::Watch(Network& network, Options options, Time now)
    : network_(network),
      options_(std::move(options)),
      first_limit_(first_of(options_.suspicion, options_.silence)),
      beat_every_(first_limit_ / 4),
      ticked_(now),
      peers_(static_cast<std::size_t>(options_.size)) {
  for (const auto& [rank, connection] : options_.links) {
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    peer.connection = connection;
    peer.heard = now + first_limit_;  // it may be told to go a little later than this rank
    ranks_.emplace(connection, rank);
    network_.resume(connection);
  }
  if (first_limit_ > Time(0)) next_beat_ = next_judgement_ = now;
}

void Watch::broadcast(const Bytes& frame) {
  for (const Peer& peer : peers_) {
    if (peer.connection != 0) network_.send(peer.connection, frame);
  }
}

void Watch::abort(int culprit, ErrorCode cause) {
  // Its goodbye may reach others later than this verdict.
  const bool left = culprit >= 0 && departed(culprit);
  fail({options_.rank, culprit, false, Loss::ended, cause, left});
}

void Watch::announce(std::uint32_t channel, const Statement& statement) {
  broadcast(statement_frame(channel, statement));
}

void Watch::goodbye() {
  broadcast(frame_of(kGoodbye));
  for (Peer& peer : peers_) {
    if (peer.connection != 0) network_.close(peer.connection);
    peer.connection = 0;
  }
  ranks_.clear();
  next_beat_ = next_judgement_ = kNever;
}

void Watch::fail(const Failure& failure) {
  if (failure_) return;
  failure_ = failure;
  broadcast(failure_frame(failure));
  say();
}

void Watch::say() {
  if (!say_) return;
  std::uint32_t channel = 0;
  for (const Statement& statement : say_()) announce(channel++, statement);
}

void Watch::received(ConnectionId connection, std::span<const std::byte> bytes, Time now) {
  const auto found = ranks_.find(connection);
  if (found == ranks_.end()) return network_.drop(connection);  // nobody of this group
  const int rank = found->second;
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  hear(rank, now);
  peer.frames.add(bytes);
  bool understood = true;
  while (understood) {
    const auto frame = peer.frames.next();
    if (!frame) break;
    understood = take(rank, *frame);
  }
  if (understood && !peer.frames.broken()) return;
  closed(connection, End::broken, "it does not speak as a control connection does", now);
  network_.drop(connection);
}

bool Watch::take(int rank, const Frame& frame) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  Reader reader(frame.body);
  if (frame.kind == kBeat) return reader.complete();
  if (frame.kind == kVerdict) return take_failure(reader);
  if (frame.kind == kGoodbye && reader.complete()) {
    peer.departed = true;
    changed_.push_back(rank);
    return true;
  }
  if (frame.kind == kStatement) {
    const std::uint32_t channel = reader.u32();
    Statement statement;
    statement.sequence = reader.u64();
    statement.kinds = reader.u64();
    statement.count = reader.u64();
    statement.detail = reader.u64();
    if (!reader.complete() || channel >= kMostChannels) return false;
    if (channel >= peer.statements.size()) peer.statements.resize(channel + 1);
    peer.statements[channel] = statement;
    changed_.push_back(rank);
    return true;
  }
  return false;
}

bool Watch::take_failure(Reader reader) {
  Failure failure;
  failure.rank = reader.i32();
  failure.blamed = reader.i32();
  const std::uint8_t how = reader.u8();
  failure.died = (how & 1) != 0;
  failure.left = (how & 2) != 0;
  const std::uint8_t loss = reader.u8();
  failure.loss = static_cast<Loss>(loss);
  failure.cause = read_code(reader);
  const bool ranks =
      failure.rank >= 0 && failure.rank < options_.size && failure.blamed >= -1 && failure.blamed < options_.size;
  if (!reader.complete() || !ranks || how > 3 || loss > static_cast<std::uint8_t>(Loss::silent)) return false;
  fail(failure);
  return true;
}

void Watch::closed(ConnectionId connection, End end, std::string_view, Time) {
  const auto found = ranks_.find(connection);
  if (found == ranks_.end()) return;
  const int rank = found->second;
  ranks_.erase(found);
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  peer.connection = 0;
  if (!peer.departed) lose(rank, loss_of(end));
}

void Watch::hear(int rank, Time when) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (peer.suspect) suspicions_.push_back({rank, true, when - peer.heard});
  peer.suspect = false;
  peer.heard = when;
}

void Watch::judge_silence(Time now) {
  next_judgement_ = kNever;
  for (int rank = 0; rank < options_.size; ++rank) {
    const Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (peer.connection != 0 && !peer.departed) judge_silence(rank, now);
  }
}

void Watch::judge_silence(int rank, Time now) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (now - peer.heard >= first_limit_ && quiet_for_) {
    // Data that came too long ago only moves the beginning of the silence, and the clock that dates it is a coarse one.
    const Time quiet = quiet_for_(rank);
    if (quiet < first_limit_) hear(rank, now - quiet);
    peer.heard = std::max(peer.heard, now - quiet);
  }
  const Time silent = now - peer.heard;
  if (options_.silence > Time(0) && silent >= options_.silence) {
    // Nothing more is sent to it; if it wakes up it finds its connections ended.
    lose(rank, Loss::silent);
    network_.close(peer.connection);
    ranks_.erase(peer.connection);
    peer.connection = 0;
    return;
  }
  if (silent < first_limit_) {
    next_judgement_ = std::min(next_judgement_, peer.heard + first_limit_);
    return;
  }
  if (!peer.suspect && !failure_) {
    peer.suspect = true;
    suspicions_.push_back({rank, false, silent});
  }
  // Data that breaks its silence is found only by looking.
  next_judgement_ = std::min(next_judgement_, now + beat_every_);
  if (options_.silence > Time(0)) next_judgement_ = std::min(next_judgement_, peer.heard + options_.silence);
}

void Watch::tick(Time now) {
  if (now < next_tick()) return;
  if (now >= next_beat_) {
    broadcast(frame_of(kBeat));
    next_beat_ = now + beat_every_;
  }
  const bool late = now - ticked_ > 2 * beat_every_;
  ticked_ = now;
  if (late && !catching_up_) {
    // What the peers sent meanwhile has not been read yet; read first, judge then. And whatever held this rank up, a
    // job stopped from the terminal or a machine that slept, may have held up the peers, which take a moment to wake.
    catching_up_ = true;
    next_judgement_ = now + beat_every_;
  } else if (now >= next_judgement_) {
    catching_up_ = false;
    judge_silence(now);
  }
}

Time Watch::next_tick() const { return std::min(next_beat_, next_judgement_); }

}  // namespace tutti::rendezvous
