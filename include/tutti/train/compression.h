// How gradients of a strategy travel in fewer bytes: StrategyOptions::compression. docs/fewer-bytes.md compares them.
#pragma once

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

// None, Cast, or codes of 4 or 8 bits. Quantise::not_finite tells what becomes of a step in which a gradient is not
// finite: fail, an error that names rank and parameter, after which the strategy is not of use; pass, a step that
// updates nothing (StepResult::skipped). With a loss scale it passes.
using Compression = std::variant<std::monostate, Cast, Quantise>;

TUTTI_API std::string to_text(const Compression& compression);
// For programs that take it as an option: none, bf16, fp16, int8, int4, e4m3, e5m2 or e3m0, with what is usual
// otherwise. Error(invalid_argument) lists them.
TUTTI_API Compression compression_named(std::string_view name);

}  // namespace tutti::train
