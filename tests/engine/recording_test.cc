// A communicator that records: the calls of all its ranks, blocking ones by the caller's thread and others by the
// progress thread, step by step and without a gap.
#include "trace/recording.h"

#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "check.h"
#include "engine/factory.h"
#include "trace/folder.h"

namespace tutti::engine {
namespace {

constexpr int kRanks = 3;
constexpr std::uint64_t kCommunicator = 9, kCalls = 12;

// Calls of one step and of many, by turns blocking and not.
void make_calls(Engine& engine) {
  for (std::uint64_t call = 0; call < kCalls; ++call) {
    std::vector<float> data(call % 3 == 0 ? 1 : 40'000, 1.0f);
    const Request request = testing::all_reduce_of(data.data(), data.data(), data.size(), DType::float32);
    if (call % 2 == 0) {
      engine.run(request);
    } else {
      engine.async_calls().wait(*engine.submit(request));
    }
    testing::require(data.back() == kRanks, "the result");
  }
}

void expect_every_step(const trace::Recording& recording) {
  ASSERT_EQ(recording.lost(), 0u);
  struct Place {
    std::uint64_t segment = 0;
    std::uint32_t step = 0;
  };
  std::map<std::pair<std::uint64_t, std::uint32_t>, Place> last;  // by call and lane
  std::map<std::uint64_t, std::uint64_t> calls;
  for (const trace::TraceEvent& event : recording.events) {
    EXPECT_EQ(event.communicator, kCommunicator);
    EXPECT_LE(recording.facts.steady_ns, event.begin_ns);
    EXPECT_LE(event.begin_ns, event.end_ns);
    EXPECT_LT(event.peer, kRanks);
    EXPECT_NE(event.peer, recording.facts.rank);
    ++calls[event.sequence];
    const auto [place, first] = last.try_emplace({event.sequence, event.lane});
    Place& before = place->second;
    const bool begins = event.step == 0 && event.segment == (first ? 0 : before.segment + 1);
    const bool follows = !first && event.segment == before.segment && event.step == before.step + 1;
    EXPECT_TRUE(begins || follows) << "call " << event.sequence << ", lane " << event.lane << ", step " << event.step;
    before = {event.segment, event.step};
  }
  EXPECT_EQ(calls.size(), kCalls);
  EXPECT_EQ(calls.begin()->first, 0u);
  EXPECT_EQ(calls.rbegin()->first, kCalls - 1);
}

TEST(Recording, OfACommunicatorHasEveryStepOfItsCalls) {
  const testing::Folder folder;
  auto mappers = make_threads_group(kRanks);
  std::vector<std::thread> threads;
  std::vector<std::string> words(kRanks);
  for (std::size_t rank = 0; rank < mappers.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const auto engine = make_engine(std::move(mappers[rank]), Options(), Deadline::after(std::chrono::seconds(60)));
        trace::Recorder recorder(folder.path(), static_cast<int>(rank), kRanks);
        engine->record_to(&recorder, kCommunicator);
        make_calls(*engine);
        engine->record_to(nullptr, 0);
        make_calls(*engine);
      } catch (const std::exception& error) {
        words[rank] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_EQ(words[static_cast<std::size_t>(rank)], "");
    expect_every_step(trace::read_recording(trace::ring_path(folder.path(), rank)));
  }
}

}  // namespace
}  // namespace tutti::engine
