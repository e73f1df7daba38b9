// Two buffers reduced without any rank: the bits of an all_reduce between two, for every type and operator.
#include "tutti/reduce_local.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "check.h"
#include "kernels/samples.h"

namespace tutti {
namespace {

using kernels_test::make_samples;
using kernels_test::reference_supports;
using testing::error_of;

constexpr std::size_t kCount = 5003;  // more than a tile of every type
using Bytes = kernels_test::Buffer;

Bytes between_two_ranks(DType type, const Op& op, const Bytes (&inputs)[2]) {
  Bytes result(inputs[0].size());
  testing::expect_all_ok(run_threads(2, [&](Communicator& comm) {
    Bytes output(result.size());
    comm.run(testing::all_reduce_of(inputs[comm.rank()].data(), output.data(), kCount, type, op));
    if (comm.rank() == 0) result = output;
  }));
  return result;
}

class ReduceLocal : public ::testing::TestWithParam<DType> {};

TEST_P(ReduceLocal, GivesTheBitsOfTwoRanks) {
  const DType type = GetParam();
  const Bytes inputs[2] = {make_samples(type, kCount, 1), make_samples(type, kCount, 2)};
  for (std::size_t o = 0; o < kReduceOps; ++o) {
    const auto name = static_cast<ReduceOp>(o);
    const Op op = name == ReduceOp::premul_sum ? Op::premul_sum(0.3) : Op(name);
    Bytes output(inputs[0].size());
    const auto reduce = [&](const Bytes& left, const Bytes& right, Bytes& to) {
      reduce_local(left.data(), right.data(), to.data(), kCount, type, op);
    };
    if (!reference_supports(type, name)) {
      const Error error = error_of([&] { reduce(inputs[0], inputs[1], output); });
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      EXPECT_EQ(std::string(error.what()).find("reduce_local: "), 0u) << error.what();
      continue;
    }
    const Bytes expected = between_two_ranks(type, op, inputs);
    reduce(inputs[0], inputs[1], output);
    EXPECT_EQ(output, expected) << name_of(name);
    Bytes left = inputs[0], right = inputs[1];
    reduce(left, inputs[1], left);
    EXPECT_EQ(left, expected) << name_of(name) << " into the left operand";
    reduce(inputs[0], right, right);
    EXPECT_EQ(right, expected) << name_of(name) << " into the right operand";
  }
}

constexpr DType kTypes[] = {
#define X(name, bytes) DType::name,
    TUTTI_DTYPES(X)
#undef X
};
INSTANTIATE_TEST_SUITE_P(Types, ReduceLocal, ::testing::ValuesIn(kTypes),
                         [](const auto& test) { return std::string(name_of(test.param)); });

struct Affine {
  double scale, shift;
  bool operator==(const Affine&) const = default;
};

TEST(ReduceLocalOwn, KeepsTheOrderOfItsOperands) {
  const auto compose = [](const Affine& a, const Affine& b) {
    return Affine{a.scale * b.scale, a.shift * b.scale + b.shift};
  };
  const std::vector<Affine> input{{2, 1}, {3, 5}};
  std::vector<Affine> inout{{7, 11}, {13, 17}};
  reduce_local(input, inout, Op::of<Affine>(compose, false));
  EXPECT_EQ(inout, (std::vector<Affine>{{14, 18}, {39, 82}}));
}

TEST(ReduceLocalOwn, MayTakeElementsOfAnySizeAndThrow) {
  struct Large {
    char bytes[100'000];
  };
  std::vector<Large> a(2), b(2);
  a[1].bytes[99'999] = 1;
  b[1].bytes[99'999] = 2;
  reduce_local(a, b, Op::of<Large>([](const Large& x, const Large&) { return x; }));
  EXPECT_EQ(b[1].bytes[99'999], 1);
  const auto throws = [](int, int) -> int { throw std::runtime_error("no such luck"); };
  std::vector<int> x(3);
  const Error error = error_of([&] { reduce_local(x, x, Op::of<int>(throws, true, "odd")); });
  EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
  EXPECT_NE(std::string(error.what()).find("the operator 'odd' threw an exception: no such luck"), std::string::npos);
}

TEST(ReduceLocalRefuses, WhatItCannotDo) {
  std::vector<float> x(8, 1.0f), y(8, 2.0f), kept = y;
  const auto refused = [&](const auto& call, const std::string& words) {
    const Error error = error_of(call);
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
    EXPECT_NE(std::string(error.what()).find("reduce_local: "), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  };
  refused([&] { reduce_local(std::span(x).first(7), y); }, "7 elements");
  refused([&] { reduce_local(x, std::span(x).first(7), y); }, "7 elements");
  refused([&] { reduce_local(nullptr, x.data(), y.data(), 8, DType::float32, ReduceOp::sum); }, "null");
  refused([&] { reduce_local(x.data(), nullptr, y.data(), 8, DType::float32, ReduceOp::sum); }, "null");
  refused([&] { reduce_local(x.data(), x.data(), nullptr, 8, DType::float32, ReduceOp::sum); }, "null");
  refused([&] { reduce_local(x.data(), x.data(), x.data() + 1, 7, DType::float32, ReduceOp::sum); }, "overlap");
  refused([&] { reduce_local(x.data(), y.data() + 1, y.data(), 7, DType::float32, ReduceOp::sum); }, "overlap");
  const auto* odd = reinterpret_cast<const std::byte*>(x.data()) + 1;
  refused([&] { reduce_local(odd, x.data(), y.data(), 4, DType::float32, ReduceOp::sum); }, "aligned");
  EXPECT_EQ(y, kept);
  reduce_local(nullptr, nullptr, nullptr, 0, DType::float32, ReduceOp::sum);
}

}  // namespace
}  // namespace tutti
