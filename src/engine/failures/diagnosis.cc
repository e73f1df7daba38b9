#include "engine/failures/diagnosis.h"

#include "base/rank_list.h"
#include "rendezvous/roster.h"

namespace tutti::engine {

ErrorCode Diagnosis::code() const {
  switch (kind) {
    case Kind::mismatch: return ErrorCode::mismatch;
    case Kind::departed: return ErrorCode::peer_lost;
    case Kind::failure:
      if (!failure.words.empty()) return failure.cause;
      if (failure.died || failure.cause == ErrorCode::peer_lost) return ErrorCode::peer_lost;
      return failure.cause == ErrorCode::mismatch ? ErrorCode::mismatch : ErrorCode::peer_failed;
    case Kind::timeout:
    case Kind::none: break;
  }
  return ErrorCode::timeout;
}

int Diagnosis::culprit(int rank) const {
  // A rank that waits for one that waits is not to blame.
  if (kind == Kind::timeout && !absent.empty()) return absent.front();
  if (kind != Kind::failure) return blocked.peer;
  // Who is blamed by a peer blames that peer.
  return failure.died || failure.blamed < 0 || failure.blamed == rank ? failure.rank : failure.blamed;
}

std::string words_of(Loss loss, std::chrono::milliseconds silence) {
  switch (loss) {
    case Loss::ended: return " has ended";
    case Loss::reset: return " has ended, or the network has reset its connection";
    case Loss::unreachable: return " cannot be reached any more: the network has given its connection up";
    case Loss::silent: break;
  }
  return " has been silent for " + rendezvous::in_words(silence) +
         ": it is stopped, its host is down or the network is cut (TUTTI_SILENCE_MS sets how long is too long)";
}

std::string words_of(const Blocked& blocked, const schedule::Program* program) {
  const std::string peer = blocked.peer < 0 ? "any rank" : rank_name(blocked.peer);
  std::string where = "waits for ";
  if (program != nullptr && blocked.lane < program->lanes.size()) {
    where = "lane '" + program->lanes[blocked.lane].name + "' step " + std::to_string(blocked.step) + " segment " +
            std::to_string(blocked.segment) + " of '" + program->algorithm + "' waits for ";
  }
  switch (blocked.on) {
    case Blocked::On::nothing: return "nothing is missing";
    case Blocked::On::entry: return peer + " has not made this call";
    case Blocked::On::retirement: return peer + " has not finished an earlier call";
    case Blocked::On::progress: return where + "progress of " + peer;
    case Blocked::On::message: return where + "a message from " + peer;
    case Blocked::On::device:
      return "waits for the work of the stream it was given, a copy between device and host, or the rank that launches";
    case Blocked::On::credit: return where + peer + " to take a message";
  }
  return {};
}

}  // namespace tutti::engine
