// Handles of calls under way, and of the memory that calls like best.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <utility>
#include <vector>

#include "tutti/error.h"
#include "tutti/export.h"

namespace tutti {

namespace engine {
class Engine;
struct Pending;
}  // namespace engine

// What a receive has received.
struct Received {
  int source = -1;
  int tag = 0;
  std::size_t count = 0;  // elements
};

// An operation under way. A Work that is dropped is waited for, and its error, if any, is left to the next call. If its
// communicator goes first, the operation goes on, and the group is left when the last Work was waited for or dropped.
// Works are used by the thread that uses their communicator.
class TUTTI_API Work {
 public:
  Work() = default;
  Work(std::shared_ptr<engine::Pending> pending, std::shared_ptr<engine::Engine> engine);
  Work(Work&&) noexcept = default;
  Work& operator=(Work&& other) noexcept;
  ~Work();

  bool valid() const { return pending_ != nullptr; }
  // True when the operation has ended, well or not, as far as is known here; takes nothing further, and never throws.
  bool ended() const noexcept;
  // True when the operation has ended; takes it further otherwise. Throws what the operation failed with.
  bool test();
  // Throws what the operation failed with; Error(timeout) when `timeout` passes first (the operation goes on then).
  void wait();
  void wait(std::chrono::milliseconds timeout);
  // What it failed with; nullptr while it is under way, and when it ended well. Never throws.
  std::exception_ptr error() const noexcept;
  // Has `ended` called once, when the operation ends, well or not: by whichever thread takes it to its end, or here
  // where it has ended. It must be quick, must not throw, and must not call into the communicator: it may wake whoever
  // does. It replaces the one that was asked for before.
  void on_end(std::function<void()> ended);
  // Of a receive that has ended well: whose message it was.
  Received received() const;

 private:
  friend class AnyOf;

  std::shared_ptr<engine::Pending> pending_;
  std::shared_ptr<engine::Engine> engine_;  // until the operation was seen to have ended
};

// ---- Several Works, of one communicator or of several. Those that are not valid() are passed over: drop what you are
// done with (works[i] = {}).

// Waits for all of them, in order; throws the first error after all have ended.
TUTTI_API void wait_all(std::span<Work> works);

// Waits until one of them has ended and returns its place, the lowest if several have; nothing where none is valid().
// Throws what that one failed with, which is in its error(); Error(timeout) when `timeout` passes first.
TUTTI_API std::optional<std::size_t> wait_any(std::span<Work> works,
                                              std::chrono::milliseconds timeout = std::chrono::milliseconds::max());
// The same without waiting: nothing where none has ended. Takes all of them further.
TUTTI_API std::optional<std::size_t> test_any(std::span<Work> works);
// As wait_any(), and returns the places of all that have ended. Throws the first error among them.
TUTTI_API std::vector<std::size_t> wait_some(std::span<Work> works,
                                             std::chrono::milliseconds timeout = std::chrono::milliseconds::max());
// What the others wait with, for Works that do not lie side by side: until one has ended(), well or not. False where
// none is valid(); nullptr is passed over, too.
TUTTI_API bool await_any(std::span<Work* const> works,
                         std::chrono::milliseconds timeout = std::chrono::milliseconds::max());

// Memory of one rank that all ranks of the host can reach. Once every rank has dropped its part, the next allocation
// frees it.
template <class T>
class Symmetric {
 public:
  Symmetric(std::shared_ptr<void> memory, std::size_t count) : memory_(std::move(memory)), count_(count) {}
  T* data() const { return static_cast<T*>(memory_.get()); }
  std::size_t size() const { return count_; }
  T* begin() const { return data(); }
  T* end() const { return data() + count_; }
  std::span<T> span() const { return {data(), count_}; }
  T& operator[](std::size_t i) const { return data()[i]; }

 private:
  std::shared_ptr<void> memory_;
  std::size_t count_;
};

// Memory of one rank on a GPU, which goes when its last copy does. Its elements cannot be touched by the processor.
template <class T>
class DeviceMemory {
 public:
  DeviceMemory(std::shared_ptr<void> memory, std::size_t count) : memory_(std::move(memory)), count_(count) {}
  T* data() const { return static_cast<T*>(memory_.get()); }
  std::size_t size() const { return count_; }
  std::span<T> span() const { return {data(), count_}; }

 private:
  std::shared_ptr<void> memory_;
  std::size_t count_;
};

}  // namespace tutti
