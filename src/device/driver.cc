#include "device/driver.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <mutex>

#include "base/environment.h"
#include "tutti/error.h"

namespace tutti::device {
namespace {

constexpr char kDriverFile[] = "libcuda.so.1";

// Without one of these there is no GPU to load a driver for: a machine's own, one behind Windows, an embedded one.
bool has_gpu() {
  for (const char* file : {"/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-gpu"}) {
    if (::access(file, F_OK) == 0) return true;
  }
  return false;
}

// How many libraries this process has loaded so far: where that has not changed, there is no need to look.
unsigned long long count_loads() {
  unsigned long long loads = 0;
  const auto read = [](dl_phdr_info* info, std::size_t, void* found) {
    *static_cast<unsigned long long*>(found) = info->dlpi_adds;
    return 1;
  };
  ::dl_iterate_phdr(read, &loads);
  return loads;
}

template <class Function>
void find_function(void* library, const char* name, Function& function, const char*& missing) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) missing = name;
}

// nullptr where it does not even tell what memory is: nothing of ours was made for such a driver.
const Driver* read_driver(void* library) {
  static Driver table;
  const char* ignored = nullptr;
  find_function(library, "cuPointerGetAttributes", table.cuPointerGetAttributes, ignored);
#define X(function, parameters) find_function(library, #function, table.function, table.missing);
  TUTTI_DRIVER_FUNCTIONS(X)
#undef X
  return table.cuPointerGetAttributes == nullptr ? nullptr : &table;
}

// What TUTTI_CUDA_DRIVER names. The driver must be awake before anybody asks it anything.
const Driver* load_named(const std::string& file) {
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr && file == kDriverFile)
    throw Error(ErrorCode::unsupported, std::string("there is no CUDA driver on this machine: ") + ::dlerror());
  if (library == nullptr) {
    throw Error(ErrorCode::unsupported, "TUTTI_CUDA_DRIVER=" + file + " cannot be loaded: " + ::dlerror() +
                                            "; unset it to use the driver of this machine, or set it to none");
  }
  const Driver* const table = read_driver(library);
  if (table != nullptr && table->cuInit != nullptr) table->check(table->cuInit(0), "cuInit of " + file);
  return table;
}

}  // namespace

void Driver::throw_failure(CuResult result, std::string_view what) const {
  const char *name = nullptr, *words = nullptr;
  if (cuGetErrorName != nullptr) cuGetErrorName(result, &name);
  if (cuGetErrorString != nullptr) cuGetErrorString(result, &words);
  throw Error(ErrorCode::system, std::string(what) +
                                     " failed: " + (name == nullptr ? "CUDA error " + std::to_string(result) : name) +
                                     (words == nullptr ? "" : std::string(" (") + words + ")"));
}

void Driver::require_complete() const {
  if (missing == nullptr) return;
  throw Error(ErrorCode::unsupported, std::string("the CUDA driver of this process lacks ") + missing +
                                          ", so buffers in device memory cannot be used: a driver of CUDA 12 or newer "
                                          "is needed; copy to host memory before the call otherwise");
}

namespace {

std::mutex& noticing() {
  static std::mutex mutex;
  return mutex;
}

void notice(const Driver* found) {
  noticed_driver.store(found, std::memory_order_release);
  driver_may_come.store(false, std::memory_order_release);
}

}  // namespace

// Asked for every call that was not made before, as long as a driver may come: on a machine with a GPU, in a program
// that does not use it, for ever.
void look_again_for_driver() {
  static bool awaited = false;  // there is a GPU, and nobody has named a driver
  static unsigned long long loads = 0;
  const std::lock_guard lock(noticing());
  if (!driver_may_come.load(std::memory_order_relaxed)) return;
  const Driver* found = nullptr;
  if (!awaited) {
    const auto named = Environment::of_process().get("TUTTI_CUDA_DRIVER");
    awaited = !named && has_gpu();
    if (named && *named != "none") found = load_named(*named);
  }
  if (awaited) {
    const unsigned long long now = count_loads();
    if (now == loads) return;
    loads = now;
    void* const library = ::dlopen(kDriverFile, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (library == nullptr) return;
    found = read_driver(library);
  }
  notice(found);
}

const Driver& load_driver() {
  look_for_driver();
  const std::lock_guard lock(noticing());
  if (driver() == nullptr) {
    if (Environment::of_process().get("TUTTI_CUDA_DRIVER"))
      throw Error(ErrorCode::unsupported, "TUTTI_CUDA_DRIVER turns devices off; unset it to use those of this machine");
    notice(load_named(kDriverFile));
  }
  if (driver() == nullptr) throw Error(ErrorCode::unsupported, "the CUDA driver of this machine is too old");
  return *driver();
}

int count_devices(const Driver& driver) {
  int devices = 0;
  driver.check(driver.cuDeviceGetCount(&devices), "counting devices");
  return devices;
}

FoundMemory find_memory(const Driver& driver, const void* address) {
  unsigned type = 0, managed = 0;
  int ordinal = kOnHost;
  CuContext context = nullptr;
  int attributes[] = {kCuMemoryType, kCuIsManaged, kCuDeviceOrdinal, kCuContextOfMemory};
  void* values[] = {&type, &managed, &ordinal, &context};
  const CuResult result =
      driver.cuPointerGetAttributes(4, attributes, values, reinterpret_cast<std::uintptr_t>(address));
  // Before a program has woken the driver, there is no memory of a device.
  if (result != kCuSuccess || (type != kCuOnDevice && managed == 0)) return {};
  return {ordinal, context};
}

namespace {

thread_local bool is_amid_captures = false;

}  // namespace

AmidCaptures::AmidCaptures(const Driver& driver) {
  if (is_amid_captures || driver.cuThreadExchangeStreamCaptureMode(&before_) != kCuSuccess) return;
  driver_ = &driver;
  is_amid_captures = true;
}

AmidCaptures::~AmidCaptures() {
  if (driver_ == nullptr) return;
  driver_->cuThreadExchangeStreamCaptureMode(&before_);
  is_amid_captures = false;
}

Current::Current(const Driver& driver, CuContext context) : amid_captures_(driver), driver_(&driver) {
  CuContext now = nullptr;
  if (driver.cuCtxGetCurrent(&now) == kCuSuccess && now == context) return;
  driver.check(driver.cuCtxPushCurrent_v2(context), "making a device's context current");
  pushed_ = true;
}

Current::~Current() {
  if (!pushed_) return;
  CuContext context = nullptr;
  driver_->cuCtxPopCurrent_v2(&context);
}

}  // namespace tutti::device
