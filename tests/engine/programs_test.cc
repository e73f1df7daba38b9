// Every program of the table, run by the executor and held against a naive reference, bit for bit: over slots, over
// streams through memory, over TCP and over two hosts; all roots, odd counts, many segments, in place and not.
#include <gtest/gtest.h>

#include "engine/executor.h"
#include "engine/program_case.h"

namespace tutti {
namespace {

using schedule::Algorithm;
using testing::Executor;
using testing::ProgramCase;
using testing::Way;

void run_case(Executor& executor, const Offers& offers, const ProgramCase& c) {
  testing::CaseBuffers buffers(c, executor.rank());
  executor.run(c.row, offers, c.root, buffers.binding());
  buffers.require_right();
}

class Programs : public ::testing::TestWithParam<std::tuple<Way, int>> {};

TEST_P(Programs, AgreeWithTheReferenceBitForBit) {
  const auto [way, ranks] = GetParam();
  testing::execute(way, ranks, [way = way, ranks = ranks](Executor& executor) {
    for (const std::uint64_t segment_bytes : {4096u, 256u << 10}) {
      const Offers offers = testing::offers_over(way, executor.transport(), segment_bytes);
      for (const Algorithm& row : schedule::algorithms()) {
        if (!testing::runs_over(row, way, ranks)) continue;
        for (const int root : testing::roots_of(row, ranks)) {
          for (const std::size_t count : {0u, 1u, 17u, 1003u, 9001u}) {
            run_case(executor, offers, {row, ranks, root, count, false, offers.hosts});
            if (schedule::runs_in_place(row)) run_case(executor, offers, {row, ranks, root, count, true, offers.hosts});
          }
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Programs,
                         ::testing::Combine(::testing::ValuesIn(testing::kEveryWay),
                                            ::testing::Values(1, 2, 3, 4, 5, 7, 8)),
                         [](const auto& test) {
                           return testing::name_of(std::get<0>(test.param)) + "_" +
                                  std::to_string(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace tutti
