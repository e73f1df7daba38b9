// Handles of calls under way, and of the memory that calls like best.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <ranges>
#include <span>
#include <utility>

#include "tutti/error.h"
#include "tutti/export.h"

namespace tutti {

namespace engine {
struct Pending;
}  // namespace engine

// What a receive has received.
struct Received {
  int source = -1;
  int tag = 0;
  std::size_t count = 0;  // elements
};

// An operation under way. A Work that is dropped is waited for, and its error, if any, is left to the next call. If its
// communicator goes first, the operation fails. Works are used by the thread that uses their communicator.
class TUTTI_API Work {
 public:
  Work() = default;
  explicit Work(std::shared_ptr<engine::Pending> pending);
  Work(Work&&) noexcept = default;
  Work& operator=(Work&& other) noexcept;
  ~Work();

  bool valid() const { return pending_ != nullptr; }
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
  std::shared_ptr<engine::Pending> pending_;
};

// Waits for all of them, in order; throws the first error after all have ended.
TUTTI_API void wait_all(std::span<Work> works);

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

}  // namespace tutti
