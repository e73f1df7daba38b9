#include "engine/lockstep.h"

#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>

#include "check.h"
#include "transport/harness.h"
#include "transport/memory/memory_transport.h"
#include "transport/threads/threads_mapper.h"

namespace tutti::testing {
namespace {

// More than one advance of a rank is ever good for.
constexpr trace::RingShape kShape{.events = 1 << 14, .names = 1, .communicators = 1, .members = 1};

std::shared_ptr<std::byte> make_ring() {
  const std::size_t bytes = trace::ring_bytes(kShape);
  void* const memory = std::aligned_alloc(alignof(trace::RingHeader), bytes);
  std::memset(memory, 0, bytes);
  return {static_cast<std::byte*>(memory), std::free};
}

}  // namespace

// A group is made by all its ranks at once.
Lockstep::Lockstep(int ranks)
    : ranks_(static_cast<std::size_t>(ranks)), inputs_(ranks_.size()), outputs_(ranks_.size()) {
  auto mappers = transport::make_threads_mappers(ranks);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    threads.emplace_back([&, rank] {
      ranks_[rank].transport =
          std::make_unique<transport::MemoryTransport>(std::move(mappers[rank]), kChannels, soon());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int rank = 0; rank < ranks; ++rank) {
    Rank& mine = at(rank);
    mine.ring = make_ring();
    mine.recorder = std::make_unique<trace::Recorder>(mine.ring, trace::RingFacts{.rank = rank, .size = ranks}, kShape);
    mine.group = {mine.recorder.get(), kCommunicator, true};
    mine.operation = std::make_unique<engine::Operation>(*mine.transport);
  }
}

void Lockstep::start(std::span<const schedule::Lowered> programs, int landing_plane,
                     std::span<const engine::Binding> bindings) {
  ++epoch_;
  std::vector<int> members(ranks_.size());
  std::iota(members.begin(), members.end(), 0);
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    inputs_[rank] = const_cast<std::byte*>(bindings[rank].input);
    outputs_[rank] = bindings[rank].output;
  }
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    Rank& mine = ranks_[rank];
    mine.plan =
        std::make_unique<engine::Plan>(programs[rank], *mine.transport, engine::PlanChannel{}, members, landing_plane);
    mine.binding = bindings[rank];
    mine.binding.epoch = mine.binding.fingerprint = mine.binding.sequence = epoch_;
    mine.binding.recorder = &mine.group;
    mine.binding.input_windows = inputs_.data();
    mine.binding.output_windows = outputs_.data();
    mine.operation->start(*mine.plan, mine.binding);
  }
}

Lockstep::Advanced Lockstep::advance(int rank) {
  Rank& mine = at(rank);
  const engine::Advance outcome = mine.operation->advance();
  trace::Recording recording = trace::read_recording({mine.ring.get(), trace::ring_bytes(kShape)}, mine.seen);
  require(recording.lost() == 0, "the ring of a rank is too small for one advance");
  mine.seen = recording.written;
  return {outcome, std::move(recording.events)};
}

}  // namespace tutti::testing
