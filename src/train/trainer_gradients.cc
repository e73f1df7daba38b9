// Where gradients come in: places that stay in stages 0 and 1, memory that is lent from stage 2 on.
#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/kernels.h"
#include "train/trainer.h"
#include "train/words.h"

namespace tutti::train {

std::byte* Trainer::gradient_place(std::size_t parameter) {
  const strategy::BucketPlace& place = layout_.places[checked(parameter)];
  if (stage_ >= 2 && ready_[parameter] != 0)
    refuse_call(words_for(parameter) + ": its gradient is on its way to its shard; ask for it before ready()");
  return whole_gradients(place.bucket) + place.offset * size_of(sizes_[parameter].type);
}

std::byte* Trainer::gradient(std::size_t parameter) {
  const std::scoped_lock lock(mutex_);
  std::byte* place = gradient_place(parameter);
  if (std::exchange(touched_[parameter], std::uint8_t{1}) == 0)
    std::memset(place, 0, sizes_[parameter].elements * size_of(sizes_[parameter].type));
  return place;
}

void Trainer::take_gradient(std::size_t parameter, const void* gradient, bool added) {
  void* place = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    place = gradient_place(parameter);
    if (std::exchange(touched_[parameter], std::uint8_t{1}) == 0) added = false;
  }
  const std::size_t elements = sizes_[parameter].elements;
  const DType type = sizes_[parameter].type;
  if (!added) {
    kernels::copy(&place, 1, gradient, elements * size_of(type));
  } else {
    const void* terms[] = {place, gradient};
    kernels::find_reduce(type, ReduceOp::sum)(&place, 1, terms, 2, elements, {});
  }
}

// Memory is lent as it is. What belongs to no parameter is zero from then on, and a parameter's part from when it is
// first asked for, or the bucket goes on its way.
void Trainer::zero_gaps(std::size_t bucket) {
  const strategy::Bucket& shape = layout_.buckets[bucket];
  const std::size_t element = size_of(shape.type);
  std::byte* gradients = memory_.gradients(bucket);
  std::size_t end = 0;
  for (const std::size_t parameter : shape.parameters) {
    const std::size_t begin = layout_.places[parameter].offset;
    std::memset(gradients + end * element, 0, (begin - end) * element);
    end = begin + sizes_[parameter].elements;
  }
  std::memset(gradients + end * element, 0, (shape.elements - end) * element);
}

void Trainer::zero_untouched(std::size_t bucket) {
  for (const std::size_t parameter : layout_.buckets[bucket].parameters) {
    if (touched_[parameter] != 0) continue;
    const std::size_t element = size_of(sizes_[parameter].type);
    std::memset(memory_.gradients(bucket) + layout_.places[parameter].offset * element, 0,
                sizes_[parameter].elements * element);
  }
}

// From stage 2 on a bucket that was submitted first gives its buffer back first.
std::byte* Trainer::whole_gradients(std::size_t bucket) {
  if (std::byte* gradients = memory_.gradients(bucket)) return gradients;
  for (std::size_t earlier = 0; earlier < next_ && !memory_.has_free_buffer(); ++earlier) {
    if (memory_.gradients(earlier) == nullptr) continue;
    // An exchange has taken what it needs when it has begun; its second call may wait for ranks that wait for this one.
    if (!is_compressed(earlier)) runs_[earlier].waited = await(earlier);
    memory_.take_back(earlier);
  }
  std::byte* gradients = memory_.lend(bucket);
  zero_gaps(bucket);
  return gradients;
}

// What a rank without examples has to add. From stage 2 on all buckets look at the same zeros: there are not as many
// buffers as buckets, and one that waited for others to be free would wait for those who wait for this rank's units.
std::byte* Trainer::zero_gradients_of(std::size_t bucket) {
  if (stage_ < 2)
    return static_cast<std::byte*>(std::memset(whole_gradients(bucket), 0, layout_.buckets[bucket].bytes()));
  const auto by_bytes = [](const strategy::Bucket& a, const strategy::Bucket& b) { return a.bytes() < b.bytes(); };
  const auto largest =
      static_cast<std::size_t>(std::ranges::max_element(layout_.buckets, by_bytes) - layout_.buckets.begin());
  if (std::byte* zeros = memory_.gradients(largest)) return zeros;
  return static_cast<std::byte*>(std::memset(memory_.lend(largest), 0, layout_.buckets[largest].bytes()));
}

// Memory that was lent has nothing in it any more; what has a lasting place stays as it is.
void Trainer::take_gradients_back() {
  for (std::size_t b = 0; stage_ >= 2 && b < layout_.buckets.size(); ++b) memory_.take_back(b);
  touched_.assign(size(), stage_ < 2 ? 1 : 0);
}

void Trainer::drop_gradients(const std::string& call) {
  if (!seen_.empty())
    refuse_call(call + " between ready() and step() would change what is being averaged; call it after step()");
  std::ranges::fill(used_, std::uint8_t{0});
  take_gradients_back();
}

void Trainer::forget_gradients() {
  const std::scoped_lock lock(mutex_);
  drop_gradients("forget_gradients()");
  std::ranges::fill(touched_, std::uint8_t{0});
}

void Trainer::zero_gradients() {
  const std::scoped_lock lock(mutex_);
  drop_gradients("zero_gradients()");
  for (std::size_t b = 0; stage_ < 2 && b < runs_.size(); ++b)
    std::memset(memory_.gradients(b), 0, layout_.buckets[b].filled_bytes());
}

}  // namespace tutti::train
