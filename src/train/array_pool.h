// Memory that is used again: pieces whose last user has let go of them.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <new>
#include <vector>

namespace tutti::train {

class ArrayPool {
 public:
  // Aligned to 64 bytes; what is in it is anything.
  std::shared_ptr<void> take(std::size_t bytes) {
    for (const std::shared_ptr<void>& piece : pieces_[bytes]) {
      if (piece.use_count() > 1) continue;
      std::atomic_thread_fence(std::memory_order_acquire);  // behind the last user, on whichever thread
      return piece;
    }
    constexpr std::align_val_t kAlignment{64};
    void* const memory = ::operator new(bytes == 0 ? 1 : bytes, kAlignment);
    pieces_[bytes].emplace_back(memory, [](void* piece) { ::operator delete (piece, std::align_val_t{64}); });
    return pieces_[bytes].back();
  }

 private:
  std::map<std::size_t, std::vector<std::shared_ptr<void>>> pieces_;  // by size
};

}  // namespace tutti::train
