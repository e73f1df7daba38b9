#include "device/kernel_compiler.h"

#include <dlfcn.h>

#include <array>
#include <utility>
#include <vector>

#include "base/environment.h"
#include "device/kept_contexts.h"
#include "device/kernel_source.h"
#include "tutti/error.h"

namespace tutti::device {
namespace {

using NvrtcProgram = struct NvrtcProgramTag*;

// X(function, parameters): those of NVRTC that are called.
#define TUTTI_NVRTC_FUNCTIONS(X)                                                                    \
  X(nvrtcVersion, (int* major, int* minor))                                                         \
  X(nvrtcCreateProgram, (NvrtcProgram * program, const char* source, const char* name, int headers, \
                         const char* const* texts, const char* const* names))                       \
  X(nvrtcDestroyProgram, (NvrtcProgram * program))                                                  \
  X(nvrtcCompileProgram, (NvrtcProgram program, int count, const char* const* options))             \
  X(nvrtcGetCUBINSize, (NvrtcProgram program, std::size_t * bytes))                                 \
  X(nvrtcGetCUBIN, (NvrtcProgram program, char* code))                                              \
  X(nvrtcGetProgramLogSize, (NvrtcProgram program, std::size_t * bytes))                            \
  X(nvrtcGetProgramLog, (NvrtcProgram program, char* log))

struct Nvrtc {
#define X(function, parameters) int(*function) parameters = nullptr;
  TUTTI_NVRTC_FUNCTIONS(X)
#undef X
  std::string why_not;  // in words; empty where it serves
};

bool find_functions(void* library, Nvrtc& table) {
  bool complete = library != nullptr;
#define X(function, parameters)                                                                               \
  table.function =                                                                                            \
      library == nullptr ? nullptr : reinterpret_cast<decltype(table.function)>(::dlsym(library, #function)); \
  complete = complete && table.function != nullptr;
  TUTTI_NVRTC_FUNCTIONS(X)
#undef X
  return complete;
}

// Of what it is that a driver of this major version cannot load, in words; empty where it can.
std::string too_new(const Nvrtc& table, int driver_major) {
  int major = 0, minor = 0;
  if (table.nvrtcVersion(&major, &minor) != 0 || major <= driver_major) return "";
  return "the NVRTC that was found is of CUDA " + std::to_string(major) + ", and the driver serves CUDA " +
         std::to_string(driver_major) +
         ", which cannot load what that compiles; name one that the driver serves by TUTTI_NVRTC, or take a newer "
         "driver";
}

// What the process has loaded comes first: it fits the driver that the program was made for.
std::vector<void*> load_nvrtcs() {
  if (const auto named = Environment::of_process().get("TUTTI_NVRTC"))
    return {*named == "none" ? nullptr : ::dlopen(named->c_str(), RTLD_NOW | RTLD_LOCAL)};
  constexpr std::array kNames = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                                 "/usr/local/cuda/lib64/libnvrtc.so"};
  std::vector<void*> libraries;
  for (const int loaded : {RTLD_NOLOAD, 0}) {
    for (const char* name : kNames) libraries.push_back(::dlopen(name, RTLD_NOW | RTLD_LOCAL | loaded));
  }
  return libraries;
}

// The first that serves.
Nvrtc find_nvrtc(const Driver& driver) {
  Nvrtc table;
  table.why_not =
      "there is no NVRTC to compile kernels with; it comes with the CUDA toolkit and with PyTorch, and TUTTI_NVRTC "
      "names its file where it is not found";
  int version = 0;
  driver.check(driver.cuDriverGetVersion(&version), "asking for the version of the driver");
  for (void* const library : load_nvrtcs()) {
    if (!find_functions(library, table)) continue;
    table.why_not = too_new(table, version / 1000);
    if (table.why_not.empty()) break;
  }
  return table;
}

const Nvrtc& nvrtc(const Driver& driver) {
  static const Nvrtc kTable = find_nvrtc(driver);
  return kTable;
}

// The names in the source; nullptr where it has none.
const char* format_of(DType type) {
  switch (type) {
    case DType::int8: return "Integer<signed char>";
    case DType::int16: return "Integer<short>";
    case DType::int32: return "Integer<int>";
    case DType::int64: return "Integer<long long>";
    case DType::uint8: return "Integer<unsigned char>";
    case DType::uint16: return "Integer<unsigned short>";
    case DType::uint32: return "Integer<unsigned>";
    case DType::uint64: return "Integer<unsigned long long>";
    case DType::float16: return "Float16";
    case DType::bfloat16: return "BFloat16";
    case DType::float32: return "Float32";
    case DType::float64: return "Float64";
    default: return nullptr;
  }
}

bool is_float(DType type) {
  return type == DType::float16 || type == DType::bfloat16 || type == DType::float32 || type == DType::float64;
}

const char* operator_of(DType type, ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average: return "Sum";
    case ReduceOp::product: return "Product";
    case ReduceOp::minimum: return "Minimum";
    case ReduceOp::maximum: return "Maximum";
    case ReduceOp::band: return is_float(type) ? nullptr : "BitAnd";
    case ReduceOp::bor: return is_float(type) ? nullptr : "BitOr";
    case ReduceOp::bxor: return is_float(type) ? nullptr : "BitXor";
    default: return nullptr;
  }
}

// What the source of an operator calls an Element; empty: it defines that itself.
std::string_view element_of(std::optional<DType> type) {
  if (!type) return "";
  switch (*type) {
    case DType::int8: return "typedef signed char Element;";
    case DType::int16: return "typedef short Element;";
    case DType::int32: return "typedef int Element;";
    case DType::int64: return "typedef long long Element;";
    case DType::boolean:
    case DType::uint8: return "typedef unsigned char Element;";
    case DType::float16:
    case DType::bfloat16:
    case DType::uint16: return "typedef unsigned short Element;";
    case DType::uint32: return "typedef unsigned Element;";
    case DType::uint64: return "typedef unsigned long long Element;";
    case DType::float32: return "typedef float Element;";
    case DType::float64: return "typedef double Element;";
    case DType::complex64: return "struct Element { float real, imag; };";
    case DType::complex128: return "struct Element { double real, imag; };";
  }
  return "";
}

// Complaints name the lines of the caller's text. Names of ours do not meet the caller's.
std::string with_own(const OwnSource& own) {
  return std::string(element_of(own.type)) + "\n#line 1 \"operator\"\n" + std::string(own.text) +
         "\n#line 1 \"reduce.cu\"\nnamespace tutti_kernels {\n" + kReduceSource + "\n}\n";
}

// A program of NVRTC, as long as it is needed.
class Compilation {
 public:
  Compilation(const Nvrtc& nvrtc, const char* text, const char* file, bool own) : nvrtc_(nvrtc), own_(own) {
    if (nvrtc_.nvrtcCreateProgram(&program_, text, file, 0, nullptr, nullptr) != 0)
      throw Error(ErrorCode::system, "NVRTC takes no source for kernels of devices");
  }
  ~Compilation() { nvrtc_.nvrtcDestroyProgram(&program_); }
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;

  std::string compile(const std::vector<std::string>& options) {
    std::vector<const char*> words;
    for (const std::string& option : options) words.push_back(option.c_str());
    if (nvrtc_.nvrtcCompileProgram(program_, static_cast<int>(words.size()), words.data()) != 0) {
      if (own_) throw Error(ErrorCode::invalid_argument, "NVRTC does not compile its device source: " + log());
      throw Error(ErrorCode::system, "NVRTC does not compile a kernel for the device: " + log());
    }
    std::size_t bytes = 0;
    nvrtc_.nvrtcGetCUBINSize(program_, &bytes);
    std::string code(bytes, '\0');
    if (bytes == 0 || nvrtc_.nvrtcGetCUBIN(program_, code.data()) != 0)
      throw Error(ErrorCode::system, "NVRTC gives no code for the device");
    return code;
  }

 private:
  std::string log() const {
    std::size_t bytes = 0;
    nvrtc_.nvrtcGetProgramLogSize(program_, &bytes);
    std::string words(bytes, '\0');
    if (bytes != 0) nvrtc_.nvrtcGetProgramLog(program_, words.data());
    words.resize(words.find_last_not_of(std::string_view("\n\0", 2)) + 1);
    return words;
  }

  const Nvrtc& nvrtc_;
  bool own_;  // of an operator of the caller's
  NvrtcProgram program_ = nullptr;
};

}  // namespace

// The code of a kernel for the device.
std::string KernelCompiler::compile(const Driver& driver, CuDevice device, const Source& source,
                                    std::vector<std::string> options) {
  const Nvrtc& compiler = nvrtc(driver);
  if (!compiler.why_not.empty()) throw Error(ErrorCode::unsupported, compiler.why_not);
  int major = 0, minor = 0;
  driver.check(driver.cuDeviceGetAttribute(&major, kCuCapabilityMajor, device), "asking what the device can do");
  driver.check(driver.cuDeviceGetAttribute(&minor, kCuCapabilityMinor, device), "asking what the device can do");
  options.push_back("--gpu-architecture=sm_" + std::to_string(major) + std::to_string(minor));
  options.insert(options.end(), {"--std=c++17", "--fmad=false"});
  return Compilation(compiler, source.text, source.file, source.own).compile(options);
}

KernelCompiler& KernelCompiler::of_process() {
  static KernelCompiler* const kCompiler = new KernelCompiler;  // contexts may outlive static objects
  return *kCompiler;
}

bool KernelCompiler::has_reduce(DType type, ReduceOp op, int sources) {
  return format_of(type) != nullptr && operator_of(type, op) != nullptr && sources <= kMostOperands;
}

// What cannot be made now cannot be made later, unless it was memory that there was none of.
CuFunction KernelCompiler::find(const Driver& driver, CuDevice device, const Source& source,
                                const std::vector<std::string>& definitions) {
  const std::lock_guard lock(mutex_);
  CuContext context = nullptr;
  driver.check(driver.cuCtxGetCurrent(&context), "asking for the context");
  std::string given = source.text;
  for (const std::string& definition : definitions) given += '\n' + definition;
  Made& made = made_[Key{context, std::move(given)}];
  if (made.failure) throw Error(*made.failure);
  if (made.function != nullptr) return made.function;
  KeptContexts::of_process().keep(driver, device, context);
  CuResult loaded = kCuSuccess;
  try {
    const std::string code = compile(driver, device, source, definitions);
    CuModule module = nullptr;
    loaded = driver.cuModuleLoadData(&module, code.data());
    driver.check(loaded, "loading a kernel");
    driver.check(driver.cuModuleGetFunction(&made.function, module, source.function), "finding a kernel");
  } catch (const Error& error) {
    if (loaded != kCuOutOfMemory) made.failure = error;
    throw;
  }
  return made.function;
}

CuFunction KernelCompiler::reduce(const Driver& driver, CuDevice device, DType type, ReduceOp op, int sources) {
  const std::vector<std::string> definitions = {std::string("-DTUTTI_FORMAT=") + format_of(type),
                                                std::string("-DTUTTI_OP=") + operator_of(type, op),
                                                "-DTUTTI_SOURCES=" + std::to_string(sources)};
  return find(driver, device, {kReduceSource, "reduce.cu", "tutti_reduce"}, definitions);
}

bool OwnSource::serves(int sources) const {
  constexpr std::size_t kMostHeld = 1024;  // bytes; beyond, they lie in memory that many threads take much of
  return !text.empty() && sources <= kMostOperands && bytes * static_cast<std::size_t>(sources) <= kMostHeld;
}

CuFunction KernelCompiler::reduce(const Driver& driver, CuDevice device, const OwnSource& own, int sources) {
  return find(driver, device, {with_own(own).c_str(), "reduce.cu", "tutti_reduce", true},
              {"-DTUTTI_OWN_BYTES=" + std::to_string(own.bytes),
               "-DTUTTI_OWN_ALIGNMENT=" + std::to_string(own.alignment), "-DTUTTI_SOURCES=" + std::to_string(sources)});
}

CuFunction KernelCompiler::copy(const Driver& driver, CuDevice device) {
  return find(driver, device, {kCopySource, "copy.cu", "tutti_copy"}, {});
}

}  // namespace tutti::device
