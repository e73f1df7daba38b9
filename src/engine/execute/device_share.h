// The share of a call's work that one device does: its kernels read the inputs of all ranks and write the outputs of
// all of them, but for what other devices do at the same time. Where all buffers lie on one device, its share is all.
//
//   all_reduce, reduce, broadcast             every device the same number of elements, one range behind the other
//   reduce_scatter                            the blocks whose outputs lie on the device: it reads from afar
//   all_gather, gather, scatter, all_to_all   what comes from inputs on the device: it writes to afar
//
// No device writes what another one reads or writes, so that none waits for another; in place, too.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "device/driver.h"
#include "device/shared_allocations.h"
#include "device/used_device.h"
#include "engine/call.h"
#include "transport/device_card.h"
#include "tutti/element.h"
#include "tutti/types.h"

namespace tutti::engine {

// A device among those that do the call's work, in the order of their launchers.
struct DeviceNumber {
  std::uint64_t index = 0, of = 1;
};

class DeviceShare {
 public:
  // Of the ranks that show these cards.
  explicit DeviceShare(std::span<transport::DeviceCard* const> cards) : cards_(cards), opened_(cards.size()) {}

  // Whether calls of this kind can be done so at all, as far as every rank knows by itself.
  static bool takes(const Call& call, int ranks);

  // All that may fail before anything is started, once all have shown their cards. Throws Error.
  void prepare(const Call& call);
  // Puts kernels into the staging's stream, if there is anything to do in this part: then true. Throws Error(system).
  bool start(const Call& call, const DeviceNumber& number);
  // What the kernels of all parts read and write.
  std::uint64_t bytes_touched(const Call& call) const;

 private:
  // What this rank launched last of its kind, so that the next of the kind need not ask for it again.
  struct Kernel {
    device::CuContext context = nullptr;
    bool reduces = false;
    DType type{};
    ReduceOp op{};
    std::string own = {};      // the source of an operator of the caller's instead of `op`
    Element of_own = DType{};  // and what it reduces
    device::CuFunction function = nullptr;

    bool serves(const Call& call, device::CuContext in) const;
  };
  struct OpenedBuffers {
    device::SharedAllocations::Last input, output;
  };
  // Buffers of the ranks that have one, in their order.
  struct Buffers {
    std::vector<void*> at;
    std::vector<bool> here;  // on this rank's device
  };
  // Where the kernels are put.
  struct Into {
    const device::Driver& driver;
    const device::UsedDevice& device;
    device::CuStream stream;
  };

  void open_all(const Call& call, const device::Driver& driver, const device::UsedDevice& device);
  void find_kernel(const Call& call, const device::Driver& driver, const device::UsedDevice& device);
  void launch_range(const Call& call, const Into& into, std::uint64_t begin, std::uint64_t end) const;
  // Of reductions, blocks with these numbers; of copies, what these sources have.
  void launch_chunks(const Call& call, const Into& into, std::size_t first, std::size_t count) const;

  std::span<transport::DeviceCard* const> cards_;  // by rank
  Buffers sources_, destinations_;
  std::vector<OpenedBuffers> opened_;  // by rank
  Kernel kernel_;
};

}  // namespace tutti::engine
