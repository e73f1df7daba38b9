#include "engine/counting.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>

namespace {

thread_local bool counting = false;
thread_local int (*is_apart)() = nullptr;
thread_local tutti::testing::Counts counts;

bool counts_now() { return counting && (is_apart == nullptr || is_apart() == 0); }

void note_allocation() {
  if (counts_now()) ++counts.allocations;
}

}  // namespace

// The library's own names for what the program's stand in for.
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t bytes) {
  note_allocation();
  return __libc_malloc(bytes);
}
void* calloc(size_t number, size_t bytes) {
  note_allocation();
  return __libc_calloc(number, bytes);
}
void* realloc(void* memory, size_t bytes) {
  note_allocation();
  return __libc_realloc(memory, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  note_allocation();
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  note_allocation();
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  note_allocation();
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static const auto real = reinterpret_cast<int (*)(pthread_mutex_t*)>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  if (counts_now()) ++counts.locks;
  return real(mutex);
}
}

namespace tutti::testing {

void start_counting(int (*apart)()) {
  is_apart = apart;
  counts = {};
  counting = true;
}

Counts stop_counting() {
  counting = false;
  return counts;
}

}  // namespace tutti::testing
