// The cap of a bucket: the one whose layout shows least of what gradients take on their way.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "strategy/buckets.h"

namespace tutti::strategy {

// Microseconds that a bucket's exchange takes.
using BucketPrice = std::function<double(const Bucket&)>;

// What of these buckets' exchange no computing hides, one after the other, behind a backward pass of `backward_us` that
// makes gradients evenly; 0: nothing hides any.
double exposed_us(const BucketLayout& layout, const BucketPrice& price_us, double backward_us);

// The cap, a power of two from 1 MB to 512 MB, whose layout exposes least; of layouts that are alike the one of fewer
// buckets. A parameter above the cap is a bucket by itself, so that the layout is asked about, not the cap. From 1 MB
// on: what it takes to wake somebody up is not in prices.
std::size_t cheapest_cap(std::span<const TensorSize> parameters, std::span<const std::size_t> order, int ranks,
                         const std::function<double(const BucketLayout&)>& exposed_us);
// In the order that is tried first, where nobody knows how long backward takes: it is taken to last as long as the
// exchange of all in one piece does. Of equal buckets it is then a call for each and the first one's size that show,
// whichever of the two lasts longer.
std::size_t cheapest_cap(std::span<const TensorSize> parameters, int ranks, const BucketPrice& price_us);

}  // namespace tutti::strategy
