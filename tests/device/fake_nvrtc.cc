// NVRTC for the fake driver: its code is the description of a kernel, which the driver runs with the processor's.
#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <string_view>

#include "device/fake_cuda.h"
#include "device/fake_kernel.h"
#include "tutti/types.h"

namespace {

constexpr int kSuccess = 0, kInvalidValue = 1;

}  // namespace

extern "C" {

int nvrtcVersion(int* major, int* minor) {
  *major = 12;
  *minor = 4;
  return kSuccess;
}
int nvrtcCreateProgram(void** program, const char*, const char* file, int, const char* const*, const char* const*) {
  *program = new FakeKernel{.copies = std::string_view(file) == "copy.cu", .type = {}, .op = {}, .sources = 0};
  return kSuccess;
}
int nvrtcDestroyProgram(void** program) {
  delete static_cast<FakeKernel*>(*program);
  return kSuccess;
}
int nvrtcCompileProgram(void* program, int count, const char* const* options) {
  if (const int result = fake_cuda_enter(__func__); result != kSuccess) return result;
  auto& kernel = *static_cast<FakeKernel*>(program);
  if (kernel.copies) return kSuccess;
  std::map<std::string, std::string, std::less<>> words;
  for (int i = 0; i < count; ++i) {
    const std::string option = options[i];
    if (const auto at = option.find('='); at != std::string::npos) words[option.substr(0, at)] = option.substr(at + 1);
  }
  const std::map<std::string, tutti::DType, std::less<>> formats = {
      {"Float32", tutti::DType::float32},      {"Float64", tutti::DType::float64},
      {"Float16", tutti::DType::float16},      {"BFloat16", tutti::DType::bfloat16},
      {"Integer<int>", tutti::DType::int32},   {"Integer<long long>", tutti::DType::int64},
      {"Integer<short>", tutti::DType::int16}, {"Integer<unsigned char>", tutti::DType::uint8}};
  const std::map<std::string, tutti::ReduceOp, std::less<>> operators = {{"Sum", tutti::ReduceOp::sum},
                                                                         {"Product", tutti::ReduceOp::product},
                                                                         {"Minimum", tutti::ReduceOp::minimum},
                                                                         {"Maximum", tutti::ReduceOp::maximum},
                                                                         {"BitOr", tutti::ReduceOp::bor}};
  const auto format = formats.find(words["-DTUTTI_FORMAT"]);
  const auto op = operators.find(words["-DTUTTI_OP"]);
  if (format == formats.end() || op == operators.end()) return kInvalidValue;
  kernel = {false, format->second, op->second, std::stoul(words["-DTUTTI_SOURCES"])};
  return kSuccess;
}
int nvrtcGetCUBINSize(void*, std::size_t* bytes) {
  *bytes = sizeof(FakeKernel);
  return kSuccess;
}
int nvrtcGetCUBIN(void* program, char* code) {
  std::memcpy(code, program, sizeof(FakeKernel));
  return kSuccess;
}
int nvrtcGetProgramLogSize(void*, std::size_t* bytes) {
  *bytes = 1;
  return kSuccess;
}
int nvrtcGetProgramLog(void*, char* log) {
  *log = '\0';
  return kSuccess;
}

}  // extern "C"
