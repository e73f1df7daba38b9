// Staging: memory of the host that stands in for the device buffers of a call while it is moved. It brings the input
// over when the call begins and the output back when it ends; both start now and end later, and whoever waits asks. The
// rest of the library sees host memory.
//
// Streams: a staging comes after what the caller's stream holds when it opens, and, where that was asked for, the
// stream goes on only when the staging has closed, well or not. Each staging has streams of its own for its copies, so
// that none waits for what another's caller waits for.
//
// What is put into a stream while another thread waits inside the driver for a stream that a call holds (as freeing
// memory does) waits for that thread. So of a call that nobody waits for and that holds a stream, everything is put
// into streams when it is made (chain_output), the way back behind a gate; from then on the driver is only asked about
// events. A call that holds none is *loose* (held_streams.h): it moves, or launches, when its turn has come.
//
// Large input comes in slices, so that a call may begin when some of it is there; output may go back so, too, before
// all of it is there.
//
// Threads: the caller's thread opens stagings. Whoever drives the call asks them, starts the way back and closes them,
// one thread at a time for each staging; any number may ask what of the input has arrived. What ends wakes the rank by
// `wake`, from a thread of the driver's.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/deadline.h"
#include "base/device_place.h"
#include "device/driver.h"
#include "device/pinned_memory.h"
#include "device/seen_memory.h"
#include "device/shared_allocations.h"
#include "device/stream_gates.h"
#include "device/used_device.h"

namespace tutti::device {

// A piece of a buffer and its place in host memory.
struct StagedPiece {
  const std::byte* on_device = nullptr;
  std::size_t offset = 0;  // in the stage's memory
  std::size_t bytes = 0;
};

class StagingPool;

class Staging {
 public:
  // To start a copy takes microseconds; slices are as long as that does not count.
  static constexpr std::uint64_t kSliceBytes = 1 << 20, kFewestBytesInSlices = 4 * kSliceBytes;

  std::byte* memory() const { return block_.data; }
  // Whether the input is there. Throws Error(system) where the device failed.
  bool has_input();
  // As has_input() found it last.
  bool input_seen() const { return in_.device == nullptr || in_.ended; }
  // Whether the input comes in slices, whether any of them is there, and whether those are that hold these bytes of it.
  // Throw as has_input().
  bool comes_in_slices() const { return slices_ != 0; }
  bool any_has_arrived() { return arrived_slices() != 0; }
  bool has_arrived(std::uint64_t begin, std::uint64_t end);
  // Whether what is new of the output may go back piece by piece, and that piece: start_output() follows, when all did.
  bool returns_slices() const {
    return out_.device != nullptr && !chained_ && out_.pieces.size() == 1 &&
           out_.pieces.front().bytes >= kFewestBytesInSlices;
  }
  void return_slice(std::uint64_t from, std::uint64_t to);
  // Starts the way back of the output: of its first `most_bytes`, unless it is chained.
  void start_output(std::uint64_t most_bytes);
  // Whether the output is, or will be, another than before the call.
  bool output_started() const { return output_ready_ || chained_ || returning_; }
  // Whether it is back. As has_input().
  bool has_output();
  // Puts the way back into its stream now, for start_output() to let go by a word. What comes into the caller's stream,
  // if there is one, from now on waits until this is over or closed; closed before its output was started, it brings
  // back whatever its memory holds. Of several that are opened together, all are prepared before one is chained: else
  // those that come later would wait for those that come before, and one that cannot be would spoil what others bring
  // back. Throws Error(timeout) where loose calls are under way until the deadline passes.
  void chain_output(const Deadline& deadline);
  // Before that. `keeps_rest`: less than all of the output may be new, and the rest shall be what it was. Throws
  // Error(system) where host memory cannot be registered.
  void prepare_chain(bool keeps_rest);

  // A staging that was deferred moves nothing until begin(), so that a launch may do without: its buffers are shown to
  // other processes, and a launch is started and asked about, as the two ways are.
  bool is_deferred() const { return deferred_; }
  void begin();
  // nullptr where there is none.
  std::byte* input_memory() const { return in_.device == nullptr ? nullptr : memory() + in_.pieces.front().offset; }
  std::byte* output_memory() const { return out_.device == nullptr ? nullptr : memory() + out_.pieces.front().offset; }
  const UsedDevice& home() const { return *(in_.device != nullptr ? in_.device : out_.device); }
  // Whether the caller's stream has come to the call.
  bool is_reached();
  // False where the driver does not show it.
  bool show(const void* buffer, DevicePlace& place) const;
  // The device's context is current on this thread from now on, until `current` goes.
  void enter(std::optional<Current>& current) const { current.emplace(*driver(), home().context); }
  // Runs prepare(driver, device) in the device's context.
  template <class Prepare>
  void prepare_launch(Prepare&& prepare) const {
    const Current current(*driver(), home().context);
    prepare(*driver(), home());
  }
  // Memory of other processes that the launch is to touch, which stays open until it has ended.
  std::byte* use(SharedAllocations::Opened opened) { return uses_.emplace_back(std::move(opened)).data(); }
  // Runs launch(driver, device, stream), which puts work into the stream; what it has put there before it throws
  // counts.
  template <class Launch>
  void start_launch(Launch&& launch) {
    const Current current(*driver(), home().context);
    launching_ = true;
    launched().marked = false;
    begin_to_look();
    launch(*driver(), home(), launched().stream);
  }
  bool has_launched();

  // Of a call that is given up: waits until what still writes to its buffers, a launch or the way back, has ended;
  // false: for so long nobody waits. Throws Error(system) where the device failed, and writes nothing any more.
  bool await_writing();
  // For how long, from the first time that somebody asks.
  const Deadline& patience();

 private:
  friend class StagingPool;

  static constexpr int kLooksOfThread = 2, kLooksOfCaller = 200;
  static constexpr std::chrono::milliseconds kCallersYield{1};  // they do so for longer (engine/execute/waiter.h)

  // One of the two ways.
  struct Way {
    Staging* stage = nullptr;
    UsedDevice* device = nullptr;  // nullptr: nothing goes this way
    std::vector<StagedPiece> pieces;
    CuContext context = nullptr;             // of the two that follow
    CuStream stream = nullptr;               // of this way's own: others wait for other streams of the caller's
    CuEvent event = nullptr;                 // behind the copies
    std::vector<CuEvent> slice_events = {};  // behind the first ones of them
    bool marked = false;                     // it has been recorded
    bool ended = false;
  };

  // The one that a launch takes.
  Way& launched() { return out_.device != nullptr ? out_ : in_; }
  static void wake_rank(void* way);
  template <class Copy>
  void start(Way& way, CuStream stream, const char* what, Copy&& copy);
  void record(Way& way, CuStream stream);
  void ask_for_call(Way& way, CuStream stream);
  const Driver* driver() const;
  // Whether it is time to ask the driver for a call, because whoever looks may sleep.
  bool looked_for_long();
  void begin_to_look() {
    looks_ = 0;
    asked_ = false;
  }
  // Asks whether the caller's stream has come to the call, and if not marks what it holds.
  void come_after(CuStream stream);
  void mark_end(CuStream stream, CuContext context);
  void forget_earlier();
  // At the end of the call: but for an event that the next one may use.
  void settle_earlier();
  // At the end of a call that was given up: what still writes to its output has ended, or is taken note of.
  void finish_writing();
  bool has_called_back() const { return to_come_.load(std::memory_order_acquire) == 0; }
  void open_gate();
  void start_input();
  CuResult fetch(std::byte* to, const StagedPiece& piece, CuStream stream);
  void order_slices(std::uint64_t bytes);
  CuResult fetch_in_slices(const StagedPiece& piece);
  std::size_t arrived_slices();
  void put_back(std::uint64_t most_bytes);
  void keep_output();
  void let_output_go();
  CuAddress gate_word();
  bool has_ended(Way& way, const char* what);
  bool end_launch(Way& way);

  StagingPool* pool_ = nullptr;
  bool is_callers_ = false;  // StagingPool::callers_, from the beginning
  PinnedMemory::Block block_, kept_block_;
  Way in_, out_;
  Way kept_;                     // of a chained output: what it was, so that the rest of it comes back as that
  std::atomic<int> to_come_{0};  // calls of wake_rank() that have not returned
  CuStream callers_ = nullptr;   // the caller's stream
  CuContext context_ = nullptr;  // of the device, to use that stream in
  StreamGate gate_;              // what the way back waits for, or the caller's stream, where `gated_`
  bool gated_ = false, chained_ = false, deferred_ = false, loose_ = false, background_ = false;
  bool reached_ = false;       // the caller's stream has come to the call
  CuEvent earlier_ = nullptr;  // else behind what it held when the call was made
  CuContext earlier_context_ = nullptr;
  std::vector<SharedAllocations::Opened> uses_;  // by the launch
  bool launching_ = false;                       // it has not been seen to have ended
  int looks_ = 0;       // at a stream that has not come to the call, or a launch that has not ended
  bool asked_ = false;  // because of that, for a call by the driver
  std::optional<Deadline> patience_;
  Deadline asking_;                           // of a caller who has looked often
  std::size_t slices_ = 0;                    // of the input; 0: it comes in one piece
  int parts_ = 1;                             // of the input that are wanted at once
  std::vector<std::uint32_t> order_, turns_;  // which slice comes next; and when each of them comes
  std::atomic<std::size_t> arrived_slices_{0};
  std::mutex asking_for_slices_;
  bool returning_ = false;       // return_slice() was called
  bool output_ready_ = false;    // start_output() was called
  std::uint64_t new_bytes_ = 0;  // with this, where the output is chained
  std::size_t bytes_ = 0;        // that begin() takes
};

class StagingPool {
 public:
  // `crowded`: ranks share cores, so that callers who wait sleep soon.
  explicit StagingPool(std::function<void()> wake, bool crowded = false) : wake_(std::move(wake)), crowded_(crowded) {}
  // Waits until everything that was started has ended.
  ~StagingPool();
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;

  struct Closer {
    void operator()(Staging* stage) const { stage->pool_->close(*stage); }
  };
  using Handle = std::unique_ptr<Staging, Closer>;

  // What the buffers of a call come to.
  struct Plan {
    std::size_t bytes = 0;
    int input_device = kOnHost, output_device = kOnHost;          // kOnHost: that side has nothing to copy
    CuContext input_context = nullptr, output_context = nullptr;  // FoundMemory::context
    std::vector<StagedPiece> input, output;
    void* stream = nullptr;   // the caller's
    bool holds = true;        // what comes into it later waits for the call, where it is chained
    bool deferred = false;    // nothing moves until begin()
    bool background = false;  // nobody waits for the call yet: the progress thread, which sleeps soon, looks after it
    int parts = 1;            // of large input that are wanted at once
    bool loose = false;       // it holds no stream, and none is held: inside LooseCalls that were granted
  };
  // An empty plan, for the next call of the caller's thread, in the memory of the one before.
  Plan& draft();
  // Takes memory and starts to bring the input over, unless it is deferred.
  Handle open(const Driver& driver, const Plan& plan);
  // What the calls of this communicator have used; the caller's thread asks.
  SeenMemory& seen() { return seen_; }
  // Whether a caller who waits has taken the place of the progress thread; told by whoever drives async calls.
  void set_caller_drives(bool drives) { caller_drives_ = drives; }

 private:
  friend class Staging;

  UsedDevice& use(CuDevice device);
  void equip(Staging::Way& way);
  void drop(Staging::Way& way);
  void drop_event(Staging& stage);
  Staging& make_stage();
  Staging& idle_stage();
  Staging& callers_stage();
  void bind(Staging::Way& way, int device, const std::vector<StagedPiece>& pieces);
  void order(Staging& stage);
  void close(Staging& stage);
  void give_back_memory(Staging& stage);
  void recycle(Staging& stage);

  std::function<void()> wake_;
  const bool crowded_;
  const Driver* driver_ = nullptr;
  bool caller_drives_ = false;
  std::mutex mutex_;  // of the lists of stagings
  std::vector<std::unique_ptr<Staging>> all_;
  std::vector<Staging*> idle_;
  std::vector<Staging*> closing_;  // closed, but what they started has not all ended
  // What a caller that waits takes: one at a time, as a rule, on one thread, without a lock.
  Staging* callers_ = nullptr;
  bool callers_is_open_ = false;
  Plan draft_;
  std::vector<std::unique_ptr<UsedDevice>> devices_;
  std::unique_ptr<PinnedMemory> memory_;
  SeenMemory seen_;
};

}  // namespace tutti::device
