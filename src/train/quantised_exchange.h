// One exchange of quantised values in its stages, so that others can run in between:
//
//   send      encode a piece for every rank ........ submit all_to_all
//   reduce    wait, add up the own piece ........... values in float32 (reduce_scatter ends here)
//   publish   encode the own piece ................. submit all_gather
//   receive   wait, decode every piece
//
// A piece that is sent begins with 8 bytes, the index of the sender's first value that is not finite, so that after
// the first wait all ranks know alike. Everything is done in tiles that caches hold: values of any float type become
// float32 there, get what earlier calls lost, and are encoded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/quantise.h"
#include "tutti/communicator.h"
#include "tutti/train/quantised.h"

namespace tutti::train {

// As users write them, in the order of the types.
inline constexpr std::string_view kQuantisedNames[] = {"int8", "int4", "e4m3", "e5m2", "e3m0"};

// Throws Error(invalid_argument) where settings make no sense.
void check_settings(const Quantise& settings);
void check_block(std::size_t block);

// Values of float32, bfloat16 or float16.
struct QuantisedInput {
  const void* values = nullptr;
  DType type = DType::float32;
  std::size_t count = 0;
  double factor = 1;          // they are multiplied by it first
  float* residual = nullptr;  // as many, or none
};

// A value that is not finite.
struct NotFinitePlace {
  int rank = 0;
  std::size_t index = 0;  // in that rank's values
};

// Values [begin, begin + count) of every piece; a multiple of blocks where others follow.
struct PiecePart {
  std::size_t begin = 0, count = ~std::size_t{0};
};

class QuantisedExchange {
 public:
  explicit QuantisedExchange(const Quantise& settings);
  explicit QuantisedExchange(const kernels::CodeFormat& format) : format_(format) {}

  const Quantise& settings() const { return settings_; }

  // Pieces of ceil(count / ranks) values, of which a part is exchanged. `mark` is compared with that of other ranks.
  void send(Communicator& communicator, const QuantisedInput& input, std::uint32_t mark = 0, PiecePart part = {});
  // The next call draws the chances of the last one of this other.
  void follow(const QuantisedExchange& other) { calls_ = other.calls_ - 1; }
  // The next call draws chances as if so many had been before it.
  void go_on(std::uint64_t calls) { calls_ = calls; }
  // Every rank gets the input as it is.
  void send_to_all(Communicator& communicator, const QuantisedInput& input);
  bool sent() { return !work_.valid() || work_.test(); }
  // The same, as far as is known here; takes nothing further.
  bool has_ended() const noexcept { return !work_.valid() || work_.ended(); }

  // After send() or send_to_all(): waits.
  std::optional<NotFinitePlace> first_not_finite();
  // After send(): the own piece of all ranks, divided by `divisor`.
  void reduce(float divisor, void* output, DType type);
  // The same, sent on to all ranks. What is lost then is added to the own piece of the residual, which is as long as
  // the input, or empty; or it stays in an owner's residual, as long as a piece, and is added to the next result.
  void publish(Communicator& communicator, float divisor, std::span<float> residual,
               std::span<float> owners_residual = {});
  // After publish(): the part of all pieces of `count` values. After send_to_all(): the chunks of all ranks, `count`
  // values in all.
  void receive(void* output, DType type, std::size_t count);
  void wait();

  // Of a call of all_to_all, and of all_gather behind it, as Counters count them, for pieces of so many values.
  std::size_t sent_bytes(int ranks, std::size_t chunk) const;
  std::size_t returned_bytes(int ranks, std::size_t chunk) const;
  // Of this exchange's buffers, as they are now.
  std::size_t memory_bytes() const;

 private:
  std::size_t piece_bytes() const;
  std::uint64_t encode(const QuantisedInput& input, std::size_t first, std::size_t count, std::byte* codes) const;
  void sum_tile(std::size_t begin, std::size_t count, float divisor, float* sums) const;

  Quantise settings_;
  kernels::CodeFormat format_;
  std::uint64_t calls_ = 0;
  int ranks_ = 1, rank_ = 0;
  std::size_t chunk_ = 0;              // values of a piece, or of the part of it
  std::size_t stride_ = 0, part_ = 0;  // from one piece to the next, and from its first value to the part
  std::size_t own_count_ = 0;          // of the own piece's part, without what is behind the last value
  bool published_ = false;
  std::vector<std::byte> sent_, received_, own_;
  Work work_;
};

}  // namespace tutti::train
