#include "transport/shm/shm_mapper.h"

#include <sched.h>

#include <algorithm>
#include <numeric>

#include "base/interrupt.h"
#include "tutti/error.h"

namespace tutti::transport {
namespace {

// Where the first block of a group is its ranks know; of the later ones the first rank tells the others, in a word of
// the first block.
class ShmMapper final : public Mapper {
 public:
  enum class Group : std::uint8_t { all, some };  // of the ranks of the heap

  // `members`: the heap's ranks, by rank.
  ShmMapper(Group group, std::shared_ptr<SharedHeap> heap, std::vector<int> members, int rank, std::uint64_t block,
            std::vector<int> known_as)
      : group_(group),
        heap_(std::move(heap)),
        members_(std::move(members)),
        rank_(rank),
        first_block_(block),
        known_as_(std::move(known_as)) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  int known_as(int rank) const override { return known_as_.empty() ? rank : known_as_[static_cast<std::size_t>(rank)]; }
  bool ended(int peer) override { return heap_->ended(member(peer)); }
  std::shared_ptr<Doorbells> doorbells() const override { return heap_->doorbells(); }
  int doorbell_of(int rank) const override { return member(rank); }
  std::shared_ptr<Regrouping> regrouping() const override;
  Mapping map_shared(std::size_t bytes, const Deadline& deadline) override;

 private:
  int member(int rank) const { return members_[static_cast<std::size_t>(rank)]; }
  std::string name_of(int rank) const { return "rank " + std::to_string(known_as(rank)); }
  BlockHeader& header() const { return SharedHeap::header_of(first_); }
  std::uint64_t post(std::size_t bytes, const Deadline& deadline);
  std::uint64_t take(const Deadline& deadline);
  // `whom`: who is the one to bring the word there, or -1.
  void await(const std::atomic<std::uint64_t>& word, std::uint64_t value, int whom, const Deadline& deadline) const;

  Group group_;
  std::shared_ptr<SharedHeap> heap_;
  std::vector<int> members_;
  int rank_;
  std::uint64_t first_block_;
  std::vector<int> known_as_;
  Mapping first_;
  std::uint64_t posts_ = 0;  // of later blocks, so far
};

Mapping ShmMapper::map_shared(std::size_t bytes, const Deadline& deadline) {
  if (!first_.base) {
    // No other rank has to wait for it: the place is known, and zero before anybody comes.
    if (group_ == Group::all && rank_ == 0) heap_->make_block(bytes, size());
    return first_ = heap_->map_block(first_block_, bytes);
  }
  ++posts_;
  const Mapping mapping = heap_->map_block(rank_ == 0 ? post(bytes, deadline) : take(deadline), bytes);
  const std::uint64_t made = SharedHeap::header_of(mapping).bytes.load(std::memory_order_relaxed);
  if (made == bytes) return mapping;
  throw Error(ErrorCode::mismatch,
              name_of(0) + " asked for shared memory of " + std::to_string(made) + " bytes and " + name_of(rank_) +
                  " for " + std::to_string(bytes) + " in the same call",
              known_as(0));
}

std::uint64_t ShmMapper::post(std::size_t bytes, const Deadline& deadline) {
  await(header().taken, (posts_ - 1) * (members_.size() - 1), -1, deadline);  // all have read what was posted before
  const auto tell = [&](std::uint64_t block) {
    header().posted_block.store(block, std::memory_order_relaxed);
    header().posted.store(posts_, std::memory_order_release);
    return block;
  };
  try {
    return tell(heap_->make_block(bytes, size()));
  } catch (const Error&) {
    tell(0);
    throw;
  }
}

std::uint64_t ShmMapper::take(const Deadline& deadline) {
  await(header().posted, posts_, 0, deadline);
  const std::uint64_t block = header().posted_block.load(std::memory_order_relaxed);
  header().taken.fetch_add(1, std::memory_order_release);
  if (block == 0) throw Error(ErrorCode::system, name_of(0) + " could not get the shared memory", known_as(0));
  return block;
}

void ShmMapper::await(const std::atomic<std::uint64_t>& word, std::uint64_t value, int whom,
                      const Deadline& deadline) const {
  while (word.load(std::memory_order_acquire) < value) {
    throw_if_interrupted();
    if (whom >= 0 && heap_->ended(member(whom)) && word.load(std::memory_order_acquire) < value) {
      throw Error(ErrorCode::peer_lost, "receiving shared memory from " + name_of(whom) + ": it has ended",
                  known_as(whom));
    }
    if (deadline.passed()) {
      throw Error(ErrorCode::timeout, "shared memory: not all ranks asked for it before the deadline");
    }
    ::sched_yield();
  }
}

class ShmRegrouping final : public Regrouping {
 public:
  ShmRegrouping(std::shared_ptr<SharedHeap> heap, std::vector<int> members)
      : heap_(std::move(heap)), members_(std::move(members)) {}

  std::uint64_t make_place(std::size_t bytes, int size) override { return heap_->make_block(bytes, size); }

  std::unique_ptr<Mapper> part(std::uint64_t place, const std::vector<int>& members, int rank,
                               const std::vector<int>& known_as) override {
    std::vector<int> in_heap;
    for (const int member : members) in_heap.push_back(members_[static_cast<std::size_t>(member)]);
    return std::make_unique<ShmMapper>(ShmMapper::Group::some, heap_, std::move(in_heap), rank, place, known_as);
  }

 private:
  std::shared_ptr<SharedHeap> heap_;
  std::vector<int> members_;
};

std::shared_ptr<Regrouping> ShmMapper::regrouping() const { return std::make_shared<ShmRegrouping>(heap_, members_); }

}  // namespace

std::unique_ptr<Mapper> make_shm_mapper(ShmLinks links, const Deadline& deadline) {
  std::vector<int> known_as = links.known_as;
  const std::shared_ptr<SharedHeap> heap = SharedHeap::make(std::move(links), deadline);
  std::vector<int> members(static_cast<std::size_t>(heap->size()));
  std::iota(members.begin(), members.end(), 0);
  return std::make_unique<ShmMapper>(ShmMapper::Group::all, heap, std::move(members), heap->rank(), heap->first_block(),
                                     std::move(known_as));
}

}  // namespace tutti::transport
