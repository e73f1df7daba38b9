// The vocabulary of values: element types, reduction operators, verbs and transports, with their names.
//
// Each list is one X-macro; enums, names, sizes and tests are generated from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tutti {

// X(name, bytes per element)
#define TUTTI_DTYPES(X) \
  X(int8, 1)            \
  X(int16, 2)           \
  X(int32, 4)           \
  X(int64, 8)           \
  X(uint8, 1)           \
  X(uint16, 2)          \
  X(uint32, 4)          \
  X(uint64, 8)          \
  X(float16, 2)         \
  X(bfloat16, 2)        \
  X(float32, 4)         \
  X(float64, 8)         \
  X(complex64, 8)       \
  X(complex128, 16)     \
  X(boolean, 1)

enum class DType : std::uint8_t {
#define X(name, bytes) name,
  TUTTI_DTYPES(X)
#undef X
};

// X(name)
// average divides the sum by the number of ranks before the last rounding (integers: towards zero).
// premul_sum multiplies each rank's input by that rank's factor, rounds, then sums.
// minimum and maximum propagate NaN. On booleans sum and maximum are "or", product and minimum are "and".
// land, lor and lxor take every number but zero for true (NaN, too) and give 1 or 0 of its type; what only one rank
// contributes to (in a group of one, at the start of a scan) stays as it is.
#define TUTTI_REDUCE_OPS(X) \
  X(sum)                    \
  X(product)                \
  X(minimum)                \
  X(maximum)                \
  X(average)                \
  X(band)                   \
  X(bor)                    \
  X(bxor)                   \
  X(land)                   \
  X(lor)                    \
  X(lxor)                   \
  X(premul_sum)

enum class ReduceOp : std::uint8_t {
#define X(name) name,
  TUTTI_REDUCE_OPS(X)
#undef X
};

// X(name)
#define TUTTI_VERBS(X) \
  X(all_reduce)        \
  X(broadcast)         \
  X(send_recv)         \
  X(reduce)            \
  X(scatter)           \
  X(gather)            \
  X(all_gather)        \
  X(reduce_scatter)    \
  X(all_to_all)        \
  X(scan)              \
  X(exclusive_scan)    \
  X(barrier)

enum class Verb : std::uint8_t {
#define X(name) name,
  TUTTI_VERBS(X)
#undef X
};

// What carries the bytes. X(name, word, memory, meaning)
// word: as people say it, in TUTTI_TRANSPORT and elsewhere; memory: of HostMemory. Numbers travel between processes and
// are those of tutti.h: new ones come last.
#define TUTTI_TRANSPORTS(X)                                                      \
  X(automatic, auto, always, "shared memory inside a host and TCP across hosts") \
  X(shm, shm, always, "shared memory, and several hosts are an error")           \
  X(tcp, tcp, never, "TCP between all ranks")                                    \
  X(ucx, ucx, if_several, "shared memory inside hosts and UCX across them (InfiniBand, RoCE), UCX alone on one host")

enum class TransportKind : std::uint8_t {
#define X(name, word, memory, meaning) name,
  TUTTI_TRANSPORTS(X)
#undef X
};

// When the ranks of a host share its memory: if_several, where the job has other hosts, too.
enum class HostMemory : std::uint8_t { always, never, if_several };

#define X(...) +1
inline constexpr std::size_t kDTypes = 0 TUTTI_DTYPES(X);
inline constexpr std::size_t kReduceOps = 0 TUTTI_REDUCE_OPS(X);
inline constexpr std::size_t kVerbs = 0 TUTTI_VERBS(X);
inline constexpr std::size_t kTransportKinds = 0 TUTTI_TRANSPORTS(X);
#undef X

// 0 where there is no such type.
constexpr std::size_t size_of(DType type) {
  constexpr std::size_t kBytes[] = {
#define X(name, bytes) bytes,
      TUTTI_DTYPES(X)
#undef X
  };
  return static_cast<std::size_t>(type) < kDTypes ? kBytes[static_cast<std::size_t>(type)] : 0;
}

// Where an element must begin: at a multiple of this (complex numbers: of a component's size).
constexpr std::size_t alignment_of(DType type) {
  return type == DType::complex64 || type == DType::complex128 ? size_of(type) / 2 : size_of(type);
}

constexpr std::string_view name_of(DType type) {
  constexpr std::string_view kNames[] = {
#define X(name, bytes) #name,
      TUTTI_DTYPES(X)
#undef X
  };
  return kNames[static_cast<std::size_t>(type)];
}

constexpr std::string_view name_of(ReduceOp op) {
  constexpr std::string_view kNames[] = {
#define X(name) #name,
      TUTTI_REDUCE_OPS(X)
#undef X
  };
  return kNames[static_cast<std::size_t>(op)];
}

constexpr std::string_view name_of(Verb verb) {
  constexpr std::string_view kNames[] = {
#define X(name) #name,
      TUTTI_VERBS(X)
#undef X
  };
  return kNames[static_cast<std::size_t>(verb)];
}

inline constexpr std::string_view kTransportWords[] = {
#define X(name, word, memory, meaning) #word,
    TUTTI_TRANSPORTS(X)
#undef X
};

constexpr std::string_view name_of(TransportKind kind) { return kTransportWords[static_cast<std::size_t>(kind)]; }

constexpr std::optional<TransportKind> transport_named(std::string_view word) {
  for (std::size_t kind = 0; kind < kTransportKinds; ++kind) {
    if (kTransportWords[kind] == word) return static_cast<TransportKind>(kind);
  }
  return std::nullopt;
}

constexpr HostMemory host_memory_of(TransportKind kind) {
  constexpr HostMemory kMemory[] = {
#define X(name, word, memory, meaning) HostMemory::memory,
      TUTTI_TRANSPORTS(X)
#undef X
  };
  return kMemory[static_cast<std::size_t>(kind)];
}

}  // namespace tutti
