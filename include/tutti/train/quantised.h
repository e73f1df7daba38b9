// Sums and gathers of floats that travel in few bits: a quarter or an eighth of the bytes, for links that are slow.
//
//   tutti::train::QuantisedReducer reducer(comm, {.type = tutti::train::QuantisedType::int8});
//   std::vector<float> lost(gradients.size());       // zeros at first: what earlier calls could not say
//   reducer.all_reduce(gradients, tutti::ReduceOp::average, lost);
//
// Every rank cuts its values into a piece for each rank and quantises them (blocks that share a scale); the pieces
// travel by all_to_all; the owner of a piece adds up what came, in float32 and in the order of ranks, quantises the
// result and sends it back by all_gather. Every rank, the owner included, takes what the codes stand for, so that all
// end with the same bits. A value is off by half a step of its block once for every rank and once for the result; a
// residual, one float for each value, keeps what was lost and adds it to the next call.
//
// docs/fewer-bytes.md tells what each type costs and when to take it. Calls are collective and throw tutti::Error; one
// thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tutti/communicator.h"
#include "tutti/export.h"
#include "tutti/types.h"

namespace tutti::train {

// int8: -127 .. 127. int4: -7 .. 7. e4m3, e5m2: floats of 8 bits, e3m0: of 4, powers of two.
enum class QuantisedType : unsigned char { int8, int4, e4m3, e5m2, e3m0 };

// What a call makes of NaN and infinities. fail: Error(invalid_argument) on all ranks that names the first rank that
// has one, and where; outputs are left alone. pass: the block it is in is NaN on all ranks.
enum class NotFinite : unsigned char { fail, pass };

struct Quantise {
  QuantisedType type = QuantisedType::int8;
  std::size_t block = 128;  // values that share a scale: a power of two, 32 .. 4096
  // Rounds up or down by chance, so that the mean is the value, instead of to nearest. The same seed gives the same
  // bits again.
  bool stochastic = false;
  std::uint64_t seed = 0;
  NotFinite not_finite = NotFinite::fail;

  bool operator==(const Quantise&) const = default;
};

TUTTI_API std::string to_text(const Quantise& settings);

constexpr std::size_t bits_of(QuantisedType type) {
  return type == QuantisedType::int4 || type == QuantisedType::e3m0 ? 4 : 8;
}
// Bytes that so many values become: a float32 scale for each block, and the codes.
constexpr std::size_t encoded_bytes(const Quantise& settings, std::size_t values) {
  return (values + settings.block - 1) / settings.block * 4 + (values * bits_of(settings.type) + 7) / 8;
}
// Bytes, as Counters count them, of the calls below: with p ranks and chunks of c values (of all_reduce c is a p-th of
// the values, rounded up)
//   all_reduce       all_to_all of p * (8 k + encoded_bytes(c)) and all_gather of p * encoded_bytes(c), in k parts each
//   reduce_scatter   all_to_all of p * (8 + encoded_bytes(c))
//   all_gather       all_gather of p * (8 + encoded_bytes(c))
// The 8 bytes tell others of values that are not finite. An all_reduce of many values travels in k parts of every
// piece, so that some are encoded or added up while others travel.
constexpr std::size_t kAllReducePartValues = std::size_t{1} << 20;  // of all ranks' pieces together, about
constexpr std::size_t part_values(int ranks, std::size_t chunk) {
  const std::size_t blocks = kAllReducePartValues / static_cast<std::size_t>(ranks) / 4096;
  return std::min(chunk, std::max<std::size_t>(1, blocks) * 4096);  // no part cuts a block
}
constexpr std::size_t all_reduce_parts(int ranks, std::size_t chunk) {
  const std::size_t values = part_values(ranks, chunk);
  return values == 0 ? 1 : (chunk + values - 1) / values;
}
constexpr std::uint64_t exchanged_bytes(const Quantise& settings, int ranks, std::size_t chunk, std::size_t parts = 1) {
  return static_cast<std::uint64_t>(ranks) * (8 * parts + encoded_bytes(settings, chunk));
}
constexpr std::uint64_t returned_bytes(const Quantise& settings, int ranks, std::size_t chunk) {
  return static_cast<std::uint64_t>(ranks) * encoded_bytes(settings, chunk);
}

// Owns the memory that calls need, which stays for the next one. The communicator must outlive it.
class TUTTI_API QuantisedReducer {
 public:
  // Collective: Error(mismatch) on all ranks where one has other settings, with the words of both;
  // Error(invalid_argument) where they make no sense.
  QuantisedReducer(Communicator& communicator, const Quantise& settings);
  QuantisedReducer(QuantisedReducer&&) noexcept;
  QuantisedReducer& operator=(QuantisedReducer&&) noexcept;
  ~QuantisedReducer();

  // In place; sum or average. A residual is as long as the values, or empty.
  void all_reduce(std::span<float> values, ReduceOp op = ReduceOp::sum, std::span<float> residual = {}) {
    all_reduce(values.data(), values.size(), DType::float32, op, residual);
  }
  // The same for a type known at run time: float32, bfloat16 or float16. What travels is alike for all.
  void all_reduce(void* values, std::size_t count, DType type, ReduceOp op = ReduceOp::sum,
                  std::span<float> residual = {});
  // `input` has a chunk for every rank; `output` is the sum or average of this rank's, in float32. The residual is as
  // long as the input.
  void reduce_scatter(std::span<const float> input, std::span<float> output, ReduceOp op = ReduceOp::sum,
                      std::span<float> residual = {});
  // `output` has a chunk for every rank. The residual is as long as the input.
  void all_gather(std::span<const float> input, std::span<float> output, std::span<float> residual = {});

  const Quantise& settings() const;

 private:
  class Body;
  std::unique_ptr<Body> body_;
};

// The same for a single call, which compares the ranks' settings first (two all_gathers of a few bytes) and allocates.
TUTTI_API void quantised_all_reduce(Communicator& communicator, std::span<float> values, ReduceOp op = ReduceOp::sum,
                                    const Quantise& settings = {});
TUTTI_API void quantised_reduce_scatter(Communicator& communicator, std::span<const float> input,
                                        std::span<float> output, ReduceOp op = ReduceOp::sum,
                                        const Quantise& settings = {});
TUTTI_API void quantised_all_gather(Communicator& communicator, std::span<const float> input, std::span<float> output,
                                    const Quantise& settings = {});

}  // namespace tutti::train
