// Recording where a job's time goes: calls, their steps, waits, buckets and steps of training, and spans of the
// program's own, by rank. What it becomes is told in docs/trace.md.
//
//   tutti run --trace run.json -n 4 -- ./train         without a line of the program's
//
//   comm.trace().start("run.json");                    or a part of it
//   {
//     const tutti::Span span("forward");
//     ...
//   }
//   comm.trace().stop();
//
// Each rank writes to a ring of the last events in the folder run.json.rings, which is there even if the rank is
// killed; the last rank to end merges them into run.json.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tutti/export.h"

namespace tutti {

namespace engine {
class Engine;
}  // namespace engine

// A part of the program with a name, from here to the end of the scope, in the trace of the rank whose thread this is:
// the one that made or joined its group; of other threads, in that of the process, where it has but one. Spans of a
// thread nest. Costs next to nothing where nothing is recorded. A trace takes about a thousand names, of which it keeps
// the first 58 bytes.
class TUTTI_API Span {
 public:
  explicit Span(std::string_view name);
  ~Span();
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  void* recorder_;  // nullptr: nothing records
  std::uint64_t begin_ = 0;
  std::uint16_t name_ = 0;
};
[[nodiscard]] inline Span span(std::string_view name) { return Span(name); }

// What a communicator's rank records, with all groups that were made of one with it. Threads: as for the communicator.
class TUTTI_API Trace {
 public:
  explicit Trace(std::shared_ptr<engine::Engine> engine) : engine_(std::move(engine)) {}

  // Collective, while no call is under way: from now on all is recorded, to become `file`. Of each rank the last
  // `events` are kept, 64 bytes each; 0: 65536. Throws Error(invalid_argument) where it is recorded already.
  void start(const std::string& file, std::size_t events = 0);
  // Collective, likewise; nothing where nothing is recorded. When it returns the file is there.
  void stop();
  bool on() const;
  // The file that it becomes; empty where nothing is recorded.
  std::string where() const;

 private:
  std::shared_ptr<engine::Engine> engine_;
};

// What a training loop of one's own may say; strategies of tutti::train say it of theirs.
namespace trace {

using Moment = std::chrono::steady_clock::time_point;

// Whether anybody hears it.
TUTTI_API bool on();
TUTTI_API void train_step(std::int64_t step, Moment begin, Moment end);
// A thread that async calls hold up elsewhere than in a call of Tutti's: from held_up() to go_on(), which any thread
// may call.
struct Held {
  std::uint64_t recorder = 0, since = 0;  // 0: nothing is recorded
  std::uint32_t thread = 0;
};
TUTTI_API Held held_up();
TUTTI_API void go_on(const Held& held);
// A bucket of gradients, from when it was ready; between that and `start` it waited for earlier ones.
struct Bucket {
  std::int64_t step = 0;
  std::uint64_t bucket = 0, bytes = 0;
  Moment ready, start, end;
};
TUTTI_API void bucket(const Bucket& bucket);

}  // namespace trace
}  // namespace tutti
