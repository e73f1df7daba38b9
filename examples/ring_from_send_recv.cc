// A ring all_reduce written by hand from messages. The vector is cut into one chunk per rank; every chunk goes round
// the ring twice: once to be summed, once to be handed to everybody. Integers add up exactly in any order, so that the
// result must equal comm.all_reduce to the last bit.
//
//   tutti run -n 4 -- build/bin/ring_from_send_recv
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <tutti/tutti.hpp>
#include <vector>

namespace {

using Numbers = std::vector<std::int64_t>;

void ring_all_reduce(tutti::Communicator& comm, std::span<std::int64_t> data) {
  const int ranks = comm.size(), me = comm.rank();
  const int right = (me + 1) % ranks, left = (me + ranks - 1) % ranks;
  const auto chunk = [&](int number) {
    const auto c = static_cast<std::size_t>((number % ranks + ranks) % ranks), p = static_cast<std::size_t>(ranks);
    const std::size_t from = data.size() * c / p;
    return data.subspan(from, data.size() * (c + 1) / p - from);
  };
  // Each step passes a sum on and adds the own numbers to the one that comes. Here with send_recv: both at once.
  for (int step = 0; step < ranks - 1; ++step) {
    const auto mine = chunk(me - step - 1);
    Numbers coming(mine.size());
    comm.send_recv(chunk(me - step), right, coming, left);
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] += coming[i];
  }
  // Now this rank has the whole sum of chunk me + 1. Here with a Batch, which may hold any number of messages.
  for (int step = 0; step < ranks - 1; ++step) {
    tutti::Batch batch(comm);
    batch.send(chunk(me + 1 - step), right).recv(chunk(me - step), left);
    batch.run();
  }
}

int run(tutti::Communicator comm) {
  constexpr std::size_t kNumbers = 1'000'003;
  Numbers by_hand(kNumbers);
  for (std::size_t i = 0; i < kNumbers; ++i) by_hand[i] = static_cast<std::int64_t>(i) * (comm.rank() + 1) - 7;
  Numbers by_tutti = by_hand;

  ring_all_reduce(comm, by_hand);
  comm.all_reduce(by_tutti);

  const bool same = by_hand == by_tutti;
  if (comm.rank() == 0) {
    std::printf("ranks: %d, numbers: %zu, the ring by hand %s comm.all_reduce\n", comm.size(), kNumbers,
                same ? "equals" : "differs from");
  }
  return same ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run(tutti::init());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
