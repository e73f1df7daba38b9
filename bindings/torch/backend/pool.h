// Symmetric memory for tensors that come and go: one allocation of the group, shared out by every rank for itself.
//
// Only the first request is collective. What does not fit later comes from elsewhere, so that no rank ever waits for
// others that have more room left. Pages that nobody has written take no memory.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

namespace tutti::pytorch {

class Pool : public std::enable_shared_from_this<Pool> {
 public:
  Pool(std::shared_ptr<void> memory, std::size_t bytes);

  // Aligned to 64 bytes; nothing where there is no room. The pool lives as long as what it gave.
  std::shared_ptr<void> take(std::size_t bytes);

 private:
  void give_back(std::size_t at, std::size_t bytes);

  const std::shared_ptr<void> memory_;
  std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_;  // bytes by place
};

}  // namespace tutti::pytorch
