// No blocking call allocates or locks after the first of its shape: every verb, in and out of place, in ordinary and in
// symmetric memory, small and large. Over TCP a call may lock, and an edge may allocate once, to keep messages in.
#include <gtest/gtest.h>

#include <functional>

#include "check.h"
#include "engine/counting.h"
#include "engine/execute/track.h"
#include "schedule/verbs.h"
#include "trace/folder.h"

namespace tutti {
namespace {

using schedule::Buffer;
using schedule::Holding;
using testing::Ranks;
using testing::require;

// Each track has its own plan of a shape, and calls take them in turn.
constexpr int kFirstCalls = 2 * engine::kCollectiveChannels;
constexpr int kCountedCalls = 2 * engine::kCollectiveChannels;

// The smallest fit a line, others a slot, a segment, or take several of them.
constexpr std::size_t kCounts[] = {2, 100, 3000, 40'000, 300'000};
constexpr std::size_t kMostElements = 4 * 300'000 + 64;

struct Pair {
  double value;
  std::int64_t index;
};

// This rank's memory, of either kind.
class Desk {
 public:
  Desk(Communicator& group, bool symmetric, bool streams) : comm_(group), streams_(streams) {
    // What the kernel does not take at once an edge keeps, and what it reads while it sends it sets aside: in memory
    // that it makes the first time.
    if (streams) spare_ = 2 * (engine::kCollectiveChannels + 1) * (comm_.size() - 1);
    for (float** buffer : {&in_, &out_}) {
      memory_.push_back(symmetric ? comm_.allocate_bytes(kMostElements * sizeof(float))
                                  : std::shared_ptr<void>(new float[kMostElements](), std::default_delete<float[]>()));
      *buffer = static_cast<float*>(memory_.back().get());
    }
  }

  Communicator& comm() { return comm_; }
  float* in() { return in_; }
  float* out() { return out_; }

  // `count` elements of the vector, or of each chunk.
  Request request(Verb verb, std::size_t count, bool in_place, int root) {
    const auto p = static_cast<std::size_t>(comm_.size()), self = static_cast<std::size_t>(comm_.rank());
    const bool chunks = schedule::facts_of(verb).cut == schedule::Cut::chunks;
    const auto holding = [&](Buffer buffer) {
      return schedule::holding_of(verb, buffer, comm_.size(), comm_.rank(), root);
    };
    const auto elements = [&](Holding held) {
      return held == Holding::nothing ? 0 : held == Holding::all && chunks ? count * p : count;
    };
    const Holding in = holding(Buffer::input), out = holding(Buffer::output);
    float *input = in_, *output = in_place ? in_ : out_;
    if (in_place && in == Holding::own && out == Holding::all) input = in_ + self * count;
    if (in_place && in == Holding::all && out == Holding::own) output = in_ + self * count;
    return {.verb = verb,
            .input = input,
            .output = output,
            .input_count = elements(in),
            .output_count = elements(out),
            .root = root};
  }

  void expect_none(const std::string& what, const std::function<void()>& call) {
    for (int i = 0; i < kFirstCalls; ++i) call();
    testing::start_counting();
    for (int i = 0; i < kCountedCalls; ++i) call();
    const testing::Counts counts = testing::stop_counting();
    if (streams_ && counts.allocations <= spare_) {
      spare_ -= counts.allocations;
      return;
    }
    if (counts.allocations == 0 && counts.locks == 0) return;
    wrong_ += what + ": " + std::to_string(counts.allocations) + " allocations and " + std::to_string(counts.locks) +
              " locks in " + std::to_string(kCountedCalls) + " calls\n";
  }
  // Once all is done, so that one rank's complaint does not cut short what the others find.
  void require_none() const { require(wrong_.empty(), wrong_); }

 private:
  Communicator& comm_;
  bool streams_;
  long spare_ = 0;
  std::vector<std::shared_ptr<void>> memory_;
  float *in_ = nullptr, *out_ = nullptr;
  std::string wrong_;
};

void every_verb(Desk& desk) {
  for (std::size_t v = 0; v < kVerbs; ++v) {
    const Verb verb = static_cast<Verb>(v);
    if (verb == Verb::send_recv) continue;
    for (const std::size_t count : kCounts) {
      for (const bool in_place : {false, true}) {
        const Request request = desk.request(verb, count, in_place, desk.comm().size() - 1);
        desk.expect_none(std::string(name_of(verb)) + " of " + std::to_string(count) + (in_place ? " in place" : ""),
                         [&] { desk.comm().run(request); });
      }
    }
  }
}

void every_operator(Desk& desk) {
  const Op larger = Op::of<Pair>([](const Pair& a, const Pair& b) { return a.value < b.value ? b : a; });
  const Op last = Op::of<Pair>([](const Pair&, const Pair& b) { return b; }, false);
  for (const Verb verb : {Verb::all_reduce, Verb::reduce, Verb::reduce_scatter, Verb::scan}) {
    for (const Op& op : {larger, last, Op(ReduceOp::average), Op::premul_sum(0.5)}) {
      if (verb == Verb::scan && op.own() == nullptr) continue;
      for (const std::size_t count : {3, 30'000}) {
        Request request = desk.request(verb, count, false, 0);
        request.op = op;
        if (op.own() != nullptr) request.element = op.own()->element;
        desk.expect_none(std::string(name_of(verb)) + " of " + std::to_string(count) + " with " +
                             (op.own() != nullptr ? "an operator of its own" : std::string(name_of(op.builtin()))),
                         [&] { desk.comm().run(request); });
      }
    }
  }
}

void every_uneven_verb(Desk& desk) {
  Communicator& comm = desk.comm();
  const auto p = static_cast<std::size_t>(comm.size()), self = static_cast<std::size_t>(comm.rank());
  for (const std::size_t count : {std::size_t{5}, std::size_t{20'000}}) {
    std::vector<std::size_t> counts(p), displacements(p);  // rank 0 has none, and there are gaps
    for (std::size_t r = 0; r < p; ++r) counts[r] = r * count;
    for (std::size_t r = 1; r < p; ++r) displacements[r] = displacements[r - 1] + counts[r - 1] + 3;
    const std::size_t reach = displacements[p - 1] + counts[p - 1];
    // What rank a sends to rank b is as long as what b sends to a.
    std::vector<std::size_t> both(p), both_at(p);
    for (std::size_t r = 0; r < p; ++r) both[r] = (r + self) * count / 2;
    for (std::size_t r = 1; r < p; ++r) both_at[r] = both_at[r - 1] + both[r - 1] + 3;
    const std::span<float> own_in(desk.in(), counts[self]), own_out(desk.out(), counts[self]);
    const std::span<float> all_in(desk.in(), reach), all_out(desk.out(), reach);
    const std::span<float> to_all(desk.in(), both_at[p - 1] + both[p - 1]), from_all(desk.out(), to_all.size());
    const Parts parts{counts, displacements}, sent{both, both_at};
    const std::string of = " of " + std::to_string(count);
    desk.expect_none("all_gather_v" + of, [&] { comm.all_gather_v(own_in, all_out, parts); });
    desk.expect_none("gather_v" + of, [&] { comm.gather_v(own_in, all_out, parts, 0); });
    desk.expect_none("scatter_v" + of, [&] { comm.scatter_v(all_in, parts, own_out, 0); });
    desk.expect_none("reduce_scatter_v" + of, [&] { comm.reduce_scatter_v(all_in, parts, own_out); });
    desk.expect_none("all_to_all_v" + of, [&] { comm.all_to_all_v(to_all, sent, from_all, sent); });
  }
}

void every_message(Desk& desk) {
  Communicator& comm = desk.comm();
  const int right = (comm.rank() + 1) % comm.size(), left = (comm.rank() + comm.size() - 1) % comm.size();
  for (const std::size_t count : kCounts) {
    const std::span<float> out(desk.in(), count), in(desk.out(), count);
    const std::string of = " of " + std::to_string(count);
    desk.expect_none("send_recv" + of, [&] { comm.send_recv(out, right, in, left, 3); });
    if (comm.rank() > 1) continue;
    const int peer = 1 - comm.rank();
    desk.expect_none("send, then recv" + of, [&] {
      if (comm.rank() == 0) comm.send(out, peer);
      comm.recv(in, comm.size() == 2 ? kAnySource : peer, kAnyTag);
      if (comm.rank() == 1) comm.send(out, peer);
    });
    desk.expect_none("probe" + of, [&] {
      if (comm.rank() == 0) comm.send(out, peer, 5);
      comm.probe(peer, 5);
      comm.recv(in, peer, 5);
      if (comm.rank() == 1) comm.send(out, peer, 5);
    });
  }
  comm.barrier();
}

struct Case {
  Ranks kind;
  int ranks;
  Check check = Check::quick;
  bool recorded = false;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.ranks << " " << testing::name_of(c.kind); }

class Allocations : public ::testing::TestWithParam<Case> {
 protected:
  static void run(const std::function<void(Desk&)>& body) {
    const Case& c = GetParam();
    Options options;
    options.check = c.check;
    // Where ranks share no memory symmetric memory is ordinary.
    for (const bool symmetric : {false, true}) {
      if (symmetric && c.kind == Ranks::tcp) continue;
      const testing::Folder folder;
      const auto rank = [&](Communicator& comm) {
        if (c.recorded) comm.trace().start(folder.path() + "/run.json", 1024);
        Desk desk(comm, symmetric, c.kind == Ranks::tcp);
        body(desk);
        desk.require_none();
      };
      testing::expect_all_ok(testing::run_ranks(c.kind, c.ranks, rank, options));
    }
  }
};

TEST_P(Allocations, OfNoVerb) { run(every_verb); }
TEST_P(Allocations, OfNoOperator) { run(every_operator); }
TEST_P(Allocations, OfNoUnevenVerb) { run(every_uneven_verb); }
TEST_P(Allocations, OfNoMessage) { run(every_message); }

INSTANTIATE_TEST_SUITE_P(Groups, Allocations,
                         ::testing::Values(Case{Ranks::threads, 2}, Case{Ranks::threads, 4}, Case{Ranks::processes, 2},
                                           Case{Ranks::processes, 3}, Case{Ranks::tcp, 2}, Case{Ranks::tcp, 3},
                                           Case{Ranks::threads, 3, Check::full},
                                           Case{Ranks::threads, 3, Check::quick, true},
                                           Case{Ranks::processes, 2, Check::quick, true}),
                         [](const auto& test) {
                           return testing::name_of(test.param.kind) + "_" + std::to_string(test.param.ranks) +
                                  (test.param.check == Check::full ? "_checked" : "") +
                                  (test.param.recorded ? "_recorded" : "");
                         });

// That the counters count: a vector, a string, what is aligned, and a lock.
TEST(Counting, SeesEveryKindOfAllocation) {
  struct alignas(128) Wide {
    char bytes[128];
  };
  testing::start_counting();
  std::vector<int> numbers(1000);
  auto wide = std::make_unique<Wide>();
  void* zeros = std::calloc(10, 10);
  zeros = std::realloc(zeros, 1000);
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  const testing::Counts counts = testing::stop_counting();
  pthread_mutex_unlock(&mutex);
  std::free(zeros);
  EXPECT_EQ(counts.allocations, 4) << numbers.size() << wide.get();
  EXPECT_EQ(counts.locks, 1);
}

}  // namespace
}  // namespace tutti
