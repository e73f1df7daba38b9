// What travels on control links: beats, which go no further than a neighbour, and news, which go through all ranks.
//
// News carry the rank that tells them and a number that it counts up. Links keep their order and everybody passes news
// on in the order in which they came, so news of one rank reach each other rank in order, and news that answer others
// never overtake them: the last number heard of a rank tells what is new of it.
#pragma once

#include <cstdint>
#include <optional>

#include "base/control.h"
#include "rendezvous/wire.h"

namespace tutti::rendezvous {

using GroupNumber = std::uint64_t;

struct News {
  // Values travel; 1 is the beat's.
  enum class Kind : std::uint8_t {
    goodbye = 2,    // `rank` has left in good order, as it says itself or as the origin must believe
    loss = 3,       // `rank` is lost, as the origin found
    abort = 4,      // the origin gives `group` up
    leave = 5,      // the origin leaves `group` in good order
    statement = 6,  // what the origin is in, in `group` on `channel`
  };

  Kind kind = Kind::goodbye;
  int origin = 0;
  std::uint64_t number = 0;
  GroupNumber group = 0;
  int rank = -1;  // goodbye: who has left; loss: who was lost; abort: whom the origin blames, or -1
  Loss loss = Loss::ended;
  ErrorCode cause = ErrorCode::aborted;
  bool left = false;  // abort: whom it blames had left in good order
  std::uint32_t channel = 0;
  Statement statement = {};
};

inline constexpr std::size_t kMostControlBytes = 64;  // of a frame's body

Bytes beat_frame();
bool is_beat(const Frame& frame);
Bytes frame_of(const News& news);
// Nothing where it is no news among `size` ranks.
std::optional<News> decode_news(const Frame& frame, int size);

}  // namespace tutti::rendezvous
