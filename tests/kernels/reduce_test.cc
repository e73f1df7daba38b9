// Every reduction against the reference, bit for bit, on every instruction set this machine has.
//
// The reference is computed once for the longest count; a shorter count must give its prefix, because a result depends
// on its own index alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/canonical.h"
#include "kernels/kernels.h"
#include "kernels/reference.h"
#include "kernels/samples.h"
#include "kernels/targets.h"

namespace tutti::kernels_test {
namespace {

constexpr DType kTypes[] = {
#define X(name, bytes) DType::name,
    TUTTI_DTYPES(X)
#undef X
};
constexpr ReduceOp kOps[] = {
#define X(name) ReduceOp::name,
    TUTTI_REDUCE_OPS(X)
#undef X
};
constexpr std::size_t kSourceCounts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33};
constexpr std::size_t kShortCounts[] = {0, 1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 200, 257};
constexpr std::size_t kLongCount = 4133;  // more than one tile of every type, and odd
constexpr std::byte kUntouched{0xA5};

struct Case {
  DType type;
  ReduceOp op;
  std::size_t source_count;
  std::uint32_t divisor;

  std::string name() const {
    return std::string(name_of(type)) + " " + std::string(name_of(op)) + " of " + std::to_string(source_count) + " / " +
           std::to_string(divisor);
  }
};

// Memory for one operand: `offset` elements (components, for complex numbers) past an aligned address, with a rim that
// must stay untouched.
class Operand {
 public:
  Operand(DType type, std::size_t count, std::size_t offset)
      : bytes_(count * size_of(type)), start_(kRim + offset * alignment_of(type)), memory_(start_ + bytes_ + kRim) {
    std::fill(memory_.begin(), memory_.end(), kUntouched);
    start_ += (64 - reinterpret_cast<std::uintptr_t>(memory_.data()) % 64) % 64;
  }
  std::byte* data() { return memory_.data() + start_; }
  bool rim_is_untouched() const {
    const auto untouched = [](std::byte b) { return b == kUntouched; };
    const auto begin = memory_.begin() + static_cast<std::ptrdiff_t>(start_);
    return std::all_of(memory_.begin(), begin, untouched) &&
           std::all_of(begin + static_cast<std::ptrdiff_t>(bytes_), memory_.end(), untouched);
  }

 private:
  static constexpr std::size_t kRim = 192;
  static std::size_t alignment_of(DType type) {
    return type == DType::complex64 || type == DType::complex128 ? size_of(type) / 2 : size_of(type);
  }
  std::size_t bytes_;
  std::size_t start_;
  Buffer memory_;
};

class Sources {
 public:
  explicit Sources(const Case& c) {
    for (std::size_t s = 0; s < c.source_count; ++s) data_.push_back(make_samples(c.type, kLongCount, s + 1));
  }
  std::vector<const std::byte*> pointers() const {
    std::vector<const std::byte*> result;
    for (const Buffer& b : data_) result.push_back(b.data());
    return result;
  }

 private:
  std::vector<Buffer> data_;
};

// Runs one kernel call and compares. In place means that the first destination is the last source.
void check_call(const Case& c, const Sources& samples, const Buffer& expected, std::size_t count,
                std::size_t destination_count, std::size_t offset, bool in_place, bool past_caches) {
  const std::size_t bytes = count * size_of(c.type);
  std::vector<Operand> sources, destinations;
  std::vector<const void*> source_pointers;
  std::vector<void*> destination_pointers;
  for (const std::byte* from : samples.pointers()) {
    std::copy_n(from, bytes, sources.emplace_back(c.type, count, offset == 0 ? 0 : offset + sources.size()).data());
  }
  for (std::size_t d = 0; d < destination_count; ++d) destinations.emplace_back(c.type, count, offset * (d + 1));
  for (Operand& operand : sources) source_pointers.push_back(operand.data());
  for (Operand& operand : destinations) destination_pointers.push_back(operand.data());
  if (in_place) destination_pointers[0] = sources.back().data();

  kernels::find_reduce(c.type, c.op)(destination_pointers.data(), destination_count, source_pointers.data(),
                                     c.source_count, count, {c.divisor, past_caches});

  for (std::size_t d = 0; d < destination_count; ++d) {
    const auto* result = static_cast<const std::byte*>(destination_pointers[d]);
    const auto first = std::mismatch(result, result + bytes, expected.begin()).first;
    ASSERT_EQ(first, result + bytes) << c.name() << ": element "
                                     << static_cast<std::size_t>(first - result) / size_of(c.type) << " of " << count
                                     << ", destination " << d << " of " << destination_count << ", offset " << offset
                                     << (in_place ? ", in place" : "") << (past_caches ? ", past the caches" : "");
    ASSERT_TRUE(destinations[d].rim_is_untouched()) << c.name() << ", count " << count;
  }
  for (const Operand& operand : sources) ASSERT_TRUE(operand.rim_is_untouched()) << c.name() << ", count " << count;
}

void check_case(const Case& c) {
  const Sources samples(c);
  const Buffer expected = reference_reduce(c.type, c.op, samples.pointers(), kLongCount, c.divisor);
  for (std::size_t target = 0; target < kernels::target_count(); ++target) {
    SCOPED_TRACE(kernels::target_name(target));
    kernels::use_target(target);
    std::size_t variation = c.source_count;
    for (const std::size_t count : kShortCounts) {
      constexpr std::size_t kDestinationCounts[] = {1, 2, 5};
      check_call(c, samples, expected, count, kDestinationCounts[variation % 3], variation % 4, variation % 5 == 0,
                 variation % 7 < 3);
      ++variation;
    }
    for (const bool past_caches : {false, true})
      check_call(c, samples, expected, kLongCount, 1 + variation % 2, target, variation % 3 == 0, past_caches);
    if (testing::Test::HasFatalFailure()) break;
  }
  kernels::use_target(0);
}

class ReduceTest : public testing::TestWithParam<DType> {};

TEST_P(ReduceTest, EveryOperatorAndSourceCount) {
  for (const ReduceOp op : kOps) {
    if (!reference_supports(GetParam(), op) || op == ReduceOp::average || op == ReduceOp::premul_sum) continue;
    for (const std::size_t source_count : kSourceCounts) {
      ASSERT_NO_FATAL_FAILURE(check_case({GetParam(), op, source_count, 1}));
    }
  }
}

TEST_P(ReduceTest, AverageDividesBeforeTheLastRounding) {
  // Booleans have no average, and find_reduce says so.
  if (!reference_supports(GetParam(), ReduceOp::average)) {
    EXPECT_EQ(kernels::find_reduce(GetParam(), ReduceOp::average), nullptr);
    return;
  }
  for (const std::size_t source_count : {1, 2, 3, 5, 8, 9}) {
    for (const std::uint32_t divisor : {2u, 3u, 8u, 100u, 1000003u, 0x80000000u}) {
      ASSERT_NO_FATAL_FAILURE(check_case({GetParam(), ReduceOp::average, source_count, divisor}));
    }
  }
}

// All ways of laying out a call, for one operator, since layout and operator do not meet in the code.
TEST_P(ReduceTest, EveryLayout) {
  for (const std::size_t source_count : {2, 5}) {
    const Case c{GetParam(), ReduceOp::product, source_count, 1};
    const Sources samples(c);
    const Buffer expected = reference_reduce(c.type, c.op, samples.pointers(), 300, 1);
    for (std::size_t target = 0; target < kernels::target_count(); ++target) {
      SCOPED_TRACE(kernels::target_name(target));
      kernels::use_target(target);
      for (const std::size_t destination_count : {1, 2, 5}) {
        for (const std::size_t offset : {0, 1}) {
          for (const auto& [in_place, past_caches] :
               {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
            for (std::size_t count = 0; count < 300; count += count < 70 ? 1 : 23) {
              check_call(c, samples, expected, count, destination_count, offset, in_place, past_caches);
              ASSERT_FALSE(HasFatalFailure());
            }
          }
        }
      }
    }
  }
  kernels::use_target(0);
}

std::string type_name(const testing::TestParamInfo<DType>& info) { return std::string(name_of(info.param)); }
INSTANTIATE_TEST_SUITE_P(Types, ReduceTest, testing::ValuesIn(kTypes), type_name);

TEST(ReduceTableTest, HasWhatTheTypesDocumentationSays) {
  for (const DType type : kTypes) {
    for (const ReduceOp op : kOps) {
      EXPECT_EQ(kernels::supports(type, op), reference_supports(type, op)) << name_of(type) << " " << name_of(op);
      EXPECT_EQ(kernels::find_reduce(type, op) != nullptr, kernels::supports(type, op));
    }
    if (type == DType::boolean) continue;
    EXPECT_EQ(kernels::find_reduce(type, ReduceOp::average), kernels::find_reduce(type, ReduceOp::sum));
    EXPECT_EQ(kernels::find_reduce(type, ReduceOp::premul_sum), kernels::find_reduce(type, ReduceOp::sum));
  }
}

std::string join(const std::string& left, const std::string& right) {
  std::string joined = "(";
  joined.append(left).append("+").append(right).append(")");
  return joined;
}

std::string split_expression(std::size_t first, std::size_t n) {
  if (n == 1) return std::to_string(first);
  const std::size_t left = canonical_split(n);
  return join(split_expression(first, left), split_expression(first + left, n - left));
}

TEST(CanonicalSplitTest, IsTheCanonicalFoldSeenFromItsRoot) {
  for (std::size_t n = 1; n <= 300; ++n) {
    std::vector<std::string> items;
    for (std::size_t i = 0; i < n; ++i) items.push_back(std::to_string(i));
    canonical_fold(std::span<std::string>(items), [](std::string& a, std::string& b) { a = join(a, b); });
    ASSERT_EQ(split_expression(0, n), items[0]);
  }
}

}  // namespace
}  // namespace tutti::kernels_test
