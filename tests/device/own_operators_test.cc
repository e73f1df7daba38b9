// Operators of the caller's that come with a source for devices: reduced there by one launch, with the bits of the
// processor; and without one, or where it does not serve, through host memory.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "check.h"
#include "device/device_memory.h"
#include "device/on_both.h"
#include "device/said.h"

namespace tutti {
namespace {

using testing::DeviceBytes;
using testing::error_of;
using testing::kLaunched;
using testing::require;

// Both have each sum rounded by itself.
Op farthest() {
  return Op::of<float>([](float a, float b) { return std::fabs(a) < std::fabs(b) ? b : a; }, true, "farthest", R"(
    __device__ Element combine(const Element& a, const Element& b) { return fabsf(a) < fabsf(b) ? b : a; })");
}

// Composition, which does not commute. 12 bytes: no access of 16 holds a whole number of them.
struct Line {
  float scale, shift;
  std::int32_t pieces;
};
Line compose(const Line& a, const Line& b) {
  return {a.scale * b.scale, a.shift * b.scale + b.shift, a.pieces + b.pieces};
}
constexpr char kCompose[] = R"(
    struct Element { float scale, shift; int pieces; };
    static __device__ float mixed(float a, float b, float c) { return a * b + c; }
    __device__ Element combine(const Element& a, const Element& b) {
      return {a.scale * b.scale, mixed(a.shift, b.scale, b.shift), a.pieces + b.pieces};
    })";

// Names that the kernel's own source has, too.
struct Operands {
  std::int64_t sum, least;
};
Op spread() {
  return Op::of<Operands>(
      [](const Operands& a, const Operands& b) {
        return Operands{a.sum + b.sum, std::min(a.least, b.least)};
      },
      true, "spread", R"(
    struct Operands { long long sum, least; };
    typedef Operands Element;
    struct Sum { static __device__ long long of(long long a, long long b) { return a + b; } };
    __device__ Element combine(const Element& a, const Element& b) {
      return {Sum::of(a.sum, b.sum), a.least < b.least ? a.least : b.least};
    })");
}

// Of 16-bit floats their bits: the larger one, of positive numbers.
Op larger_bits() {
  const auto larger = [](const bfloat16& a, const bfloat16& b) { return a.bits < b.bits ? b : a; };
  return Op::of<bfloat16>(larger, true, "larger bits",
                          "__device__ Element combine(const Element& a, const Element& b) { return a < b ? b : a; }");
}

// Small whole numbers and halves, of which every sum and product is exact, whatever a compiler joins them to.
template <class T>
std::vector<T> make_values(std::size_t count, int rank) {
  std::mt19937 random(static_cast<unsigned>(rank + 3));
  std::vector<T> values(count);
  for (T& value : values) {
    const auto number = [&] { return static_cast<int>(random() % 9) - 4; };
    if constexpr (std::is_same_v<T, float>) {
      value = static_cast<float>(number()) / 2;
    } else if constexpr (std::is_same_v<T, Line>) {
      value = {static_cast<float>(number() % 2 + 1), static_cast<float>(number()) / 2, 1};
    } else if constexpr (std::is_same_v<T, Operands>) {
      value = {number(), number()};
    } else {
      value.bits = static_cast<std::uint16_t>(random() & 0x7f7f);
    }
  }
  return values;
}

// One verb on both: in host memory, and on the device behind `shift` elements.
template <class T>
void compare(Communicator& comm, const Op& op, Verb verb, std::size_t count, std::size_t shift, bool launched = true) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  const std::size_t in = verb == Verb::reduce_scatter ? count * ranks : count;
  const std::size_t out = verb == Verb::reduce && comm.rank() != 1 ? 0 : count;
  const std::vector<T> values = make_values<T>(in, comm.rank());
  std::vector<T> expected(out), found(out);
  const auto run = [&](const void* input, void* output) {
    comm.run({.verb = verb,
              .input = input,
              .output = out == 0 ? nullptr : output,
              .input_count = in,
              .output_count = out,
              .element = Element::of<T>(),
              .op = op,
              .root = verb == Verb::reduce ? 1 : 0});
  };
  run(values.data(), expected.data());
  const DeviceBytes input((in + shift) * sizeof(T)), output((count + shift) * sizeof(T));
  input.write(values.data(), in * sizeof(T), shift * sizeof(T));
  run(input.data() + shift * sizeof(T), output.data() + shift * sizeof(T));
  const std::string what = std::string(name_of(verb)) + " by " + op.own()->name + " of " + std::to_string(count) +
                           ", shifted by " + std::to_string(shift);
  require((comm.last_algorithm() == kLaunched) == launched,
          what + " was done by " + std::string(comm.last_algorithm()));
  if (out != 0) output.read(found.data(), out * sizeof(T), shift * sizeof(T));
  require(out == 0 || std::memcmp(found.data(), expected.data(), out * sizeof(T)) == 0,
          what + ": other bits than the processor's");
}

template <class T>
void compare_all(Communicator& comm, const Op& op) {
  for (const Verb verb : {Verb::all_reduce, Verb::reduce, Verb::reduce_scatter}) {
    for (const auto& [count, shift] : {std::pair<std::size_t, std::size_t>{1, 0}, {1003, 0}, {1003, 1}, {4096, 0}})
      compare<T>(comm, op, verb, count, shift);
  }
}

TEST(OwnOperatorsOnDevices, HaveTheBitsOfTheProcessor) {
  for (const int ranks : {2, 3, 5}) {
    testing::expect_all_ok(run_processes(ranks, [](Communicator& comm) {
      compare_all<float>(comm, farthest());
      compare_all<Line>(comm, Op::of<Line>(compose, false, "compose", kCompose));
      compare_all<Operands>(comm, spread());
      compare_all<bfloat16>(comm, larger_bits());
    }));
  }
}

// One kernel after the other: which one it is hangs on the source, not on the type.
TEST(OwnOperatorsOnDevices, AreNotTakenForEachOther) {
  testing::expect_all_ok(run_processes(2, [](Communicator& comm) {
    const Op nearest =
        Op::of<float>([](float a, float b) { return std::fabs(b) < std::fabs(a) ? b : a; }, true, "nearest", R"(
      __device__ Element combine(const Element& a, const Element& b) { return fabsf(b) < fabsf(a) ? b : a; })");
    for (int round = 0; round < 3; ++round) {
      compare<float>(comm, farthest(), Verb::all_reduce, 77, 0);
      compare<float>(comm, nearest, Verb::all_reduce, 77, 0);
      std::vector<int> ones(10, 1);
      const DeviceBytes on_device(ones.size() * sizeof(int));
      on_device.write(ones.data(), on_device.size());
      comm.run(testing::all_reduce_of(on_device.data(), on_device.data(), ones.size(), DType::int32));
      on_device.read(ones.data(), on_device.size());
      require(ones == std::vector<int>(10, 2), "another sum");
    }
  }));
}

TEST(OwnOperatorsOnDevices, GoThroughHostMemoryWithoutASourceOrWithElementsTooLarge) {
  struct Page {
    std::array<std::int32_t, 200> numbers;  // 800 bytes: with 2 ranks more than a thread of a kernel is to hold
  };
  testing::expect_all_ok(run_processes(2, [](Communicator& comm) {
    const Op plain = Op::of<float>([](float a, float b) { return a < b ? b : a; }, true, "plain");
    compare<float>(comm, plain, Verb::all_reduce, 77, 0, false);
    const auto join = [](const Page& a, const Page& b) {
      Page sum = a;
      for (std::size_t i = 0; i < sum.numbers.size(); ++i) sum.numbers[i] += b.numbers[i];
      return sum;
    };
    const Op pages = Op::of<Page>(join, true, "pages", R"(
      struct Element { int numbers[200]; };
      __device__ Element combine(const Element& a, const Element& b) {
        Element sum = a;
        for (int i = 0; i < 200; ++i) sum.numbers[i] += b.numbers[i];
        return sum;
      })");
    const DeviceBytes buffer(3 * sizeof(Page));
    std::vector<Page> values(3);
    for (Page& page : values) page.numbers.fill(comm.rank() + 1);
    buffer.write(values.data(), buffer.size());
    comm.run({.verb = Verb::all_reduce,
              .input = buffer.data(),
              .output = buffer.data(),
              .input_count = values.size(),
              .output_count = values.size(),
              .element = Element::of<Page>(),
              .op = pages});
    require(comm.last_algorithm() != kLaunched, "launched all the same");
    buffer.read(values.data(), buffer.size());
    require(values[2].numbers[199] == 3, "another sum");
  }));
}

// It works, the other way; and whose it is can read where the fault is.
void expect_named(const char* source, const char* words) {
  const std::string said = testing::said_by(2, "warn", [&](Communicator& comm) {
    const Op op = Op::of<Line>(compose, false, "mistyped", source);
    for (int call = 0; call < 3; ++call) compare<Line>(comm, op, Verb::all_reduce, 77, 0, false);
  });
  const std::string begin = "the operator 'mistyped': NVRTC does not compile its device source: ";
  EXPECT_NE(said.find(begin), std::string::npos) << said;
  EXPECT_NE(said.find(words), std::string::npos) << said;
  for (const std::string rank : {"rank 0", "rank 1"})  // the one that launches, which is not always the same
    EXPECT_LE(testing::times_in(said, rank + "] calls on device memory cannot be launched"), 1U) << said;
}

TEST(OwnOperatorsOnDevices, ASourceThatDoesNotCompileIsNamedWithItsPlace) {
  if (testing::on_real_device()) GTEST_SKIP() << "NVRTC has words of its own";
  expect_named(
      "struct Element { float scale, shift; int pieces; };\n"
      "__device__ Element combine(const Element& a, const Element& b) {\n  return nothing;\n}",
      "operator:3:");
  expect_named(
      "struct Element { char letters[3]; };\n"
      "__device__ Element combine(const Element& a, const Element&) { return a; }",
      "another size than the call's");
}

TEST(OwnOperatorsOnDevices, RanksThatGaveOtherSourcesAreTold) {
  testing::expect_all_ok(run_processes(2, [](Communicator& comm) {
    const std::string body = comm.rank() == 0 ? "a" : "b";
    const Op op =
        Op::of<float>([](float a, float) { return a; }, true, "first",
                      "__device__ Element combine(const Element& a, const Element& b) { return " + body + "; }");
    const DeviceBytes buffer(4000);
    const Error error =
        error_of([&] { comm.run(testing::all_reduce_of(buffer.data(), buffer.data(), 1000, DType::float32, op)); });
    require(error.code() == ErrorCode::mismatch, error.what());
  }));
}

}  // namespace
}  // namespace tutti
