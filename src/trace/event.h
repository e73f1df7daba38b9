// One event of a trace: a call, a step of one, a wait, a step of training, a bucket of it, or a span of the program's.
//
// Plain data without padding, written as it lies in memory; a change of it is a change of kRingVersion (ring.h). Times
// are ticks of the recorder's clock (clock.h). Words are numbers of the ring's tables (tables.h).
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace tutti::trace {

enum class EventKind : std::uint8_t { call, step, wait, train_step, bucket, span };
inline constexpr std::uint8_t kEventKinds = 6;

// What a rank that waits is held up by: `work` is an async call, whatever that waits for. X(name)
#define TUTTI_WAITED_ON(X) X(work) X(entry) X(retirement) X(progress) X(message) X(credit) X(device)

enum class WaitedOn : std::uint8_t {
#define X(name) name,
  TUTTI_WAITED_ON(X)
#undef X
};

// Some ranks of a communicator, in a word: any of the first 63, or one.
class RankSet {
 public:
  constexpr RankSet() = default;
  constexpr explicit RankSet(std::uint64_t word) : word_(word) {}

  constexpr std::uint64_t word() const { return word_; }
  constexpr bool empty() const { return word_ == 0; }
  // Where there is no room for both, the first one stays.
  constexpr void add(int rank) {
    if ((word_ & kOne) != 0) return;
    if (rank < 63) {
      word_ |= std::uint64_t{1} << rank;
    } else if (word_ == 0) {
      word_ = kOne | static_cast<std::uint64_t>(rank);
    }
  }
  // The lowest; -1: there is none.
  constexpr int first() const {
    if ((word_ & kOne) != 0) return static_cast<int>(word_ & 0x7fffffff);
    return word_ == 0 ? -1 : std::countr_zero(word_);
  }
  template <class Visit>
  constexpr void for_each(Visit&& visit) const {
    if ((word_ & kOne) != 0) return visit(first());
    for (std::uint64_t left = word_; left != 0; left &= left - 1) visit(std::countr_zero(left));
  }

 private:
  static constexpr std::uint64_t kOne = std::uint64_t{1} << 63;

  std::uint64_t word_ = 0;
};

struct TraceEvent {
  static constexpr std::uint16_t kNone = 0xffff;                   // of a table: it has no more room
  static constexpr std::uint8_t kAsync = 1, kSends = 2;            // flags of calls
  static constexpr std::uint8_t kGives = 1, kTakes = 2;            // flags of steps: by messages
  static constexpr int kGivesChannel = 2, kTakesChannel = 5;       // and on which channels, 3 bits each from here on
  static constexpr std::uint32_t kUnknown_ns = 0xffffffff;         // a prediction that there is none of
  static constexpr std::uint64_t kUnnumbered = ~std::uint64_t{0};  // in the place of `sequence`: of no call

  EventKind kind = EventKind::span;
  std::uint8_t what = 0;  // of a call the verb, of a step its operation, of a wait WaitedOn
  std::uint8_t flags = 0;
  std::uint8_t thread = 0;  // of the rank: 0 is the program's
  std::uint16_t communicator = kNone;
  std::uint16_t name = kNone;  // of a call its algorithm, of a span its own; of a step the lane
  std::uint64_t sequence = 0;  // of the call, or of the step of training
  std::uint64_t begin = 0, end = 0;
  std::uint64_t middle = 0;  // of a call when it was taken up, of a bucket when it set out; of a step which_step()
  std::uint64_t amount = 0;  // of a call and of a bucket its bytes; of a step the RankSet it gives to
  std::uint64_t other = 0;   // of a call peer_and_prediction(), of a step the RankSet it takes from; peer, bucket

  static constexpr std::uint64_t which_step(std::uint32_t step, std::uint64_t segment) { return segment << 32 | step; }
  std::uint32_t step() const { return static_cast<std::uint32_t>(middle); }
  std::uint64_t segment() const { return middle >> 32; }
  // `peer`: or the root; -1: none.
  static constexpr std::uint64_t peer_and_prediction(int peer, std::uint32_t predicted_ns) {
    return static_cast<std::uint64_t>(predicted_ns) << 32 | static_cast<std::uint32_t>(peer);
  }
  int peer() const { return static_cast<std::int32_t>(static_cast<std::uint32_t>(other)); }
  std::uint32_t predicted_ns() const { return static_cast<std::uint32_t>(other >> 32); }
  bool is_async() const { return kind == EventKind::call && (flags & kAsync) != 0; }

  bool operator==(const TraceEvent&) const = default;
};
static_assert(std::has_unique_object_representations_v<TraceEvent> && sizeof(TraceEvent) == 56);

}  // namespace tutti::trace
