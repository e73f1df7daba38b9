#include "transport/threads/threads_mapper.h"

#include <sys/mman.h>

#include <map>
#include <mutex>

#include "base/system_error.h"

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
  explicit Table(int ranks) : ranks_(ranks) {}

  Mapping get(std::uint64_t number, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[number];
    if (entry.taken == 0) entry.mapping = map_anonymous(bytes);
    if (entry.mapping.bytes != bytes) {
      throw Error(ErrorCode::mismatch, "ranks asked for shared memory of " + std::to_string(entry.mapping.bytes) +
                                           " and " + std::to_string(bytes) + " bytes in the same call");
    }
    Mapping mapping = entry.mapping;
    if (++entry.taken == ranks_) entries_.erase(number);
    return mapping;
  }

  std::unique_ptr<Mapper> part(std::uint64_t key, int rank, int size) override;

 private:
  struct Entry {
    Mapping mapping;
    int taken = 0;
  };
  struct Part {
    std::shared_ptr<Table> table;
    int taken = 0;
  };
  int ranks_;
  std::mutex mutex_;
  std::map<std::uint64_t, Entry> entries_;
  std::map<std::uint64_t, Part> parts_;
};

class ThreadsMapper final : public Mapper {
 public:
  ThreadsMapper(std::shared_ptr<Table> table, int rank, int size)
      : table_(std::move(table)), rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Mapping map_shared(std::size_t bytes, const Deadline&) override { return table_->get(next_++, bytes); }
  bool ended(int) override { return false; }
  std::shared_ptr<Regrouping> regrouping() const override { return table_; }

 private:
  std::shared_ptr<Table> table_;
  int rank_;
  int size_;
  std::uint64_t next_ = 0;
};

std::unique_ptr<Mapper> Table::part(std::uint64_t key, int rank, int size) {
  const std::lock_guard lock(mutex_);
  Part& part = parts_[key];
  if (!part.table) part.table = std::make_shared<Table>(size);
  auto mapper = std::make_unique<ThreadsMapper>(part.table, rank, size);
  if (++part.taken == size) parts_.erase(key);
  return mapper;
}

}  // namespace

std::vector<std::unique_ptr<Mapper>> make_threads_mappers(int ranks) {
  auto table = std::make_shared<Table>(ranks);
  std::vector<std::unique_ptr<Mapper>> mappers;
  for (int rank = 0; rank < ranks; ++rank) mappers.push_back(std::make_unique<ThreadsMapper>(table, rank, ranks));
  return mappers;
}

}  // namespace tutti::transport
