// Programs run by the executor alone, over a bare transport: no communicator, no choice of algorithm.
//
// Ranks are threads that meet between calls, so that scratch and buffers are free again and each knows where the
// others' buffers lie; the transport carries what the program says and nothing else.
#pragma once

#include <barrier>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "check.h"
#include "engine/execute/operation.h"
#include "engine/execute/waiter.h"
#include "schedule/algorithms/lower_row.h"
#include "schedule/algorithms/table.h"
#include "transport/harness.h"

namespace tutti::testing {

// What programs are lowered to. X(name, kind of transport)
#define TUTTI_WAYS(X)                                                                     \
  X(slots, threads)               /* slots and windows of memory */                       \
  X(streams, threads)             /* byte streams through memory */                       \
  X(tcp, tcp_threads)             /* byte streams over TCP */                             \
  X(mixed, mixed_threads)         /* memory inside two hosts, byte streams across them */ \
  X(ucx, ucx_threads)             /* byte streams over UCX */                             \
  X(ucx_mixed, ucx_mixed_threads) /* memory inside two hosts, UCX across them */

enum class Way {
#define X(name, kind) name,
  TUTTI_WAYS(X)
#undef X
};
inline constexpr Way kEveryWay[] = {
#define X(name, kind) Way::name,
    TUTTI_WAYS(X)
#undef X
};
inline std::string name_of(Way way) {
  constexpr const char* kNames[] = {
#define X(name, kind) #name,
      TUTTI_WAYS(X)
#undef X
  };
  return kNames[static_cast<std::size_t>(way)];
}
constexpr Kind kind_of(Way way) {
  constexpr Kind kKindOf[] = {
#define X(name, kind) Kind::kind,
      TUTTI_WAYS(X)
#undef X
  };
  return kKindOf[static_cast<std::size_t>(way)];
}

inline void PrintTo(Way way, std::ostream* out) { *out << name_of(way); }

inline Offers offers_over(Way way, const transport::Transport& transport, std::uint64_t segment_bytes) {
  Offers offers = transport.offers();
  offers.segment_bytes = segment_bytes;
  offers.channels = kChannels;
  EdgeOffers& inside = offers.inside;
  if (way == Way::slots) inside.windows_to_user = true;  // of threads
  if (way == Way::streams) inside.operands_in_slots = inside.windows_to_scratch = inside.windows_to_user = false;
  return offers;
}

struct Group {
  explicit Group(int ranks)
      : meeting(ranks), inputs(static_cast<std::size_t>(ranks)), outputs(static_cast<std::size_t>(ranks)) {}

  std::barrier<> meeting;
  std::vector<std::byte*> inputs, outputs;  // by rank
};

class Executor {
 public:
  Executor(transport::Transport& transport, Group& group)
      : transport_(transport), group_(group), operation_(transport) {}

  int rank() const { return transport_.rank(); }
  int size() const { return transport_.size(); }
  transport::Transport& transport() { return transport_; }
  engine::Operation& operation() { return operation_; }

  // Binds and starts; collective. The plan lives until the next start.
  void start(const schedule::Algorithm& row, const Offers& offers, int root, engine::Binding binding) {
    const auto self = static_cast<std::size_t>(rank());
    group_.inputs[self] = const_cast<std::byte*>(binding.input);
    group_.outputs[self] = binding.output;
    std::vector<int> members;
    for (int member = 0; member < size(); ++member) members.push_back(member);
    schedule::Program program = row.generate({size(), rank(), root, offers.hosts});
    const int landing_plane = program.scratch_planes;
    plan_ = std::make_unique<engine::Plan>(schedule::lower(std::move(program), offers_of(row, offers)), transport_,
                                           engine::PlanChannel{}, members, landing_plane);
    binding.epoch = ++epoch_;
    if (binding.fingerprint == 0) binding.fingerprint = epoch_;
    binding.input_windows = group_.inputs.data();
    binding.output_windows = group_.outputs.data();
    group_.meeting.arrive_and_wait();
    binding_ = binding;
    operation_.start(*plan_, binding_);
  }

  // Runs a call to its end; collective.
  void run(const schedule::Algorithm& row, const Offers& offers, int root, const engine::Binding& binding) {
    start(row, offers, root, binding);
    engine::Waiter waiter(transport_, soon());
    const auto outcome = waiter.until_finished([&] { return operation_.advance(); }, [] { return false; });
    require(outcome == engine::Waiter::Outcome::finished,
            std::string(name_of(row.verb)) + " by " + std::string(row.name) + " is stuck");
    group_.meeting.arrive_and_wait();
  }

 private:
  // Programs that write again what they sent must not be read where it lies.
  static Offers offers_of(const schedule::Algorithm& row, Offers offers) {
    if (row.single_copy && offers.inside.single_copy) return schedule::offers_for(row, offers);
    offers.inside.single_copy = false;
    return offers;
  }

  transport::Transport& transport_;
  Group& group_;
  engine::Operation operation_;
  std::unique_ptr<engine::Plan> plan_;
  engine::Binding binding_;
  std::uint64_t epoch_ = 0;
};

// One thread per rank; what one throws fails the test, and nobody waits for it.
inline void execute(Way way, int ranks, const std::function<void(Executor&)>& body) {
  Group group(ranks);
  if (const std::string why = why_missing(kind_of(way)); !why.empty()) GTEST_SKIP() << why;
  const auto words = run_transport(kind_of(way), ranks, [&](transport::Transport& transport) {
    Executor executor(transport, group);
    try {
      body(executor);
    } catch (...) {
      group.meeting.arrive_and_drop();
      throw;
    }
  });
  for (std::size_t rank = 0; rank < words.size(); ++rank) EXPECT_EQ(words[rank], "") << "rank " << rank;
}

// Whether a row runs over what the way offers, and for this many ranks.
inline bool runs_over(const schedule::Algorithm& row, Way way, int ranks) {
  if ((row.verb == Verb::send_recv && ranks != 2) || !schedule::fits(row, ranks)) return false;
  return way == Way::slots || !(row.user_windows || row.scratch_windows);
}

}  // namespace tutti::testing
