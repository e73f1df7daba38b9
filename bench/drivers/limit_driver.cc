// limit_driver: the hand-written minimum of each verb, as ranks that `tutti bench` measures.
//
// Shared memory is mapped once and inherited by forked ranks, so that every rank's buffers have one address in all.
#include <sys/mman.h>
#include <sys/wait.h>

#include "drivers/limit.h"
#include "tools/bench/driver/serve.h"

namespace tutti::bench {
namespace {

constexpr std::size_t kHead = 64 << 10;
static_assert(sizeof(LimitShared) <= kHead);

// Flags, the stages of Reach, then the buffers of each rank.
struct Region {
  std::byte* base;
  std::uint64_t bytes_per_rank;

  LimitShared* shared() const { return reinterpret_cast<LimitShared*>(base); }
  float* stage(int rank) const {
    return reinterpret_cast<float*>(base + kHead + static_cast<std::size_t>(rank) * Reach::kStageBytes);
  }
  std::byte* buffers(int rank) const {
    return base + kHead + 2 * Reach::kStageBytes + static_cast<std::uint64_t>(rank) * bytes_per_rank;
  }
};

Region map_region(int ranks, std::uint64_t bytes_per_rank) {
  const std::uint64_t bytes = kHead + 2 * Reach::kStageBytes + static_cast<std::uint64_t>(ranks) * bytes_per_rank;
  void* const base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) throw std::bad_alloc();
  return {static_cast<std::byte*>(base), bytes_per_rank};
}

class ByHand {
 public:
  ByHand(const Region& region, int rank, int ranks, bool yields)
      : region_(region),
        rank_(rank),
        ranks_(ranks),
        limit_(region.shared(), ranks, rank, yields),
        reach_(region.shared(), stages_, rank) {}

  static std::string about() { return "written by hand"; }

  std::string prepare(const Seat& seat) {
    seat_ = seat;
    const Cell& cell = seat.cell;
    const bool copies_only = !is_reduction(cell.verb);
    if (copies_only ? size_of(cell.type) % sizeof(float) != 0 : cell.type != DType::float32) return "float32 only";
    if (!copies_only && cell.op != ReduceOp::sum) return "sums only";
    if (cell.copies != 1) return "one set of buffers only";
    if (!cell.algorithm.empty()) return "has no algorithms";
    if (cell.verb == Verb::all_to_all && cell.in_place) return "not in place";
    const bool reach = cell.verb == Verb::all_reduce && ranks_ == 2 && !cell.in_place;
    if (!cell.symmetric && !reach) return "ordinary buffers only for all_reduce of two ranks, apart";
    count_ = cell.count * size_of(cell.type) / sizeof(float);
    for (int peer = 0; peer < ranks_; ++peer) {
      const Buffers there = Layout({cell, peer, ranks_}).copy(region_.buffers(peer), 0);
      at_.inputs[peer] = reinterpret_cast<float*>(there.input);
      at_.outputs[peer] = reinterpret_cast<float*>(there.output);
    }
    return "";
  }

  std::byte* memory(const Seat& seat, std::size_t, std::uint64_t bytes) {
    if (!seat.cell.symmetric) return ordinary_.at_least(bytes);
    if (bytes > region_.bytes_per_rank) throw std::runtime_error("more memory is asked for than was announced");
    return region_.buffers(rank_);
  }

  void call(const Buffers& buffers) {
    if (!seat_.cell.symmetric) {
      const std::size_t segment = std::min(count_, Reach::kSegmentBytes / sizeof(float));
      reach_.all_reduce(reinterpret_cast<const float*>(buffers.input), reinterpret_cast<float*>(buffers.output), count_,
                        segment);
      return;
    }
    const int root = seat_.cell.root;
    switch (seat_.cell.verb) {
      case Verb::all_reduce: return limit_.all_reduce(at_, count_);
      case Verb::broadcast: return limit_.broadcast(at_, count_, root);
      case Verb::reduce: return limit_.reduce(at_, count_, root);
      case Verb::scatter: return limit_.scatter(at_, count_, root);
      case Verb::gather: return limit_.gather(at_, count_, root);
      case Verb::all_gather: return limit_.all_gather(at_, count_);
      case Verb::reduce_scatter: return limit_.reduce_scatter(at_, count_);
      case Verb::all_to_all: return limit_.all_to_all(at_, count_);
      case Verb::send_recv: return limit_.send_recv(at_, count_);
      case Verb::scan: return limit_.scan(at_, count_, false);
      case Verb::exclusive_scan: return limit_.scan(at_, count_, true);
      case Verb::barrier: return limit_.barrier();
    }
  }

  void barrier() { limit_.barrier(); }
  std::string algorithm() const { return seat_.cell.symmetric ? "limit" : "reach"; }

 private:
  Region region_;
  int rank_, ranks_;
  float* stages_[2] = {region_.stage(0), region_.stage(1)};
  Limit limit_;
  Reach reach_;
  Seat seat_;
  LimitBuffers at_{};
  std::size_t count_ = 0;
  OwnMemory ordinary_;
};

int run() {
  const int ranks = number_in(kRanksVariable);
  if (ranks > kLimitMaxRanks) throw std::runtime_error("at most " + std::to_string(kLimitMaxRanks) + " ranks");
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const bool known = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  const bool yields = !known || ranks > CPU_COUNT(&allowed);
  const Region region = map_region(ranks, std::stoull(variable(kBytesVariable)));
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t pid = ::fork();
    if (pid < 0) throw std::runtime_error("cannot start a process");
    if (pid != 0) continue;
    take_place(rank);
    ByHand by_hand(region, rank, ranks, yields);
    ::_exit(serve(by_hand, rank, ranks));
  }
  int status = 0, failed = 0;
  while (::wait(&status) > 0) failed |= status;
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tutti::bench

int main() {
  try {
    return tutti::bench::run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
