#include "backend/pool.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tutti::pytorch {

Pool::Pool(std::shared_ptr<void> memory, std::size_t bytes) : memory_(std::move(memory)), free_{{0, bytes}} {}

std::shared_ptr<void> Pool::take(std::size_t bytes) {
  const std::size_t wanted = (std::max<std::size_t>(bytes, 1) + 63) / 64 * 64;
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(free_.begin(), free_.end(), [&](const auto& gap) { return gap.second >= wanted; });
  if (found == free_.end()) return nullptr;
  const auto [at, room] = *found;
  free_.erase(found);
  if (room > wanted) free_.emplace(at + wanted, room - wanted);
  return {static_cast<char*>(memory_.get()) + at,
          [pool = shared_from_this(), at = at, wanted](void*) { pool->give_back(at, wanted); }};
}

void Pool::give_back(std::size_t at, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto made = free_.emplace(at, bytes).first;
  if (const auto next = std::next(made); next != free_.end() && at + bytes == next->first) {
    made->second += next->second;
    free_.erase(next);
  }
  if (made == free_.begin()) return;
  const auto before = std::prev(made);
  if (before->first + before->second != at) return;
  before->second += made->second;
  free_.erase(made);
}

}  // namespace tutti::pytorch
