// What goes over UCX: headers, parcels, and a group's stream of messages with another process on a channel. The lock of
// the fabric guards all of it.
//
// A message is numbered by its stream, and waits in `arrived` under its number until it is its turn: UCX promises no
// order. At most kWindow of them are on their way or wait there; their receiver tells how many it has taken with what
// it sends on the stream, and where that is nothing now and then on its own. A large one (rendezvous) stays with its
// sender until the receiver fetches it, and the receiver fetches only the next in turn: so one of them is always taken,
// which is the edge's credit, and no more than one lies unread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "transport/transport.h"

namespace tutti::transport {

// In the byte order of the machine: all that we run on are little-endian.
struct UcxHeader {
  enum class Kind : std::uint16_t {
    message,
    credit,  // only to say what was taken
  };

  std::uint64_t key = 0;  // which the receiver has told the sender: UCX takes messages from everybody
  std::uint64_t group = 0;
  std::uint64_t fingerprint = 0;
  std::uint32_t bytes = 0;
  std::uint32_t number = 0;
  std::uint32_t taken = 0;  // so many of the stream's messages the other way
  std::uint16_t channel = 0;
  Kind kind = Kind::message;
  std::uint32_t from = 0;  // rank of the job
  std::uint32_t unused = 0;
};
static_assert(sizeof(UcxHeader) == 48);

struct UcxPeer;
struct UcxStream;
class UcxFabric;

// A header and a payload in memory that UCX may use for as long as it wants.
struct Parcel {
  UcxFabric* fabric = nullptr;
  UcxPeer* peer = nullptr;
  UcxStream* stream = nullptr;  // nullptr: nobody cares any more how it ends
  UcxHeader header;
  std::size_t capacity = 0;
  std::unique_ptr<std::byte[]> memory;
  bool fetched = false;  // it comes, where others go
};

// Parcels, used again and again: after a while none is made any more.
class Parcels {
 public:
  Parcel& take(std::size_t bytes);
  void give_back(Parcel& parcel);
  // Those of the stream are nobody's from now on.
  void forget(const UcxStream& stream);

 private:
  static constexpr std::array<std::size_t, 4> kCapacities{0, 4 << 10, (64 << 10) + kLabelBytes, 256 << 10};

  std::deque<Parcel> all_;
  std::array<std::vector<Parcel*>, kCapacities.size()> free_;
};

struct UcxStream {
  static constexpr std::uint32_t kWindow = 8;
  static constexpr std::uint32_t kMostLarge = 3;  // of them

  struct Arrived {
    bool here = false;
    bool rendezvous = false;
    std::uint32_t bytes = 0;
    std::uint64_t fingerprint = 0;
    void* data = nullptr;  // UCX's: the payload, or what to fetch it by
  };

  UcxPeer* peer = nullptr;
  std::uint64_t group = 0;
  std::uint16_t channel = 0;

  std::array<Arrived, kWindow> arrived;  // by number
  std::uint32_t arrivals = 0;            // how many ever were
  std::uint32_t taken = 0;               // the number of the next
  std::uint32_t told_taken = 0;          // as the sender knows it
  std::uint32_t untold_large = 0;        // of those it does not know of
  Parcel* landing = nullptr;             // the next, fetched into memory of the fabric
  bool landed = false;                   // all of it

  std::uint32_t sent = 0;
  std::uint32_t credited = 0;  // of them the receiver has taken
  std::uint32_t under_way = 0;
  std::uint32_t large = 0;               // of those that were not taken yet
  std::array<bool, kWindow> is_large{};  // by number

  // What was told later may come earlier.
  void take_credit(std::uint32_t taken_there) {
    if (sent - taken_there > kWindow) return;  // nonsense
    while (static_cast<std::int32_t>(taken_there - credited) > 0) {
      if (is_large[credited++ % kWindow]) --large;
    }
  }
  Arrived& next() { return arrived[taken % kWindow]; }
};

// A group, as this process has it with another.
struct UcxStreams {
  enum class State : std::uint8_t {
    awaited,  // something has come for a group that this process is not in, yet
    open,
    closed,  // what comes is dropped
    left,    // the same, and what was sent before the bye is the last of it
  };

  State state = State::awaited;
  bool bye = false;                      // the peer's, which has sent
  std::vector<std::uint32_t> last_sent;  // so many messages, by channel
  std::vector<UcxStream> channels;

  bool has_come(std::size_t channel) const { return bye && channels[channel].arrivals == last_sent[channel]; }
  bool have_all_come() const {
    for (std::size_t channel = 0; channel < channels.size(); ++channel) {
      if (!has_come(channel)) return false;
    }
    return true;
  }
};

}  // namespace tutti::transport
