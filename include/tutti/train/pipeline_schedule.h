// The schedules of a pipeline, by name: in which order stages compute micro-batches. docs/strategies.md draws them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tutti::train {

// X(name, word, meaning)
#define TUTTI_PIPELINE_SCHEDULES(X)                                                                   \
  X(gpipe, "gpipe", "all forwards, then all backwards")                                               \
  X(one_f_one_b, "1f1b", "one forward, one backward in turn: the bubble of gpipe, fewer activations") \
  X(interleaved, "interleaved",                                                                       \
    "1f1b with several chunks of the model on every stage: a smaller bubble, more "                   \
    "messages")                                                                                       \
  X(zb_h1, "zb-h1", "1f1b with backward in two parts, of which the weights' fills the bubble")

enum class PipelineSchedule : std::uint8_t {
#define X(name, word, meaning) name,
  TUTTI_PIPELINE_SCHEDULES(X)
#undef X
};

#define X(...) +1
inline constexpr std::size_t kPipelineSchedules = 0 TUTTI_PIPELINE_SCHEDULES(X);
#undef X

inline constexpr std::string_view kPipelineWords[] = {
#define X(name, word, meaning) word,
    TUTTI_PIPELINE_SCHEDULES(X)
#undef X
};
constexpr std::string_view name_of(PipelineSchedule schedule) {
  return kPipelineWords[static_cast<std::size_t>(schedule)];
}

}  // namespace tutti::train
