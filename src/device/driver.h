// The CUDA driver of this machine, where the process has loaded one: a table of its functions, found at run time, so
// that one build runs with and without a GPU and needs no toolkit.
//
// Memory of a device exists only where somebody has loaded the driver. So calls load nothing: look_for_driver()
// notices when the program, or a library of its, has done so. On machines without a GPU it looks once. load_driver()
// loads it, for who asks for such memory. TUTTI_CUDA_DRIVER names another file, which is loaded at once, or "none".
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tutti::device {

// The driver's own types and numbers, as its interface has them.
using CuResult = int;
using CuDevice = int;
using CuAddress = unsigned long long;
using CuContext = struct CuContextTag*;
using CuStream = struct CuStreamTag*;
using CuEvent = struct CuEventTag*;
using CuModule = struct CuModuleTag*;
using CuFunction = struct CuFunctionTag*;
using CuHostFunction = void (*)(void*);
struct CuIpcHandle {
  std::array<std::byte, 64> bytes;
};
struct CuUuid {
  std::array<std::byte, 16> bytes;
};
// One side of a copy of rows, and the copy.
struct CuRows {
  std::size_t skipped_bytes = 0, skipped_rows = 0;
  unsigned memory_type = 0;
  const void* host = nullptr;
  CuAddress device = 0;
  void* array = nullptr;
  std::size_t pitch = 0;  // from row to row
};
struct CuCopyOfRows {
  CuRows from, to;
  std::size_t row_bytes = 0, rows = 0;
};

inline constexpr CuResult kCuSuccess = 0, kCuInvalidValue = 1, kCuOutOfMemory = 2, kCuAlreadyMapped = 208,
                          kCuNotReady = 600, kCuPeerAccessAlreadyEnabled = 704, kCuImplicitCapture = 906;
inline constexpr unsigned kCuNonBlockingStream = 1, kCuEventWithoutTiming = 2, kCuWaitUntilAtLeast = 0;
inline constexpr unsigned kCuPortable = 1, kCuDeviceMap = 2;  // registered for all contexts; shown to devices
inline constexpr int kCuContextOfMemory = 1, kCuMemoryType = 2, kCuBufferNumber = 7, kCuIsManaged = 8,
                     kCuDeviceOrdinal = 9;                    // attributes of a pointer
inline constexpr int kCuRangeStart = 11, kCuRangeBytes = 12;  // of the allocation around it
inline constexpr int kCuMultiprocessors = 16, kCuCapabilityMajor = 75, kCuCapabilityMinor = 76;  // of a device
inline constexpr std::uintptr_t kCuLastDefaultStream = 2;  // the handles of default streams are numbers up to this
inline constexpr unsigned kCuLazyPeerAccess = 1;
inline constexpr int kCuRelaxedCapture = 2;                      // what captures are to a thread: nothing
inline constexpr unsigned kCuInHostMemory = 1, kCuOnDevice = 2;  // what memory types say

// X(function, parameters): those that are called.
#define TUTTI_DRIVER_FUNCTIONS(X)                                                                                \
  X(cuInit, (unsigned flags))                                                                                    \
  X(cuDriverGetVersion, (int* version))                                                                          \
  X(cuGetErrorName, (CuResult result, const char** name))                                                        \
  X(cuGetErrorString, (CuResult result, const char** words))                                                     \
  X(cuDeviceGetCount, (int* count))                                                                              \
  X(cuDevicePrimaryCtxRetain, (CuContext * context, CuDevice device))                                            \
  X(cuDevicePrimaryCtxRelease_v2, (CuDevice device))                                                             \
  X(cuCtxPushCurrent_v2, (CuContext context))                                                                    \
  X(cuCtxPopCurrent_v2, (CuContext * context))                                                                   \
  X(cuDeviceGetAttribute, (int* value, int attribute, CuDevice device))                                          \
  X(cuDeviceGetUuid_v2, (CuUuid * name, CuDevice device))                                                        \
  X(cuDeviceCanAccessPeer, (int* can, CuDevice device, CuDevice peer))                                           \
  X(cuCtxEnablePeerAccess, (CuContext peer, unsigned flags))                                                     \
  X(cuCtxGetCurrent, (CuContext * context))                                                                      \
  X(cuModuleLoadData, (CuModule * module, const void* code))                                                     \
  X(cuModuleGetFunction, (CuFunction * function, CuModule module, const char* name))                             \
  X(cuLaunchKernel,                                                                                              \
    (CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
     unsigned block_z, unsigned shared_bytes, CuStream stream, void** arguments, void** extra))                  \
  X(cuIpcGetMemHandle, (CuIpcHandle * handle, CuAddress address))                                                \
  X(cuIpcOpenMemHandle_v2, (CuAddress * address, CuIpcHandle handle, unsigned flags))                            \
  X(cuIpcCloseMemHandle, (CuAddress address))                                                                    \
  X(cuCtxGetDevice, (CuDevice * device))                                                                         \
  X(cuMemAlloc_v2, (CuAddress * address, std::size_t bytes))                                                     \
  X(cuMemFree_v2, (CuAddress address))                                                                           \
  X(cuMemHostRegister_v2, (void* address, std::size_t bytes, unsigned flags))                                    \
  X(cuMemHostUnregister, (void* address))                                                                        \
  X(cuMemHostGetDevicePointer_v2, (CuAddress * found, void* host, unsigned flags))                               \
  X(cuMemsetD8_v2, (CuAddress to, unsigned char value, std::size_t bytes))                                       \
  X(cuMemcpy, (CuAddress to, CuAddress from, std::size_t bytes))                                                 \
  X(cuMemcpyDtoHAsync_v2, (void* to, CuAddress from, std::size_t bytes, CuStream stream))                        \
  X(cuMemcpyHtoDAsync_v2, (CuAddress to, const void* from, std::size_t bytes, CuStream stream))                  \
  X(cuMemcpy2DAsync_v2, (const CuCopyOfRows* copy, CuStream stream))                                             \
  X(cuCtxGetStreamPriorityRange, (int* least, int* greatest))                                                    \
  X(cuStreamCreateWithPriority, (CuStream * stream, unsigned flags, int priority))                               \
  X(cuStreamDestroy_v2, (CuStream stream))                                                                       \
  X(cuStreamSynchronize, (CuStream stream))                                                                      \
  X(cuStreamWaitEvent, (CuStream stream, CuEvent event, unsigned flags))                                         \
  X(cuStreamGetCtx, (CuStream stream, CuContext * context))                                                      \
  X(cuStreamQuery, (CuStream stream))                                                                            \
  X(cuStreamGetFlags, (CuStream stream, unsigned* flags))                                                        \
  X(cuThreadExchangeStreamCaptureMode, (int* mode))                                                              \
  X(cuStreamIsCapturing, (CuStream stream, int* status))                                                         \
  X(cuStreamWaitValue32_v2, (CuStream stream, CuAddress word, std::uint32_t value, unsigned flags))              \
  X(cuLaunchHostFunc, (CuStream stream, CuHostFunction function, void* argument))                                \
  X(cuEventCreate, (CuEvent * event, unsigned flags))                                                            \
  X(cuEventDestroy_v2, (CuEvent event))                                                                          \
  X(cuEventRecord, (CuEvent event, CuStream stream))                                                             \
  X(cuEventQuery, (CuEvent event))

struct Driver {
#define X(function, parameters) CuResult(*function) parameters = nullptr;
  TUTTI_DRIVER_FUNCTIONS(X)
#undef X
  // Asked in every call: what the memory at an address is. Of memory that the driver does not know, nothing.
  CuResult (*cuPointerGetAttributes)(unsigned count, int* attributes, void** values, CuAddress address) = nullptr;
  // A function of the above that the driver lacks, or nullptr: where one does, memory of devices is only recognised.
  const char* missing = nullptr;

  // Throws Error(system) with the driver's name for what happened, unless it is success. `what`: "a copy to device 0".
  void check(CuResult result, std::string_view what) const {
    if (result != kCuSuccess) throw_failure(result, what);
  }
  // Throws Error(unsupported) where the driver is too old for what is done here.
  void require_complete() const;

 private:
  [[noreturn]] void throw_failure(CuResult result, std::string_view what) const;
};

// The one that this process has loaded, as far as has been noticed; nullptr: none. Never unloaded.
inline std::atomic<const Driver*> noticed_driver{nullptr};
// Whether one that was not there may be by now.
inline std::atomic<bool> driver_may_come{true};

void look_again_for_driver();
// To be called before memory is touched whose address was not seen before. Costs a branch where no driver can come.
inline void look_for_driver() {
  if (driver_may_come.load(std::memory_order_acquire)) look_again_for_driver();
}
// As look_for_driver() left it.
inline const Driver* driver() { return noticed_driver.load(std::memory_order_acquire); }

// The driver, which is loaded where the process has not done so yet: for whoever asks for memory of a device. Throws
// Error(unsupported) where there is none.
const Driver& load_driver();

// Those that this process sees.
int count_devices(const Driver& driver);

// Where memory lies: on this device, or on none.
inline constexpr int kOnHost = -1;
struct FoundMemory {
  int device = kOnHost;
  CuContext context = nullptr;  // that it was allocated in; nullptr: none in particular, as for memory of pools
};
FoundMemory find_memory(const Driver& driver, const void* address);
inline int device_of(const Driver& driver, const void* address) { return find_memory(driver, address).device; }
// The same for whoever does not know whether there is a driver.
inline bool is_on_device(const void* address) {
  look_for_driver();
  const Driver* const known = driver();
  return known != nullptr && device_of(*known, address) != kOnHost;
}

// For as long as this lives, another thread that captures a stream into a graph is nothing to this one: else the driver
// would refuse it many questions, and each would end the capture. Costs nothing within another of these.
class AmidCaptures {
 public:
  explicit AmidCaptures(const Driver& driver);
  ~AmidCaptures();
  AmidCaptures(const AmidCaptures&) = delete;
  AmidCaptures& operator=(const AmidCaptures&) = delete;

 private:
  const Driver* driver_ = nullptr;  // nullptr: within another
  int before_ = kCuRelaxedCapture;
};

// A context that is current on this thread for as long as this lives, amid captures. Costs one question where it is
// already, as within another of these.
class Current {
 public:
  Current(const Driver& driver, CuContext context);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  AmidCaptures amid_captures_;
  const Driver* driver_;
  bool pushed_ = false;
};

}  // namespace tutti::device
