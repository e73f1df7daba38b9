// Which part of which parameter lies on which server, in how many messages it travels, and what a worker says in a
// clock by these formulas: what its communicator counts must equal this.
//
// A dense parameter is cut into ranges of elements, one for each server, where it is large; a small one lies on the
// server that holds least so far. A table, of which workers push and pull single rows, is dealt out row by row: row r
// lies on server r % servers, so that rows which are popular, and often the first ones, lie on all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tutti/train/report.h"

namespace tutti::strategy {

// A dense parameter is one row of all its elements.
struct KeyShape {
  std::string name;
  std::size_t rows = 1, width = 0;
  bool table = false;

  std::size_t elements() const { return rows * width; }
};

// What one server holds of a parameter: so many elements from `first` on, or of a table so many rows.
struct KeyPart {
  std::size_t first = 0, count = 0;

  bool operator==(const KeyPart&) const = default;
};

// By parameter, by server.
using KeyCuts = std::vector<std::vector<KeyPart>>;

// Dense parts begin at multiples of this; a parameter with less of it for each server is not cut.
inline constexpr std::size_t kKeyBlock = 1024;

KeyCuts cut_keys(std::span<const KeyShape> keys, int servers);

inline int server_of_row(std::int64_t row, int servers) { return static_cast<int>(row % servers); }
inline std::int64_t row_at_server(std::int64_t row, int servers) { return row / servers; }

// Floats of a message at most, unless a row has more: what caches hold, and worth the wake-ups that a message costs.
inline constexpr std::size_t kMessageFloats = 262144;

// Rows of a message, and messages for so many rows. A dense part has rows of one element here.
inline std::size_t rows_per_message(std::size_t width) {
  return width == 0 || width >= kMessageFloats ? 1 : kMessageFloats / width;
}
inline std::size_t messages_for(std::size_t rows, std::size_t width) {
  const std::size_t each = rows_per_message(width);
  return (rows + each - 1) / each;
}

// Bytes of what precedes a push or pull, ends a clock, and comes back for that.
inline constexpr std::size_t kCommandBytes = 4 * sizeof(std::int64_t);

// One push or pull of a worker: of a dense parameter, or of so many rows of a table on each server.
struct KeyCall {
  bool pushes = false;
  std::size_t key = 0;
  std::vector<std::size_t> rows;  // by server; a table's only

  bool operator==(const KeyCall&) const = default;
};

// What a worker says in a clock with these calls, the end of the clock included.
train::Sentence sentence_of(std::span<const KeyShape> keys, const KeyCuts& cuts, std::span<const KeyCall> calls,
                            int servers);

}  // namespace tutti::strategy
