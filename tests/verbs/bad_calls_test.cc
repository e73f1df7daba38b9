// Calls that cannot be carried out as written: refused before anything moves, with the verb, what is wrong and what
// would be right; and the calls that follow find everything as it was.
#include <gtest/gtest.h>

#include <numeric>

#include "check.h"
#include "schedule/verbs.h"

namespace tutti {
namespace {

using testing::Ranks;
using testing::require;
using Counts = std::vector<std::size_t>;

constexpr std::size_t kChunk = 6;
constexpr float kUntouched = -3.5f;

// A correct request of each verb, on buffers that are large enough for what is broken about it.
struct Desk {
  explicit Desk(Communicator& group) : comm(group), ranks(static_cast<std::size_t>(group.size())), in(100), out(100) {
    std::iota(in.begin(), in.end(), static_cast<float>(comm.rank()));
    std::fill(out.begin(), out.end(), kUntouched);
    counts.assign(ranks, kChunk);
    for (std::size_t r = 0; r < ranks; ++r) displacements.push_back(r * (kChunk + 1));
  }

  Request good(Verb verb, bool uneven = false) {
    const schedule::VerbFacts facts = schedule::facts_of(verb);
    const auto many = [&](schedule::Share share) {
      const bool all = share == schedule::Share::all || share == schedule::Share::all_at_root;
      return facts.cut == schedule::Cut::chunks && all ? kChunk * ranks + (uneven ? ranks : 0) : kChunk;
    };
    Request request{.verb = verb,
                    .input = in.data(),
                    .output = out.data(),
                    .input_count = many(facts.input),
                    .output_count = many(facts.output),
                    .element = DType::float32};
    if (verb == Verb::send_recv) {
      request.direction = Direction::send;
      request.peer = (comm.rank() + 1) % comm.size();
    }
    request.uneven = uneven;
    if (uneven && request.input_count != kChunk) request.input_parts = {counts, displacements};
    if (uneven && request.output_count != kChunk) request.output_parts = {counts, displacements};
    return request;
  }

  // Refused with this code, by words that begin with the verb and have `words` in them; nothing has moved.
  void refused(const Request& request, const std::string& words, ErrorCode code = ErrorCode::invalid_argument) {
    const std::string name = std::string(name_of(request.verb)) + (request.uneven ? "_v" : "");
    for (const bool async : {false, true}) {
      try {
        if (async) {
          Work work = comm.submit(request);
          work.wait();
        } else {
          comm.run(request);
        }
        require(false, name + " was accepted that has: " + words);
      } catch (const Error& error) {
        const std::string said = error.what();
        require(error.code() == code && said.find(name + ": ") == 0 && said.find(words) != std::string::npos,
                "'" + said + "' for " + words);
      }
    }
    for (const float value : out) require(value == kUntouched, name + " moved something");
  }

  Communicator& comm;
  std::size_t ranks;
  std::vector<float> in, out;
  Counts counts, displacements;
};

constexpr Verb kCollectives[] = {Verb::all_reduce,     Verb::broadcast,     Verb::reduce,     Verb::scatter,
                                 Verb::gather,         Verb::all_gather,    Verb::all_to_all, Verb::scan,
                                 Verb::exclusive_scan, Verb::reduce_scatter};

bool used(const Desk& desk, Verb verb, schedule::Buffer buffer) {
  if (verb == Verb::broadcast && buffer == schedule::Buffer::input) return desk.comm.rank() == 0;
  return schedule::holding_of(verb, buffer, desk.comm.size(), desk.comm.rank(), 0) != schedule::Holding::nothing;
}

void refuse_bad_buffers(Desk& desk, Verb verb, bool uneven) {
  const bool has_input = used(desk, verb, schedule::Buffer::input);
  const bool has_output = used(desk, verb, schedule::Buffer::output);
  const Request good = desk.good(verb, uneven);
  Request bad = good;
  if (has_input) {
    bad.input = nullptr;
    desk.refused(bad, "input is null");
    bad.input = reinterpret_cast<const char*>(desk.in.data()) + 1;
    desk.refused(bad, "input is not aligned to 4 bytes");
  }
  bad = good;
  if (has_output) {
    bad.output = nullptr;
    desk.refused(bad, "output is null");
    bad.output = reinterpret_cast<char*>(desk.out.data()) + 2;
    desk.refused(bad, "output is not aligned to 4 bytes");
  }
  bad = good;
  if (has_input && has_output) {
    bad.input = desk.out.data() + 1;
    bad.output = desk.out.data();
    // Not even this rank's chunk, whichever it is.
    if (!schedule::facts_of(verb).rooted || desk.comm.rank() == 0) desk.refused(bad, "overlap");
    // The far end of the one in the beginning of the other.
    bad.input = desk.out.data();
    bad.output = desk.out.data() + good.input_count - (uneven && good.input_count != kChunk ? 2 : 1);
    if (good.input_count > kChunk || good.output_count == kChunk) desk.refused(bad, "overlap");
  }
  bad = good;
  bad.element = Element::of_bytes(0);
  desk.refused(bad, "an element has 1 byte to 1 GB, not 0");
  bad.element = Element::of_bytes(8, 3);
  desk.refused(bad, "power of two");
  bad.element = Element::of_bytes(12, 8);
  desk.refused(bad, "multiple of its alignment");
  bad.element = static_cast<DType>(200);
  desk.refused(bad, "there is no element type 200");
}

void refuse_bad_roots_and_operators(Desk& desk, Verb verb, bool uneven) {
  const schedule::VerbFacts facts = schedule::facts_of(verb);
  for (const int root : {-1, desk.comm.size(), 1 << 30}) {
    Request bad = desk.good(verb, uneven);
    bad.root = root;
    if (facts.rooted)
      desk.refused(
          bad, "root " + std::to_string(root) + " is not a rank of this group of " + std::to_string(desk.comm.size()));
  }
  if (!facts.reduces) return;
  Request bad = desk.good(verb, uneven);
  bad.op = ReduceOp::bxor;
  desk.refused(bad, "float32 has no operator bxor", ErrorCode::unsupported);
  bad.op = static_cast<ReduceOp>(77);
  desk.refused(bad, "there is no operator 77");
  bad.op = Op::of<int>([](int a, int b) { return a + b; }, true, "of ints");
  desk.refused(bad, "the operator 'of ints' is for int32, not for float32");
  bad.op = ReduceOp::sum;
  bad.element = Element::of_bytes(4);
  desk.refused(bad, "give an operator of your own (tutti::Op::of)", ErrorCode::unsupported);
  bad.element = DType::float32;
  bad.op = ReduceOp::average;
  if (schedule::facts_of(verb).prefix) desk.refused(bad, "average has no meaning for prefixes", ErrorCode::unsupported);
}

void refuse_bad_lengths(Desk& desk, Verb verb) {
  const bool has_input = used(desk, verb, schedule::Buffer::input);
  const bool has_output = used(desk, verb, schedule::Buffer::output);
  if (has_input && has_output) {
    Request bad = desk.good(verb);
    ++bad.input_count;
    desk.refused(bad, verb == Verb::all_to_all ? "no multiple of" : "must have");
    bad = desk.good(verb);
    --bad.output_count;
    desk.refused(bad, "must have");
  }
  Request bad = desk.good(verb);
  bad.input_count = bad.output_count = std::size_t{1} << 62;
  desk.refused(bad, "");
}

void refuse_bad_parts(Desk& desk, Verb verb, schedule::Buffer buffer) {
  if (schedule::holding_of(verb, buffer, desk.comm.size(), desk.comm.rank(), 0) != schedule::Holding::all) return;
  const bool input = buffer == schedule::Buffer::input;
  const std::string side = input ? "input" : "output";
  const auto with = [&](const Counts& counts, const Counts& displacements) {
    Request request = desk.good(verb, true);
    (input ? request.input_parts : request.output_parts) = {counts, displacements};
    return request;
  };
  const std::string needs = "the parts of " + side + " need " + std::to_string(desk.ranks);
  const Counts shorter(desk.ranks - 1, kChunk), longer(desk.ranks + 1, kChunk);
  desk.refused(with({}, {}), needs);
  desk.refused(with(shorter, {}), needs);
  desk.refused(with(longer, {}), needs);
  desk.refused(with(desk.counts, shorter), needs);
  Counts far = desk.displacements;
  far.back() += 2;
  desk.refused(with(desk.counts, far), "the parts of " + side + " reach to element");
  far.back() = ~std::size_t{0} - 2;
  desk.refused(with(desk.counts, far), "more than memory can hold");
  Counts many = desk.counts;
  many.front() = many.back() = ~std::size_t{0} / 2 + 2;
  desk.refused(with(many, {}), "");
  if (input) return;  // what is only read may be read twice
  Counts close = desk.displacements;
  close[1] -= 2;
  desk.refused(with(desk.counts, close), "overlap");
  // Nothing between two chunks keeps them from overlapping.
  if (desk.ranks < 3 || desk.comm.rank() == 1) return;
  Counts counts = desk.counts, places = desk.displacements;
  counts[1] = 0;
  places = {0, 2, 3};
  desk.refused(with(counts, places), "ranks 0 and 2 overlap");
}

class BadCallsOfVerbs : public ::testing::TestWithParam<std::tuple<Ranks, int>> {};

TEST_P(BadCallsOfVerbs, AreRefusedBeforeAnythingMoves) {
  const auto [kind, ranks] = GetParam();
  const auto body = [](Communicator& comm) {
    Desk desk(comm);
    const auto works = [&] {
      std::vector<int> one(1, 1);
      comm.all_reduce(one);
      require(one[0] == comm.size(), "the communicator still works");
    };
    for (const Verb verb : kCollectives) {
      refuse_bad_buffers(desk, verb, false);
      refuse_bad_roots_and_operators(desk, verb, false);
      refuse_bad_lengths(desk, verb);
      works();
      if (schedule::facts_of(verb).cut != schedule::Cut::chunks) {
        Request none = desk.good(verb);
        none.uneven = true;
        desk.refused(none, "there is no such variant");
        continue;
      }
      refuse_bad_buffers(desk, verb, true);
      refuse_bad_roots_and_operators(desk, verb, true);
      refuse_bad_parts(desk, verb, schedule::Buffer::input);
      refuse_bad_parts(desk, verb, schedule::Buffer::output);
      works();
    }
    // On one rank alone: the others never notice.
    if (comm.rank() == comm.size() - 1) refuse_bad_buffers(desk, Verb::all_reduce, false);
    works();
  };
  testing::expect_all_ok(testing::run_ranks(kind, ranks, body));
}

TEST_P(BadCallsOfVerbs, ThatGoAgainstTheVerbsOwnRules) {
  const auto [kind, ranks] = GetParam();
  const auto body = [](Communicator& comm) {
    Desk desk(comm);
    const auto me = static_cast<std::size_t>(comm.rank());
    // A rank's own chunk has one length.
    Counts counts = desk.counts;
    --counts[me];
    Request bad = desk.good(Verb::all_to_all, true);
    bad.input_parts = {counts, desk.displacements};
    desk.refused(bad, "rank " + std::to_string(me) + " sends itself 5 elements but expects 6");
    bad = desk.good(Verb::all_gather, true);
    bad.output_parts = {counts, desk.displacements};
    desk.refused(bad, "input has 6 elements, but the count of rank " + std::to_string(me) + " is 5");
    bad = desk.good(Verb::reduce_scatter, true);
    bad.input_parts = {counts, desk.displacements};
    desk.refused(bad, "output has 6 elements, but the count of rank " + std::to_string(me) + " is 5");
    bad = desk.good(Verb::all_to_all, true);
    bad.input = bad.output;
    desk.refused(bad, "out of place only");
    bad = desk.good(Verb::send_recv);
    bad.direction = Direction::none;
    desk.refused(bad, "a message is either sent or received");
    bad.direction = Direction::send;
    bad.peer = comm.size();
    desk.refused(bad, "is not a rank of this group of");
    bad.peer = 0;
    bad.tag = -2;
    desk.refused(bad, "tag -2 is negative");
    try {
      Request none;
      none.verb = static_cast<Verb>(99);
      comm.run(none);
      require(false, "verb 99 was accepted");
    } catch (const Error& error) {
      require(error.code() == ErrorCode::invalid_argument && error.what() == std::string("there is no verb 99"),
              error.what());
    }
    comm.barrier();
    comm.close();
    for (const Verb verb : kCollectives) {
      try {
        comm.run(desk.good(verb));
        require(false, "a closed communicator took a call");
      } catch (const Error& error) {
        require(error.code() == ErrorCode::invalid_argument || error.code() == ErrorCode::aborted, error.what());
      }
    }
  };
  testing::expect_all_ok(testing::run_ranks(kind, ranks, body));
}

INSTANTIATE_TEST_SUITE_P(Groups, BadCallsOfVerbs,
                         ::testing::Combine(::testing::ValuesIn(testing::kAllRanks), ::testing::Values(2, 3)),
                         [](const auto& test) {
                           return testing::name_of(std::get<0>(test.param)) + "_" +
                                  std::to_string(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace tutti
