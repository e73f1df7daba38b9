// Which parameter lies where in which bucket: the flat memory that strategies reduce, cut and gather.
//
// A bucket holds parameters of one type, all compressed or none, in the order in which their gradients become ready. It
// is cut into one shard per rank at multiples of kBlock elements, and a parameter of up to kBlock elements lies inside
// one block, a larger one begins at a block: no shard cuts a block of kBlock elements counted from a parameter's first.
// What is summed up by such blocks comes out the same whatever the buckets, the ranks and the stage.
//
//   bucket, 2 ranks   |w............ w.......|b.c.|pad.| ... |   '|' every kBlock elements
//                     |<----- shard 0 ----->|<-- shard 1 -->|
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tutti/types.h"

namespace tutti::strategy {

inline constexpr std::size_t kBlock = 1024;  // elements

struct TensorSize {
  std::size_t elements = 0;
  DType type = DType::float32;
  bool compressed = false;  // its gradient travels in fewer bytes
};

struct BucketPlace {
  std::size_t bucket = 0;
  std::size_t offset = 0;  // elements

  bool operator==(const BucketPlace&) const = default;
};

struct Bucket {
  DType type = DType::float32;
  bool compressed = false;
  std::vector<std::size_t> parameters;  // in their order
  std::size_t filled = 0;               // elements up to the end of the last parameter
  std::size_t elements = 0;             // with what makes all shards equal and whole blocks

  std::size_t filled_bytes() const { return filled * size_of(type); }
  std::size_t bytes() const { return elements * size_of(type); }
  std::size_t shard(int ranks) const { return elements / static_cast<std::size_t>(ranks); }
};

struct BucketLayout {
  std::vector<Bucket> buckets;      // in the order in which they are complete
  std::vector<BucketPlace> places;  // by parameter
};

struct BucketRule {
  std::size_t first_bytes = 1 << 20;  // a small one, so that the first reduction begins early
  std::size_t cap_bytes = 25 << 20;   // a parameter that is larger has a bucket to itself
  int ranks = 1;
};

// `order` has every parameter once.
BucketLayout lay_out(std::span<const TensorSize> parameters, std::span<const std::size_t> order,
                     const BucketRule& rule);

// Stage 3: a unit's parameters lie together, in a bucket for each type, and the last unit's gradients come first.
// `units` has the unit of every parameter.
BucketLayout lay_out_units(std::span<const TensorSize> parameters, std::span<const std::size_t> units, int ranks);

// The order that is tried first: the last parameter's gradient comes first.
std::vector<std::size_t> reverse_order(std::size_t parameters);
// `seen` with the parameters that it lacks behind it, in reverse order.
std::vector<std::size_t> completed_order(std::span<const std::size_t> seen, std::size_t parameters);

// Blocks of kBlock elements of all parameters: each parameter's begin at its first element.
std::size_t blocks_of(std::size_t elements);
std::size_t blocks_of(std::span<const TensorSize> parameters);

// A parameter's elements that lie in one shard of its bucket: [first, first + count) of the parameter.
struct ShardPart {
  std::size_t parameter = 0;
  std::size_t first = 0, count = 0;
  std::size_t offset = 0;  // in the shard

  bool operator==(const ShardPart&) const = default;
};
// Those of elements [begin, begin + count) of the bucket, in the bucket's order.
std::vector<ShardPart> parts_of(const BucketLayout& layout, std::size_t bucket, std::span<const TensorSize> parameters,
                                std::size_t begin, std::size_t count);

}  // namespace tutti::strategy
