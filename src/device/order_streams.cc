#include "device/order_streams.h"

#include <string>

#include "tutti/error.h"

namespace tutti::device {
namespace {

constexpr char kOrdering[] = "having a stream wait for another";

// The context that a stream is used in, kept for as long as this lives.
class ContextOf {
 public:
  ContextOf(const Driver& driver, const StreamOfMemory& of) : driver_(driver) {
    if (reinterpret_cast<std::uintptr_t>(of.stream) > kCuLastDefaultStream) {
      driver.check(driver.cuStreamGetCtx(of.stream, &context_), kOrdering);
      return;
    }
    device_ = device_of(driver, of.memory);
    if (device_ == kOnHost)
      throw Error(ErrorCode::invalid_argument, "a default stream is that of a device, and the memory is on none");
    driver.check(driver.cuDevicePrimaryCtxRetain(&context_, device_), kOrdering);
  }
  ~ContextOf() {
    if (device_ != kOnHost) driver_.cuDevicePrimaryCtxRelease_v2(device_);
  }
  ContextOf(const ContextOf&) = delete;
  ContextOf& operator=(const ContextOf&) = delete;

  CuContext get() const { return context_; }

 private:
  const Driver& driver_;
  CuContext context_ = nullptr;
  int device_ = kOnHost;
};

}  // namespace

void order_streams(const Driver& driver, const StreamOfMemory& later, const StreamOfMemory& earlier) {
  driver.require_complete();
  if (later.stream == earlier.stream && later.memory == earlier.memory) return;
  const AmidCaptures amid_captures(driver);
  const ContextOf its(driver, earlier), waiting(driver, later);
  CuEvent event = nullptr;
  CuResult result = kCuSuccess;
  {
    const Current current(driver, its.get());
    driver.check(driver.cuEventCreate(&event, kCuEventWithoutTiming), "making an event");
    result = driver.cuEventRecord(event, earlier.stream);
  }
  if (result == kCuSuccess) {
    const Current current(driver, waiting.get());
    result = driver.cuStreamWaitEvent(later.stream, event, 0);
  }
  driver.cuEventDestroy_v2(event);  // which the driver does once nobody waits for it any more
  driver.check(result, kOrdering);
}

}  // namespace tutti::device
