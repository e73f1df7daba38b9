// What an optimizer keeps in 8 bits (StateType::eight_bits) as float32, and back, for who reads and writes it there:
// what was decoded is encoded to the same again.
#pragma once

#include <cstddef>

namespace tutti::train {

// `state` counts as Shard::codes do; codes of state_bytes() bytes begin at a block.
void decode_state(int state, const std::byte* codes, std::size_t count, float* values);
void encode_state(int state, const float* values, std::size_t count, std::byte* codes);

}  // namespace tutti::train
