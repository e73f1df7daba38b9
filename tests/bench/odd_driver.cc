// odd_driver: a peer that does what TUTTI_ODD says, in the second cell: hang, die, babble, fail, wrong; or early, which
// is to end before saying hello, and fine, which is to do nothing at all and be quick about it.
#include "tools/bench/driver/serve.h"

namespace {

using namespace tutti::bench;

class Odd {
 public:
  static std::string about() { return "a driver that misbehaves"; }

  std::string prepare(const Seat& seat) {
    if (seat.cell.symmetric) return "has no symmetric memory";
    seat_ = seat;
    return "";
  }
  std::byte* memory(const Seat&, std::size_t, std::uint64_t bytes) { return memory_.at_least(bytes); }

  void call(const Buffers& buffers) {
    const bool now = seat_.cell.count > 2;
    if (now && how_ == "hang") {
      for (;;) ::pause();
    }
    if (now && how_ == "die") std::_Exit(3);
    if (now && how_ == "fail") throw std::runtime_error("the network is on fire");
    if (how_ == "wrong") return;
    for (const Expected& part : expected_of(seat_)) {
      fill_with(tile_of(seat_.cell, seat_.ranks, part.phase, part.first, part.last),
                buffers.output + part.begin * size_of(seat_.cell.type), part.count * size_of(seat_.cell.type));
    }
  }
  static void barrier() {}
  std::string algorithm() const { return seat_.cell.count > 2 && how_ == "babble" ? "a b\nc" : "magic"; }

 private:
  std::string how_ = variable("TUTTI_ODD");
  Seat seat_;
  OwnMemory memory_;
};

}  // namespace

int main() {
  if (variable("TUTTI_ODD") == "early") {
    std::fputs("no such device\n", stderr);
    return 4;
  }
  Odd odd;
  return serve(odd, number_in(kRankVariable), number_in(kRanksVariable));
}
