// Which of a verb's candidates is predicted to be the quickest, up to which size.
#pragma once

#include <bit>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <vector>

#include "base/offers.h"
#include "choice/prices.h"
#include "schedule/algorithms/table.h"

namespace tutti::choice {

inline constexpr std::uint64_t kAnyBytes = ~std::uint64_t{0};

struct SizeRow {
  std::uint64_t bytes;  // up to here; of the vector, or of all chunks together
  const schedule::Algorithm* algorithm;
};

struct SizeTable {
  std::vector<SizeRow> rows;              // the last takes any size
  std::uint64_t enter_bytes = kAnyBytes;  // up to here they are quicker than `direct`
  std::uint64_t staged_sizes = 0;         // bit k: on a device, 2^k bytes are staged sooner than launched

  bool is_staged(std::uint64_t bytes) const { return (staged_sizes >> (std::bit_width(bytes | 1) - 1) & 1) != 0; }
};

// Prices every candidate, and `direct` (or nullptr) beside them, at every power of two. Pure: all ranks come to the
// same.
SizeTable size_table(std::span<const schedule::Algorithm* const> rows, const schedule::Algorithm* direct, int ranks,
                     const Offers& offers, const Prices& prices);

// The same, worked out once for all groups that ask alike, whose prices are the same. Any thread may ask.
class SizeTables {
 public:
  SizeTable get(std::span<const schedule::Algorithm* const> rows, const schedule::Algorithm* direct, int ranks,
                const Offers& offers, const Prices& prices);

 private:
  struct Known {
    std::vector<const schedule::Algorithm*> rows;
    const schedule::Algorithm* direct;
    int ranks;
    Offers offers;
    SizeTable table;
  };

  std::mutex mutex_;  // held while a table is worked out: who asks for the same meanwhile would only do it again
  std::deque<Known> known_;
};

}  // namespace tutti::choice
