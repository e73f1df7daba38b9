// What a communicator costs in memory: the bytes that its ranks map, and those that they touch (docs/performance.md).
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <barrier>
#include <thread>

#include "engine/engine.h"
#include "transport/memory/memory_transport.h"
#include "transport/threads/threads_mapper.h"

namespace tutti::transport {
namespace {

constexpr std::size_t kMega = 1 << 20, kKilo = 1 << 10;

// Notes what is asked for.
class Watched final : public Mapper {
 public:
  Watched(std::unique_ptr<Mapper> mapper, std::vector<Mapping>& asked) : mapper_(std::move(mapper)), view_(&asked) {}
  int rank() const override { return mapper_->rank(); }
  int size() const override { return mapper_->size(); }
  int known_as(int rank) const override { return mapper_->known_as(rank); }
  Mapping map_shared(std::size_t bytes, const Deadline& deadline) override {
    view_->push_back(mapper_->map_shared(bytes, deadline));
    return view_->back();
  }
  bool ended(int peer) override { return mapper_->ended(peer); }
  std::shared_ptr<Doorbells> doorbells() const override { return mapper_->doorbells(); }
  int doorbell_of(int rank) const override { return mapper_->doorbell_of(rank); }
  std::shared_ptr<Regrouping> regrouping() const override { return mapper_->regrouping(); }

 private:
  std::unique_ptr<Mapper> mapper_;
  std::vector<Mapping>* view_;
};

std::size_t touched_bytes(const Mapping& mapping) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> there((mapping.bytes + page - 1) / page);
  EXPECT_EQ(::mincore(mapping.base.get(), mapping.bytes, there.data()), 0);
  std::size_t bytes = 0;
  for (const unsigned char each : there) bytes += (each & 1) * page;
  return bytes;
}

struct Footprint {
  std::size_t mapped = 0, touched = 0;  // of the whole group
};

// A group as a communicator makes it, before its first call.
Footprint footprint_of(int ranks) {
  auto mappers = make_threads_mappers(ranks);
  std::vector<std::vector<Mapping>> asked(mappers.size());
  Footprint footprint;
  std::barrier made(ranks), seen(ranks);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < mappers.size(); ++rank) {
    threads.emplace_back([&, rank] {
      const MemoryTransport transport(std::make_unique<Watched>(std::move(mappers[rank]), asked[rank]),
                                      engine::Engine::kTracks + 1, Deadline::after(std::chrono::seconds(60)));
      made.arrive_and_wait();
      for (const Mapping& mapping : asked[rank]) {
        if (rank != 0) continue;  // all see the same
        footprint.mapped += mapping.bytes;
        footprint.touched += touched_bytes(mapping);
      }
      seen.arrive_and_wait();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return footprint;
}

TEST(Footprint, StaysWithinWhatIsDocumented) {
  for (const int ranks : {2, 4, 8, 16, 64}) {
    const Footprint footprint = footprint_of(ranks);
    const auto each = static_cast<std::size_t>(ranks);
    ASSERT_GT(footprint.mapped, 0U);
    EXPECT_LE(footprint.mapped / each, (ranks <= 16 ? 16 : 32) * kMega) << ranks << " ranks";
    EXPECT_GT(footprint.touched, 0U);
    EXPECT_LE(footprint.touched / each, 64 * kKilo) << ranks << " ranks: what no call has used costs nothing";
    RecordProperty("mapped_per_rank_of_" + std::to_string(ranks), std::to_string(footprint.mapped / each));
    RecordProperty("touched_per_rank_of_" + std::to_string(ranks), std::to_string(footprint.touched / each));
  }
}

TEST(Footprint, TouchedIsWhatWasWritten) {
  const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  auto mappers = make_threads_mappers(1);
  const Mapping mapping = mappers[0]->map_shared(100 * page, Deadline::after(std::chrono::seconds(1)));
  EXPECT_EQ(touched_bytes(mapping), 0U);
  static_cast<char*>(mapping.base.get())[50 * page] = 1;
  EXPECT_EQ(touched_bytes(mapping), page);
}

}  // namespace
}  // namespace tutti::transport
