// Kernels for devices: source of ours that NVRTC, the compiler of the CUDA toolkit, makes into code of the device when
// it is first needed, and that is kept as long as the process lives.
//
// NVRTC comes with the toolkit and with PyTorch; it is looked for at run time, so that nothing has to be built for it.
// Compiled code is for the very device, because a driver refuses what a newer compiler made in the general form.
// TUTTI_NVRTC names another file to load, or "none". Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device/driver.h"
#include "tutti/error.h"
#include "tutti/types.h"

namespace tutti::device {

// The most sources and the most destinations of one launch.
inline constexpr int kMostOperands = 64;

// As the kernels have them (kernels/cuda/operands.cuh).
struct LaunchOperands {
  const void* sources[kMostOperands];
  void* destinations[kMostOperands];
};

// An operator of the caller's, as source (tutti::Operator::device_source), and what it reduces.
struct OwnSource {
  std::string_view text;
  std::optional<DType> type;  // empty: elements that the text defines
  std::size_t bytes = 0, alignment = 1;

  // A thread of the kernel holds an element of each source.
  bool serves(int sources) const;
};

class KernelCompiler {
 public:
  static KernelCompiler& of_process();

  // Whether there are kernels for this at all, whatever the machine: the same on all ranks of one build.
  static bool has_reduce(DType type, ReduceOp op, int sources);
  // The kernel in the current context, which is one of `device`. Throws Error(unsupported) where there is no compiler,
  // or one that is newer than the driver, and Error(system) where it or the driver fails; who asks again hears the same
  // at once. A kernel stays as long as the process: ask once.
  CuFunction reduce(const Driver& driver, CuDevice device, DType type, ReduceOp op, int sources);
  // Likewise, of a source that serves(); Error(invalid_argument) where it does not compile.
  CuFunction reduce(const Driver& driver, CuDevice device, const OwnSource& own, int sources);
  // Likewise, the one that copies.
  CuFunction copy(const Driver& driver, CuDevice device);

 private:
  using Key = std::pair<CuContext, std::string>;  // and all that the compiler is given
  struct Made {
    CuFunction function = nullptr;
    std::optional<Error> failure;  // or why there is none
  };
  struct Source {
    const char *text, *file, *function;
    bool own = false;  // with an operator of the caller's
  };

  static std::string compile(const Driver& driver, CuDevice device, const Source& source,
                             std::vector<std::string> options);
  CuFunction find(const Driver& driver, CuDevice device, const Source& source,
                  const std::vector<std::string>& definitions);

  std::mutex mutex_;
  std::map<Key, Made> made_;
};

}  // namespace tutti::device
