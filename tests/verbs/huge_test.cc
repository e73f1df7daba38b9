// Counts beyond 2^31: every number on the way must be wide enough. Takes some 5 GB of memory.
#include <gtest/gtest.h>

#include "check.h"

namespace tutti {
namespace {

using testing::Ranks;
using testing::require;

constexpr std::size_t kCount = (std::size_t{1} << 31) + 5;

std::uint8_t value(std::size_t i, int rank) {
  return static_cast<std::uint8_t>((i * 0x9e3779b97f4a7c15ull >> 56) + static_cast<unsigned>(rank) * 3);
}

void fill(std::span<std::uint8_t> data, int rank) {
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = value(i, rank);
}

void check(std::span<const std::uint8_t> data, int rank, const char* what) {
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (data[i] != value(i, rank)) require(false, std::string(what) + ", element " + std::to_string(i));
  }
}

class Huge : public ::testing::TestWithParam<Ranks> {};

TEST_P(Huge, CountsReachEveryElement) {
  const auto body = [](Communicator& comm) {
    const int other = 1 - comm.rank();
    const std::size_t chunk = kCount / 2 + 1;
    std::vector<std::uint8_t> data(2 * chunk);
    const std::span<std::uint8_t> vector = std::span(data).first(kCount);

    fill(vector, comm.rank());
    comm.all_reduce(vector);
    for (std::size_t i = 0; i < kCount; ++i) {
      if (vector[i] != static_cast<std::uint8_t>(value(i, 0) + value(i, 1)))
        require(false, "all_reduce, element " + std::to_string(i));
    }

    if (comm.rank() == 1) fill(vector, 5);
    comm.broadcast(vector, 1);
    check(vector, 5, "broadcast");

    const std::span<std::uint8_t> own = std::span(data).subspan(comm.rank() == 0 ? 0 : chunk, chunk);
    fill(own, comm.rank());
    comm.all_gather(own, data);
    check(std::span(data).first(chunk), 0, "all_gather from 0");
    check(std::span(data).subspan(chunk), 1, "all_gather from 1");

    if (comm.rank() == 0) {
      fill(vector, 9);
      comm.send(vector, other);
    } else {
      require(comm.recv(vector, other).count == kCount, "the count of what was received");
      check(vector, 9, "recv");
    }
  };
  testing::expect_all_ok(testing::run_ranks(GetParam(), 2, body));
}

INSTANTIATE_TEST_SUITE_P(Transports, Huge, ::testing::ValuesIn(testing::kAllRanks),
                         [](const auto& test) { return testing::name_of(test.param); });

}  // namespace
}  // namespace tutti
