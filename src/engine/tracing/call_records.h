// Calls that have ended, as events: which algorithm ran, and what it was predicted to take.
//
// Predictions cost more than calls, so that those of powers of two are kept, and what lies between is interpolated.
// After the first call of an algorithm and a size class nothing is allocated. One thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "choice/chooser.h"
#include "choice/device_price.h"
#include "engine/call.h"
#include "trace/recorder.h"
#include "transport/transport.h"

namespace tutti::engine {

// When a call was made, when it was taken up and when it ended, in ticks of the recorder.
struct CallTimes {
  std::uint64_t entered = 0, taken_up = 0;
  std::uint64_t ended = 0;  // 0: now
};

class CallRecords {
 public:
  // `checks`: every call is checked on all ranks first.
  CallRecords(const transport::Transport& transport, const choice::Chooser& chooser, bool checks)
      : transport_(&transport), chooser_(&chooser), checks_(checks) {}

  // At its end.
  void record(const trace::GroupRecorder& group, const Call& call, const DoneBy& by, CallTimes times, bool async);
  // A message, whose algorithm is chosen by its length.
  void record_message(const trace::GroupRecorder& group, const Call& call, CallTimes times, bool async);

 private:
  static constexpr int kClasses = 64;  // of sizes, by their highest bit

  // What a prediction depends on, of calls of one algorithm.
  struct Asked {
    std::uint64_t bytes = 0, kept = 0;  // kept: of the input, that is copied first
    bool checked = false, to_self = false;
    choice::StagedBytes staged = {};  // of buffers on a device
    // Of one launch, whose algorithm is that of every verb.
    Verb verb = Verb::all_reduce;
    bool in_place = false;

    bool operator==(const Asked&) const = default;
  };

  // What is known of an algorithm. Seconds of 2^i bytes; below 0: not asked for.
  struct Known {
    DoneBy by;
    std::uint64_t recorder = 0;  // its id, whose number the name is
    bool across = false;
    std::uint16_t name = trace::TraceEvent::kNone;
    std::array<float, kClasses + 1> seconds = {};
    std::optional<Asked> asked;  // last
    std::uint32_t predicted_ns = 0;
  };

  // The last call that was recorded, and its event: most calls are like the one before, but for number and times.
  struct Latest {
    const trace::GroupRecorder* group = nullptr;
    const schedule::Algorithm* row = nullptr;
    std::uint64_t moved_bytes = 0, input_bytes = 0;
    int root = 0, peer = -1;
    Verb verb = Verb::all_reduce;
    bool sends = false, in_place = false, scales = false, async = false;
    trace::EventWords words = {};

    bool is_like(const trace::GroupRecorder& group_now, const Call& call, const schedule::Algorithm* row_now,
                 bool async_now) const {
      return group == &group_now && row == row_now && moved_bytes == call.moved_bytes &&
             input_bytes == call.input_bytes && root == call.root && peer == call.peer && verb == call.verb &&
             sends == call.sends && in_place == call.in_place && scales == (call.scale != nullptr) &&
             async == async_now && is_plain(call);
    }
    // Whether what is compared is all that the event depends on.
    static bool is_plain(const Call& call) { return !call.uneven && call.own == nullptr && call.staging == nullptr; }
  };

  Known& known(const trace::GroupRecorder& group, const DoneBy& by, bool across) {
    if (last_ == nullptr || !is_it(*last_, group, by, across)) [[unlikely]]
      last_ = &find(group, by, across);
    return *last_;
  }
  static bool is_it(const Known& it, const trace::GroupRecorder& group, const DoneBy& by, bool across) {
    return it.by.row == by.row && (by.row != nullptr || it.by.name == by.name) && it.across == across &&
           it.recorder == group.recorder->id();
  }
  Known& find(const trace::GroupRecorder& group, const DoneBy& by, bool across);
  void look_up(const trace::GroupRecorder& group, const Call& call, const DoneBy& by, bool async);
  // Nothing where it cannot be told.
  std::optional<Asked> asked_of(const Known& known, const Call& call) const;
  std::uint32_t predicted_ns(Known& known, const Call& call);
  double price_of(Known& known, const Asked& asked, bool message);
  double seconds_of(Known& known, const Asked& asked, bool message, int size_class);

  const transport::Transport* transport_;
  const choice::Chooser* chooser_;
  bool checks_;
  double check_s_ = -1;
  Latest latest_;
  std::vector<std::unique_ptr<Known>> all_;
  Known* last_ = nullptr;  // of all_, that was asked for last
};

}  // namespace tutti::engine
