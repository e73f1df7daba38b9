#include "engine/tracing/tracer.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <random>
#include <ranges>

#include "base/system_error.h"
#include "engine/engine.h"
#include "rendezvous/host.h"
#include "trace/merge.h"
#include "trace/ring_folder.h"

namespace tutti::engine {
namespace {

constexpr int kTag = 0;
constexpr int kMessages = 40;  // there and back, between each two hosts
constexpr std::uint64_t kFewestEvents = 64;

// The trace that this process has for all its groups, until it ends.
struct ProcessTrace {
  std::mutex mutex;
  std::shared_ptr<RankTrace> trace;

  static ProcessTrace& get() {
    static ProcessTrace* const kTrace = [] {
      std::atexit([] {
        if (get().trace != nullptr) get().trace->end();
      });
      return new ProcessTrace;
    }();
    return *kTrace;
  }
};

// What each rank says when recording starts. A record without pointers.
struct Said {
  std::int64_t rank = -1;  // in the trace that its process has already
  std::uint64_t job = 0;   // of that, or one that it made up
  std::uint64_t id = 0;    // made up, for the group
};

struct HostClock {
  std::int64_t offset_ns = 0;
  std::uint64_t error_ns = 0;
};

std::uint64_t random_number() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

// Of the messages there and back, the quickest one: its answer was made somewhere in between.
HostClock compare_clocks(Engine& engine, int peer, bool leads) {
  HostClock best{0, ~std::uint64_t{0}};
  std::uint64_t said = 0;
  const Letter there{leads ? Direction::send : Direction::receive, peer, &said, sizeof said};
  const Letter back{leads ? Direction::receive : Direction::send, peer, &said, sizeof said};
  for (int i = 0; i < kMessages; ++i) {
    const std::uint64_t before = trace::steady_ns();
    engine.carry({&there, 1}, kTag);
    if (!leads) said = trace::steady_ns();
    engine.carry({&back, 1}, kTag);
    const std::uint64_t after = trace::steady_ns(), half = (after - before + 1) / 2;
    if (half < best.error_ns) best = {static_cast<std::int64_t>(before + half - said), half};
  }
  return best;
}

// By host, on all ranks.
std::vector<HostClock> clocks_of_hosts(Engine& engine) {
  const Hosts& hosts = engine.transport().offers().hosts;
  std::vector<HostClock> clocks(static_cast<std::size_t>(hosts.count()));
  if (!hosts.several()) return clocks;
  const auto members = hosts.members(engine.size());
  for (std::size_t host = 1; host < clocks.size(); ++host) {
    const int first = (*members)[host].front();
    if (engine.rank() == 0) clocks[host] = compare_clocks(engine, first, true);
    if (engine.rank() == first) compare_clocks(engine, 0, false);
  }
  const std::size_t bytes = clocks.size() * sizeof(HostClock);
  engine.run_own({.verb = Verb::broadcast,
                  .input = clocks.data(),
                  .output = clocks.data(),
                  .input_count = bytes,
                  .output_count = bytes,
                  .element = DType::uint8});
  return clocks;
}

template <class Item>
std::vector<Item> gather(Engine& engine, const Item& mine) {
  std::vector<Item> all(static_cast<std::size_t>(engine.size()), mine);
  if (engine.size() == 1) return all;
  engine.run_own({.verb = Verb::all_gather,
                  .input = &mine,
                  .output = all.data(),
                  .input_count = sizeof mine,
                  .output_count = all.size() * sizeof mine,
                  .element = DType::uint8});
  return all;
}

template <std::size_t kBytes>
void put(std::array<char, kBytes>& text, std::string_view words) {
  std::copy_n(words.begin(), std::min(words.size(), kBytes - 1), text.begin());
}

// Others wait for a rank that has to compare clocks with many hosts.
class Patience {
 public:
  explicit Patience(Engine& engine) : engine_(engine), timeout_(engine.timeout()) {
    engine.set_timeout(std::max(timeout_, Engine::kPatienceToBegin));
  }
  ~Patience() { engine_.set_timeout(timeout_); }
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

 private:
  Engine& engine_;
  std::chrono::milliseconds timeout_;
};

trace::RingShape shape_of(const TraceWish& wish) {
  trace::RingShape shape;
  if (wish.events > trace::kMostEvents) {
    throw Error(ErrorCode::invalid_argument, "a trace of " + std::to_string(wish.events) +
                                                 " events a rank: it takes at most " +
                                                 std::to_string(trace::kMostEvents));
  }
  if (wish.events != 0) shape.events = std::bit_ceil(std::max(wish.events, kFewestEvents));
  return shape;
}

// How a group's ranks are recorded: some may have a trace, of one job or of several, and those that have none become a
// new job.
class Parts {
 public:
  Parts(const Engine& engine, std::vector<Said> said) : engine_(engine), said_(std::move(said)) {
    for (std::size_t rank = 0; rank < said_.size(); ++rank)
      if (said_[rank].rank < 0) new_.push_back(static_cast<int>(rank));
  }

  bool any_new() const { return !new_.empty(); }
  // The first of those that have none: it decides for all of them.
  int leader() const { return new_.front(); }
  std::uint64_t new_job() const { return at(leader()).job; }
  int newcomers() const { return static_cast<int>(new_.size()); }
  int new_size() const { return all_new() ? std::max(engine_.origin().job_size, engine_.size()) : newcomers(); }
  // By rank of the group the ranks of this job; -1: it is of another one.
  std::vector<int> ranks_in(std::uint64_t job) const {
    std::vector<int> ranks;
    int next_new = 0;
    for (int rank = 0; rank < engine_.size(); ++rank) {
      const bool is_new = at(rank).rank < 0;
      const int number = !is_new     ? static_cast<int>(at(rank).rank)
                         : all_new() ? engine_.origin().job_rank(rank)
                                     : next_new++;
      ranks.push_back((is_new ? new_job() : at(rank).job) == job ? number : -1);
    }
    return ranks;
  }
  std::uint64_t group_id() const { return said_.front().id; }

 private:
  const Said& at(int rank) const { return said_[static_cast<std::size_t>(rank)]; }
  bool all_new() const { return new_.size() == said_.size(); }

  const Engine& engine_;
  std::vector<Said> said_;
  std::vector<int> new_;  // those that have no trace, ascending
};

// The file of the new job: another one where somebody still records to this one, who is not to lose anything by it.
std::string file_of(Engine& engine, const TraceWish& wish, const Parts& parts,
                    std::optional<trace::FolderClaim>& claim) {
  if (engine.rank() == parts.leader()) claim.emplace(trace::rings_of(wish.file));
  const std::int32_t taken = claim && !claim->holds() ? 1 : 0;
  if (gather(engine, taken)[static_cast<std::size_t>(parts.leader())] == 0) return wish.file;
  if (wish.gives_way) return trace::file_beside(wish.file, parts.new_job());
  throw Error(ErrorCode::invalid_argument,
              "others still record to '" + wish.file + "': stop that first, or name another file");
}

std::shared_ptr<RankTrace> make_trace(Engine& engine, const std::string& file, const trace::RingShape& shape,
                                      const Parts& parts, const std::vector<HostClock>& clocks) {
  const int host = engine.transport().offers().hosts.of(engine.rank());
  const HostClock& clock = clocks[static_cast<std::size_t>(host)];
  trace::RingFacts facts{.rank = parts.ranks_in(parts.new_job())[static_cast<std::size_t>(engine.rank())],
                         .size = parts.new_size(),
                         .job = parts.new_job(),
                         .host = host,
                         .hosts = static_cast<std::int32_t>(clocks.size()),
                         .recorded = parts.newcomers(),
                         .clock_offset_ns = clock.offset_ns,
                         .clock_error_ns = clock.error_ns};
  put(facts.host_name, rendezvous::host_name());
  put(facts.library, TUTTI_VERSION);
  return std::make_shared<RankTrace>(file, facts, shape);
}

// `known`: the trace that goes on.
void begin(Engine& engine, const TraceWish& wish, std::shared_ptr<RankTrace>& known) {
  if (wish.file.empty()) throw Error(ErrorCode::invalid_argument, "a trace needs the name of its file");
  const trace::RingShape shape = shape_of(wish);
  const Patience patience(engine);
  Said mine{-1, random_number(), random_number() & 0xffffffff};
  if (known != nullptr) mine = {known->recorder().facts().rank, known->recorder().facts().job, mine.id};
  const Parts parts(engine, gather(engine, mine));
  const std::vector<HostClock> clocks = clocks_of_hosts(engine);
  // Rings that an earlier run left would be taken for this one's: no rank makes its own before they are gone.
  std::optional<trace::FolderClaim> claim;
  const std::string file = parts.any_new() ? file_of(engine, wish, parts, claim) : "";
  if (known == nullptr) known = make_trace(engine, file, shape, parts, clocks);
  LiveTraces::of_process().add(known);
  engine.tracer().record_to(known, parts.ranks_in(known->recorder().facts().job), parts.group_id());
}

}  // namespace

Tracer::~Tracer() {
  const std::lock_guard lock(ProcessTrace::get().mutex);
  for (const auto& trace : traces_) {
    trace->detach(recorder_);
    if (trace != ProcessTrace::get().trace) trace->end();
  }
}

void Tracer::record_to(std::shared_ptr<RankTrace> trace, std::vector<int> ranks, std::uint64_t id) {
  ranks_ = std::move(ranks);
  id_ = id;
  if (traces_.size() > 1) {
    traces_.front()->detach(recorder_);
    traces_.erase(traces_.begin());
  }
  traces_.push_back(std::move(trace));
  traces_.back()->attach(recorder_);
}

void Tracer::stop() {
  if (recorder_.exchange(nullptr) != nullptr) traces_.back()->end();
}

void start_trace(Engine& engine, const TraceWish& wish) {
  if (const RankTrace* const current = engine.tracer().current(); current != nullptr)
    throw Error(ErrorCode::invalid_argument, "this rank is recorded to '" + current->file() + "' already; stop that");
  std::shared_ptr<RankTrace> none;
  begin(engine, wish, none);
}

void start_process_trace(Engine& engine, const TraceWish& wish) {
  ProcessTrace& process = ProcessTrace::get();
  std::shared_ptr<RankTrace> known;
  {
    const std::lock_guard lock(process.mutex);
    if (process.trace != nullptr && !process.trace->ended()) known = process.trace;
  }
  begin(engine, {.file = wish.file, .events = wish.events, .gives_way = true}, known);
  const std::lock_guard lock(process.mutex);
  process.trace = known;
}

void stop_trace(Engine& engine) {
  if (engine.tracer().recorder() == nullptr) return;
  engine.run_own({.verb = Verb::barrier});  // calls of others have ended
  engine.tracer().stop();
  engine.run_own({.verb = Verb::barrier});  // and the last one has merged
}

}  // namespace tutti::engine
