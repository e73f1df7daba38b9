// The communicator: a group of ranks that call the same verbs in the same order.
//
// Thread rule: one thread at a time calls into a communicator and its Works; different communicators are independent.
// Every call ends with an error when nothing has moved for Options::timeout. A call that fails after it began throws
// tutti::Error and aborts the communicator: later calls throw Error(aborted) with the first cause.
//
// Buffers are ordinary memory, or symmetric memory from allocate(), which every rank of the host can reach: verbs
// notice it by address and then run without intermediate copies. Any mixture works.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tutti/error.h"
#include "tutti/types.h"

namespace tutti {

namespace engine {
class Engine;
struct Pending;
}  // namespace engine

struct float16 {
  std::uint16_t bits;
};
struct bfloat16 {
  std::uint16_t bits;
};

// The DType of a C++ type; use of another type is a compile-time error.
template <class T>
struct DTypeOf;

// What carries the bytes. automatic: shared memory inside a host, TCP across hosts.
enum class TransportKind : unsigned char { automatic, shm, tcp };

// How far ranks check that they make the same call. quick: every message is checked before it lands, at no cost; a rank
// that meets another call's message keeps its output, others may not. full: one more round before every collective, and
// no rank's buffers are touched unless all ranks make the same call.
enum class Check : unsigned char { quick, full };

struct Options {
  // The operand order of every reduction depends only on the group: the same bits whatever the size, the algorithm or
  // the transport. Turned off, algorithms with other orders may be named below.
  bool deterministic = true;
  std::chrono::milliseconds timeout{60'000};  // without any movement
  // Runs this algorithm for every all_reduce (or broadcast) instead of the chosen one; empty = choose. All ranks alike.
  std::string algorithm;
  Check check = Check::quick;                          // all ranks alike
  TransportKind transport = TransportKind::automatic;  // all ranks alike
};

// An operation under way. A Work that is dropped is waited for, and its error, if any, is left to the next call. If its
// communicator goes first, the operation fails.
class Work {
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

 private:
  std::shared_ptr<engine::Pending> pending_;
};

// Memory of one rank that all ranks of the host can reach. Once every rank has dropped its part, the next allocation
// frees it.
template <class T>
class Symmetric {
 public:
  Symmetric(std::shared_ptr<void> memory, std::size_t count) : memory_(std::move(memory)), count_(count) {}
  T* data() const { return static_cast<T*>(memory_.get()); }
  std::size_t size() const { return count_; }
  std::span<T> span() const { return {data(), count_}; }
  T& operator[](std::size_t i) const { return data()[i]; }

 private:
  std::shared_ptr<void> memory_;
  std::size_t count_;
};

class Communicator {
 public:
  explicit Communicator(std::unique_ptr<engine::Engine> engine);
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  int rank() const;
  int size() const;

  // The deadline of the calls that follow, until it is set again: for a single call that may take longer, or must not.
  void set_timeout(std::chrono::milliseconds timeout);
  std::chrono::milliseconds timeout() const;

  // output[i] = op over all ranks of input[i]. In place where input and output are the same address; they must not
  // overlap otherwise. `factor` is premul_sum's.
  void all_reduce(const void* input, void* output, std::size_t count, DType type, ReduceOp op = ReduceOp::sum,
                  double factor = 1.0);
  Work all_reduce_async(const void* input, void* output, std::size_t count, DType type, ReduceOp op = ReduceOp::sum,
                        double factor = 1.0);

  // Every rank's buffer becomes root's.
  void broadcast(void* buffer, std::size_t count, DType type, int root);
  Work broadcast_async(void* buffer, std::size_t count, DType type, int root);

  // Messages between two ranks arrive in the order they were sent; count and type must agree on both sides.
  void send(const void* buffer, std::size_t count, DType type, int peer);
  void recv(void* buffer, std::size_t count, DType type, int peer);
  Work send_async(const void* buffer, std::size_t count, DType type, int peer);
  Work recv_async(void* buffer, std::size_t count, DType type, int peer);

  template <class T>
  void all_reduce(std::span<const T> input, std::span<T> output, ReduceOp op = ReduceOp::sum) {
    require_same_size(input.size(), output.size());
    all_reduce(input.data(), output.data(), input.size(), DTypeOf<T>::value, op);
  }
  template <class T>
  void all_reduce(std::span<T> buffer, ReduceOp op = ReduceOp::sum) {
    all_reduce(buffer.data(), buffer.data(), buffer.size(), DTypeOf<T>::value, op);
  }
  template <class T>
  void broadcast(std::span<T> buffer, int root) {
    broadcast(buffer.data(), buffer.size(), DTypeOf<T>::value, root);
  }
  template <class T>
  void send(std::span<const T> buffer, int peer) {
    send(buffer.data(), buffer.size(), DTypeOf<T>::value, peer);
  }
  template <class T>
  void recv(std::span<T> buffer, int peer) {
    recv(buffer.data(), buffer.size(), DTypeOf<T>::value, peer);
  }

  // Symmetric memory, zeroed, aligned to 64 bytes. Collective: every rank asks for the same bytes at the same point.
  std::shared_ptr<void> allocate_bytes(std::size_t bytes);
  template <class T>
  Symmetric<T> allocate(std::size_t count) {
    if (count > ~std::size_t{0} / sizeof(T)) throw Error(ErrorCode::invalid_argument, "allocate: too many elements");
    return {allocate_bytes(count * sizeof(T)), count};
  }

  // The algorithm that the last blocking collective of this rank ran.
  std::string_view last_algorithm() const;

 private:
  static void require_same_size(std::size_t input, std::size_t output);

  std::unique_ptr<engine::Engine> engine_;
};

#define TUTTI_DTYPE_OF(cpp, name)                       \
  template <>                                           \
  struct DTypeOf<cpp> {                                 \
    static constexpr DType value = DType::name;         \
    static_assert(sizeof(cpp) == size_of(DType::name)); \
  };
TUTTI_DTYPE_OF(std::int8_t, int8)
TUTTI_DTYPE_OF(std::int16_t, int16)
TUTTI_DTYPE_OF(std::int32_t, int32)
TUTTI_DTYPE_OF(std::int64_t, int64)
TUTTI_DTYPE_OF(std::uint8_t, uint8)
TUTTI_DTYPE_OF(std::uint16_t, uint16)
TUTTI_DTYPE_OF(std::uint32_t, uint32)
TUTTI_DTYPE_OF(std::uint64_t, uint64)
TUTTI_DTYPE_OF(float16, float16)
TUTTI_DTYPE_OF(bfloat16, bfloat16)
TUTTI_DTYPE_OF(float, float32)
TUTTI_DTYPE_OF(double, float64)
TUTTI_DTYPE_OF(bool, boolean)
#undef TUTTI_DTYPE_OF

}  // namespace tutti
