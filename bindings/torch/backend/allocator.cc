#include "backend/allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <utility>
#include <vector>

namespace tutti::pytorch {
namespace {

// Smaller ones gain nothing, and there are many.
constexpr std::size_t kLeastBytes = 64 << 10;

thread_local std::vector<std::shared_ptr<Pool>> pools;  // the last one counts

class PoolAllocator : public c10::Allocator {
 public:
  explicit PoolAllocator(c10::Allocator* others) : others_(others) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes >= kLeastBytes && !pools.empty()) {
      if (auto memory = pools.back()->take(bytes)) {
        void* const place = memory.get();
        return {place, new std::shared_ptr<void>(std::move(memory)), &PoolAllocator::release, c10::DeviceType::CPU};
      }
    }
    return others_->allocate(bytes);
  }
  // True of all memory but the pool's, which only tensors ask for.
  c10::DeleterFnPtr raw_deleter() const override { return others_->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }

 private:
  static void release(void* memory) { delete static_cast<std::shared_ptr<void>*>(memory); }

  c10::Allocator* const others_;
};

}  // namespace

void begin_pool(std::shared_ptr<Pool> pool) {
  // Tensors remember their allocator, so it stays for good.
  static const bool kInstalled = [] {
    c10::SetCPUAllocator(new PoolAllocator(c10::GetCPUAllocator()), 255);
    return true;
  }();
  static_cast<void>(kInstalled);
  pools.push_back(std::move(pool));
}

void end_pool() {
  if (!pools.empty()) pools.pop_back();
}

}  // namespace tutti::pytorch
