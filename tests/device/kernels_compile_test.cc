// Every kernel, made into code by a real NVRTC, over the fake driver: no device is needed for that, and none runs it.
// TUTTI_NVRTC names the compiler (make test-kernels); without one there is nothing to see.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "device/driver.h"
#include "device/kernel_compiler.h"

namespace tutti::device {
namespace {

class CompiledKernels : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("TUTTI_NVRTC") == nullptr) GTEST_SKIP() << "TUTTI_NVRTC names no compiler: make test-kernels";
    ::setenv("TUTTI_CUDA_DRIVER", FAKE_CUDA, 1);
    look_for_driver();
    ASSERT_NE(driver(), nullptr) << "the fake driver is to be there";
    CuContext context = nullptr;
    driver()->check(driver()->cuDevicePrimaryCtxRetain(&context, 0), "a device");
    driver()->check(driver()->cuCtxPushCurrent_v2(context), "a device");
  }
  void make(DType type, ReduceOp op, int sources) {
    SCOPED_TRACE(std::string(name_of(type)) + " " + std::string(name_of(op)) + " of " + std::to_string(sources));
    if (!KernelCompiler::has_reduce(type, op, sources)) return;
    ++made_;
    EXPECT_NO_THROW(KernelCompiler::of_process().reduce(*driver(), 0, type, op, sources));
  }
  void make(std::optional<DType> type, std::size_t bytes, std::size_t alignment, const std::string& text) {
    SCOPED_TRACE(text);
    EXPECT_NO_THROW(KernelCompiler::of_process().reduce(*driver(), 0, {text, type, bytes, alignment}, 3));
  }
  int made_ = 0;
};

TEST_F(CompiledKernels, OfEveryTypeAndOperator) {
  for (std::size_t type = 0; type < kDTypes; ++type) {
    for (std::size_t op = 0; op < kReduceOps; ++op) make(static_cast<DType>(type), static_cast<ReduceOp>(op), 3);
    make(static_cast<DType>(type), ReduceOp::sum, 8);
  }
  make(DType::float32, ReduceOp::sum, kMostOperands);
  make(DType::bfloat16, ReduceOp::sum, kMostOperands);
  EXPECT_NO_THROW(KernelCompiler::of_process().copy(*driver(), 0));
  EXPECT_GE(made_, 12 * 6);  // types, and the operators that floats have
}

TEST_F(CompiledKernels, WithOperatorsOfTheCallers) {
  for (std::size_t type = 0; type < kDTypes; ++type) {
    const auto of = static_cast<DType>(type);
    make(of, size_of(of), alignment_of(of),
         "__device__ Element combine(const Element& a, const Element&) { return a; }");
  }
  make(std::nullopt, 12, 4,
       "struct Element { float scale, shift; int pieces; };\n"
       "__device__ Element combine(const Element& a, const Element& b) {\n"
       "  return {a.scale * b.scale, a.shift * b.scale + b.shift, a.pieces + b.pieces};\n}");
  make(std::nullopt, 16, 8,
       "struct Sum { long long value, least; };\ntypedef Sum Element;\n"
       "__device__ Element combine(const Element& a, const Element& b) {\n"
       "  return {a.value + b.value, a.least < b.least ? a.least : b.least};\n}");
}

// What the compiler says names the caller's line.
TEST_F(CompiledKernels, FaultsHaveTheLineOfTheOperatorsSource) {
  const std::string text = "__device__ Element combine(const Element& a, const Element& b) {\n  return nothing;\n}";
  try {
    KernelCompiler::of_process().reduce(*driver(), 0, {text, DType::float32, 4, 4}, 2);
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string_view(error.what()).find("operator(2)"), std::string_view::npos) << error.what();
  }
  try {
    KernelCompiler::of_process().reduce(*driver(), 0,
                                        {"struct Element { char letters[3]; };\n"
                                         "__device__ Element combine(const Element& a, const Element&) { return a; }",
                                         std::nullopt, 4, 1},
                                        2);
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_NE(std::string_view(error.what()).find("another size"), std::string_view::npos) << error.what();
  }
}

}  // namespace
}  // namespace tutti::device
