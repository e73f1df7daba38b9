// What a transport offers to programs: the facts that lowering works from. What a message may do is a property of the
// edge it takes; a group over several hosts has two kinds of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/hosts.h"

namespace tutti {

// The longest message of shared memory that travels with what is said about it, and so is never copied only once.
inline constexpr std::size_t kInlineMessageBytes = 104;

// From one rank to another.
struct EdgeOffers {
  bool windows_to_scratch = false;  // either can load and store the other's scratch
  bool windows_to_user = false;     // ... and its input and output
  bool operands_in_slots = false;   // a slot's memory can be read and written by a reduction, and flags are in sight
  bool single_copy = false;         // a message may stay in the sender's memory until its receiver has copied it
  std::uint32_t credits = 1;        // messages under way before the sender waits
  std::uint64_t slot_bytes = 0;     // largest message; 0 = any size

  bool operator==(const EdgeOffers&) const = default;
};

// Of a whole group, the same on all its ranks.
struct Offers {
  EdgeOffers inside = {};           // between ranks that share memory; all edges, where there are not several hosts
  EdgeOffers across = {};           // between ranks of different hosts
  Hosts hosts = {};                 // which ranks share memory
  std::uint64_t scratch_bytes = 0;  // scratch per rank and operation; 0 = any size
  std::uint64_t segment_bytes = 0;  // preferred segment; 0 = one segment where the bounds allow it
  std::uint32_t channels = 1;       // of each edge, for the messages of one program

  const EdgeOffers& of(int from, int to) const { return hosts.share(from, to) ? inside : across; }
  // Whether all edges offer this.
  bool every(bool EdgeOffers::*offer) const { return inside.*offer && (!hosts.several() || across.*offer); }
  // The largest message that all edges take; 0 = any size.
  std::uint64_t slot_bytes() const {
    if (!hosts.several() || across.slot_bytes == 0) return inside.slot_bytes;
    return inside.slot_bytes == 0 ? across.slot_bytes : std::min(inside.slot_bytes, across.slot_bytes);
  }
  // What two ranks have between them.
  Offers pair(bool share_host) const {
    if (share_host) return {inside, {}, {}, scratch_bytes, segment_bytes, channels};
    return {across, across, Hosts(std::array{0, 1}), scratch_bytes, segment_bytes, channels};
  }
  // What a group that is made of these ranks has.
  Offers among(std::span<const int> members) const {
    const Hosts theirs = hosts.among(members);
    if (!theirs.several()) return pair(true);
    const bool apart = theirs.count() == static_cast<int>(members.size());
    return {apart ? across : inside, across, theirs, scratch_bytes, segment_bytes, channels};
  }

  bool operator==(const Offers&) const = default;
};

// What shared memory offers to so many ranks of a host; whether messages may be copied once is for them to find out.
// Sized so that a group of 8 holds about 10 MB per channel, of which only touched pages count. Between hosts a message
// costs so much more that those inside had better be as large, where some ranks are elsewhere: then about 50 MB.
inline Offers memory_offers(int ranks, bool some_elsewhere = false) {
  Offers offers;
  offers.inside.windows_to_scratch = offers.inside.windows_to_user = offers.inside.operands_in_slots = true;
  offers.inside.credits = some_elsewhere ? 2 : 4;
  offers.inside.slot_bytes = ranks <= 8 ? 32 << 10 : 8 << 10;
  if (some_elsewhere) offers.inside.slot_bytes = ranks <= 8 ? 256 << 10 : ranks <= 16 ? 64 << 10 : 8 << 10;
  offers.scratch_bytes = some_elsewhere ? 4 << 20 : 1 << 20;  // as much as the streams beside it have
  return offers;
}

// What an edge offers to programs that copy messages once: these leave from own memory and land there, at any size.
// Where ranks cannot reach each other's memory they are messages like others.
inline EdgeOffers single_copy_offers(EdgeOffers edge) {
  edge.operands_in_slots = edge.windows_to_scratch = edge.windows_to_user = false;
  if (edge.single_copy) edge.slot_bytes = 0;
  return edge;
}
inline Offers single_copy_offers(Offers offers) {
  offers.inside = single_copy_offers(offers.inside);
  offers.across = single_copy_offers(offers.across);
  return offers;
}

// Whether messages of programs lowered to `edge` are copied once: receivers read them where the sender has them.
inline bool is_single_copy(const EdgeOffers& edge) { return edge.single_copy && !edge.operands_in_slots; }

}  // namespace tutti
