// A ring of events, as a file of anybody's making: whatever is read of it adds up.
#include "fuzz/target.h"
#include "trace/recording.h"
#include "tutti/error.h"

using namespace tutti::trace;
using tutti::fuzz::check;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> image(reinterpret_cast<const std::byte*>(data), size);
  try {
    const Recording all = read_recording(image);
    check(all.facts.rank >= 0 && all.facts.rank < all.facts.size, "the rank is one of the job");
    check(all.events.size() + all.lost() == all.written.sum(), "every event is there or lost");
    check(all.events.size() <= size / sizeof(RingSlot), "no more events than there are bytes for");
    const Recording later = read_recording(image, all.overwritten);
    check(later.events == all.events && later.overwritten.sum() == 0, "a reader goes on where it was");
  } catch (const tutti::Error& error) {
    check(error.code() == tutti::ErrorCode::invalid_argument, "bytes are wrong or right");
  }
  return 0;
}
