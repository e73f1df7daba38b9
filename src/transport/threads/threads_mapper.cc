#include "transport/threads/threads_mapper.h"

#include <sys/mman.h>

#include <map>
#include <mutex>
#include <numeric>

#include "base/system_error.h"
#include "transport/memory/bells.h"

namespace tutti::transport {
namespace {

Mapping map_anonymous(std::size_t bytes) {
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) throw_errno("cannot map " + std::to_string(bytes) + " bytes");
  return {std::shared_ptr<void>(base, [bytes](void* memory) { ::munmap(memory, bytes); }), bytes};
}

// The n-th mapping that a rank asks for is the same memory for all: the first to ask makes it, the last to ask takes
// it off the table. Tables of smaller groups likewise; what a failed rank never asks for goes with the table.
class Table final : public Regrouping {
 public:
  // `bell_of`: by rank.
  Table(std::shared_ptr<Doorbells> bells, std::vector<int> bell_of)
      : bells_(std::move(bells)), bell_of_(std::move(bell_of)) {}

  int size() const { return static_cast<int>(bell_of_.size()); }
  const std::shared_ptr<Doorbells>& doorbells() const { return bells_; }
  int doorbell_of(int rank) const { return bell_of_[static_cast<std::size_t>(rank)]; }

  Mapping get(std::uint64_t number, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[number];
    if (entry.taken == 0) entry.mapping = map_anonymous(bytes);
    if (entry.mapping.bytes != bytes) {
      throw Error(ErrorCode::mismatch, "ranks asked for shared memory of " + std::to_string(entry.mapping.bytes) +
                                           " and " + std::to_string(bytes) + " bytes in the same call");
    }
    Mapping mapping = entry.mapping;
    if (++entry.taken == size()) entries_.erase(number);
    return mapping;
  }

  std::uint64_t make_place(std::size_t, int) override {
    const std::lock_guard lock(mutex_);
    return places_++;
  }
  std::unique_ptr<Mapper> part(std::uint64_t place, const std::vector<int>& members, int rank,
                               const std::vector<int>& known_as) override;

 private:
  struct Entry {
    Mapping mapping;
    int taken = 0;
  };
  struct Part {
    std::shared_ptr<Table> table;
    int taken = 0;
  };

  std::shared_ptr<Doorbells> bells_;
  std::vector<int> bell_of_;
  std::mutex mutex_;
  std::map<std::uint64_t, Entry> entries_;
  std::map<std::uint64_t, Part> parts_;
  std::uint64_t places_ = 0;
};

class ThreadsMapper final : public Mapper {
 public:
  ThreadsMapper(std::shared_ptr<Table> table, int rank) : table_(std::move(table)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return table_->size(); }
  Mapping map_shared(std::size_t bytes, const Deadline&) override { return table_->get(next_++, bytes); }
  bool ended(int) override { return false; }
  std::shared_ptr<Doorbells> doorbells() const override { return table_->doorbells(); }
  int doorbell_of(int rank) const override { return table_->doorbell_of(rank); }
  std::shared_ptr<Regrouping> regrouping() const override { return table_; }

 private:
  std::shared_ptr<Table> table_;
  int rank_;
  std::uint64_t next_ = 0;
};

// Threads end with their process: nobody will have to be named.
std::unique_ptr<Mapper> Table::part(std::uint64_t place, const std::vector<int>& members, int rank,
                                    const std::vector<int>&) {
  const std::lock_guard lock(mutex_);
  Part& part = parts_[place];
  if (!part.table) {
    std::vector<int> bell_of;
    for (const int member : members) bell_of.push_back(doorbell_of(member));
    part.table = std::make_shared<Table>(bells_, std::move(bell_of));
  }
  auto mapper = std::make_unique<ThreadsMapper>(part.table, rank);
  if (++part.taken == static_cast<int>(members.size())) parts_.erase(place);
  return mapper;
}

}  // namespace

std::vector<std::unique_ptr<Mapper>> make_threads_mappers(int ranks) {
  const auto memory = map_anonymous(sizeof(Doorbells)).base;
  const std::shared_ptr<Doorbells> bells(memory, static_cast<Doorbells*>(memory.get()));
  Bells::register_process(*bells);
  std::vector<int> bell_of(static_cast<std::size_t>(ranks));
  std::iota(bell_of.begin(), bell_of.end(), 0);
  const auto table = std::make_shared<Table>(bells, std::move(bell_of));
  std::vector<std::unique_ptr<Mapper>> mappers;
  for (int rank = 0; rank < ranks; ++rank) mappers.push_back(std::make_unique<ThreadsMapper>(table, rank));
  return mappers;
}

}  // namespace tutti::transport
