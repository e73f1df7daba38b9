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

constexpr int kSuccess = 0, kInvalidValue = 1, kCompilation = 6;

struct Program {
  FakeKernel kernel;
  std::string source, log;
};

int compile_own(Program& program, const std::map<std::string, std::string, std::less<>>& words) {
  std::string definitions;
  for (const auto& [name, value] : words) {
    if (name.starts_with("-D")) definitions += " " + name + "=" + value;
  }
  program.kernel.own = compile_own_kernel(program.source, definitions, program.log);
  program.kernel.own_bytes = std::stoul(words.at("-DTUTTI_OWN_BYTES"));
  program.kernel.sources = std::stoul(words.at("-DTUTTI_SOURCES"));
  return program.kernel.own == nullptr ? kCompilation : kSuccess;
}

}  // namespace

extern "C" {

int nvrtcVersion(int* major, int* minor) {
  *major = 12;
  *minor = 4;
  return kSuccess;
}
int nvrtcCreateProgram(void** program, const char* source, const char* file, int, const char* const*,
                       const char* const*) {
  *program = new Program{.kernel = {.copies = std::string_view(file) == "copy.cu"}, .source = source, .log = ""};
  return kSuccess;
}
int nvrtcDestroyProgram(void** program) {
  delete static_cast<Program*>(*program);
  return kSuccess;
}
int nvrtcCompileProgram(void* program, int count, const char* const* options) {
  if (const int result = fake_cuda_enter(__func__); result != kSuccess) return result;
  FakeKernel& kernel = static_cast<Program*>(program)->kernel;
  if (kernel.copies) return kSuccess;
  std::map<std::string, std::string, std::less<>> words;
  for (int i = 0; i < count; ++i) {
    const std::string option = options[i];
    if (const auto at = option.find('='); at != std::string::npos) words[option.substr(0, at)] = option.substr(at + 1);
  }
  if (words.contains("-DTUTTI_OWN_BYTES")) return compile_own(*static_cast<Program*>(program), words);
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
  kernel = {.type = format->second, .op = op->second, .sources = std::stoul(words["-DTUTTI_SOURCES"])};
  return kSuccess;
}
int nvrtcGetCUBINSize(void*, std::size_t* bytes) {
  *bytes = sizeof(FakeKernel);
  return kSuccess;
}
int nvrtcGetCUBIN(void* program, char* code) {
  std::memcpy(code, &static_cast<Program*>(program)->kernel, sizeof(FakeKernel));
  return kSuccess;
}
int nvrtcGetProgramLogSize(void* program, std::size_t* bytes) {
  *bytes = static_cast<Program*>(program)->log.size() + 1;
  return kSuccess;
}
int nvrtcGetProgramLog(void* program, char* log) {
  const std::string& said = static_cast<Program*>(program)->log;
  std::memcpy(log, said.c_str(), said.size() + 1);
  return kSuccess;
}

}  // extern "C"
