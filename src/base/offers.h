// What a transport offers to programs: the facts that lowering works from.
#pragma once

#include <cstdint>

namespace tutti {

struct Offers {
  bool windows_to_scratch = false;  // peers can load and store this rank's scratch
  bool windows_to_user = false;     // ... and its input and output
  bool operands_in_slots = false;   // a slot's memory can be read and written by a reduction
  bool lends = false;               // a message may stay in the sender's memory until its receiver has copied it
  std::uint32_t channels = 1;       // per (source, destination) and operation
  std::uint32_t credits = 1;        // messages per (source, destination, channel) before the sender waits
  std::uint64_t slot_bytes = 0;     // largest message; 0 = any size
  std::uint64_t scratch_bytes = 0;  // scratch per rank and operation; 0 = any size
  std::uint64_t segment_bytes = 0;  // preferred segment; 0 = one segment where the bounds allow it

  bool operator==(const Offers&) const = default;
};

// What programs whose messages are lent are lowered to: these leave from own memory and land there, at any size.
inline Offers lending(Offers offers) {
  offers.operands_in_slots = offers.windows_to_scratch = offers.windows_to_user = false;
  offers.slot_bytes = 0;
  return offers;
}

// Whether messages of programs lowered to `offers` are copied once: receivers read them where the sender has them.
inline bool is_single_copy(const Offers& offers) { return offers.lends && !offers.operands_in_slots; }

}  // namespace tutti
