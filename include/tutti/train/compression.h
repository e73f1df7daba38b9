// How gradients of a strategy travel in fewer bytes: StrategyOptions::compression. docs/fewer-bytes.md compares them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "tutti/export.h"
#include "tutti/train/quantised.h"
#include "tutti/types.h"

namespace tutti::train {

// float32 gradients are rounded to 16 bits, reduced as such and widened again. Those that have 16 bits stay as they
// are. float16 overflows above 65504 and wants a loss scale or clipped gradients.
struct Cast {
  DType type = DType::bfloat16;  // or float16
};

// by_deviation, of TopK and PowerSgd: what is compressed, and waits, is a gradient over its deviation, the root of the
// variance of AdamW, which stays as it is from StrategyOptions::compress_from_step on. AdamW makes steps of much the
// same size of small gradients and of large ones; without this the small ones wait longest, and what comes after a
// while is held to be a large gradient, of which AdamW makes less. It needs what OneBitAdam does; clip_norm works, of
// what came. What waits is a mean over steps already, and a momentum behind it would let it wait once more: beta1 is at
// most most_beta1 from then on. More of it where little waits, less where nearly everything does.

// Each rank sends the share of its gradients that is largest, with their places: 8 bytes for each. The rest is kept and
// added to the next step's (StrategyOptions::error_feedback), or training diverges.
struct TopK {
  double share = 0.01;  // above 0, up to 1
  // Momentum correction: what is kept has the momentum that it would have had. For optimizers without a momentum of
  // their own (Sgd{}), whose momentum this is then; costs 4 bytes for each number.
  double momentum = 0;        // below 1
  bool by_deviation = false;  // as above
  double most_beta1 = 0.5;    // by deviation; from 0, which is no momentum, to 1, which is the optimizer's own
  NotFinite not_finite = NotFinite::fail;
};
// Numbers of so many that a rank sends.
constexpr std::size_t kept_count(const TopK& settings, std::size_t count) {
  const double exact = settings.share * static_cast<double>(count);
  const auto whole = static_cast<std::size_t>(exact);
  return std::min(count, whole + (static_cast<double>(whole) < exact ? 1 : 0));
}

// A parameter of two dimensions and more, as a matrix of rows x the rest, travels as the product of two thin matrices
// of `rank` columns (Vogels et al., PowerSGD): 4 * rank * (rows + rest) bytes, by two calls of all_reduce. Those that
// would not be fewer bytes so travel as they are. What the product lacks is kept and added to the next step's
// gradients (StrategyOptions::error_feedback), or training diverges; a step begins with the directions that the one
// before ended with. Begin with some plain steps (compress_from_step).
struct PowerSgd {
  std::size_t rank = 4;
  std::uint64_t seed = 1;     // of the first directions
  bool by_deviation = false;  // as above
  double most_beta1 = 0.5;    // by deviation; from 0, which is no momentum, to 1, which is the optimizer's own
  NotFinite not_finite = NotFinite::fail;
};

// 1-bit Adam (Tang et al.): from StrategyOptions::compress_from_step on variances of AdamW stay as they are, and what
// travels is the sign of where each rank's momentum points, with one scale for each block: an eighth of a byte for each
// number, there and back. Ranks and owners of pieces both keep what they lose (StrategyOptions::error_feedback).
// Variances are corrected for as many updates: who goes on from a checkpoint of plain AdamW gives its updates() as
// compress_from_step. For data parallel with AdamW, or Adam without weight decay; clip_norm, measure_noise and
// unused_parameters look at gradients of all ranks: there are none.
struct OneBitAdam {
  std::size_t block = 1024;  // numbers that share a scale: a power of two, 32 .. 4096
  NotFinite not_finite = NotFinite::fail;
};

// None, or one of the above. not_finite tells what becomes of a step in which a gradient is not finite: fail, an error
// that names rank and parameter, after which the strategy is not of use; pass, a step that updates nothing
// (StepResult::skipped). With a loss scale it passes.
using Compression = std::variant<std::monostate, Cast, Quantise, TopK, PowerSgd, OneBitAdam>;

TUTTI_API std::string to_text(const Compression& compression);
// For programs that take it as an option: none, bf16, fp16, int8, int4, e4m3, e5m2, e3m0, topk, power_sgd or one_bit,
// with what is usual otherwise. Error(invalid_argument) lists them.
TUTTI_API Compression compression_named(std::string_view name);

}  // namespace tutti::train
