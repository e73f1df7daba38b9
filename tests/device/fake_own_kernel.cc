// Kernels with an operator of the caller's, which nothing of the processor's stands for: their very source, made into
// code by the compiler that built the tests. Threads and blocks come one after the other.
#include <dlfcn.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "device/fake_kernel.h"

namespace {

// What CUDA has beyond C++, as far as the source uses it. Its assembler is not run.
constexpr char kBefore[] = R"(
#include <cmath>
#define __device__
#define __host__
#define __global__
#define __launch_bounds__(threads)
#define asm(...)
struct Place { unsigned x, y; };
static Place blockIdx, threadIdx;
static const Place gridDim{2, 1}, blockDim{3, 1};
static float __int_as_float(int bits) { return __builtin_bit_cast(float, bits); }
static float __uint_as_float(unsigned bits) { return __builtin_bit_cast(float, bits); }
static unsigned __float_as_uint(float value) { return __builtin_bit_cast(unsigned, value); }
static double __longlong_as_double(long long bits) { return __builtin_bit_cast(double, bits); }
#line 1 "source"
)";

constexpr char kBehind[] = R"(
extern "C" void run_kernel(void* const* sources, void* const* destinations, int count_of_destinations,
                           unsigned long long count, unsigned long long lines) {
  tutti_kernels::Operands operands{};
  for (int i = 0; i < TUTTI_SOURCES; ++i) operands.sources[i] = sources[i];
  for (int i = 0; i < count_of_destinations; ++i) operands.destinations[i] = destinations[i];
  for (blockIdx = {0, 0}; blockIdx.x < gridDim.x; ++blockIdx.x)
    for (threadIdx = {0, 0}; threadIdx.x < blockDim.x; ++threadIdx.x)
      tutti_kernels::tutti_reduce(operands, count_of_destinations, count, lines, 1, 0);
}
)";

std::string contents_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

OwnKernel compile_own_kernel(const std::string& source, const std::string& definitions, std::string& said) {
  std::string folder = (std::filesystem::temp_directory_path() / "tutti-kernel-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return nullptr;
  const std::filesystem::path in(folder);
  std::ofstream(in / "kernel.cc") << kBefore << source << kBehind;
  const std::string command = std::string(FAKE_NVRTC_COMPILER) + " -std=c++17 -O1 -ffp-contract=off -w -shared -fPIC" +
                              definitions + " -o " + folder + "/kernel.so " + folder + "/kernel.cc > " + folder +
                              "/said 2>&1";
  OwnKernel kernel = nullptr;
  if (std::system(command.c_str()) == 0) {  // NOLINT(cert-env33-c): the compiler's own name
    void* const library = ::dlopen((in / "kernel.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) kernel = reinterpret_cast<OwnKernel>(::dlsym(library, "run_kernel"));
  }
  said = contents_of(in / "said");
  std::filesystem::remove_all(in);
  return kernel;
}
