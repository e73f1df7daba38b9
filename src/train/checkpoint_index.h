// What a checkpoint is made of, as a value, and its text: index.json, and the header of a safetensors file. Pure.
//
//   step-00000010/index.json                       what was trained, where training stood, which slice lies where
//   step-00000010/rank-00000.safetensors           the slices that one rank wrote
//   step-00000010/compression-00000.safetensors    what compression keeps of a rank's own gradients
//
// An array is a number for every element of a parameter, in float32: the masters, each state of the optimizer, and what
// local updates keep of a replica. A
// slice is the same elements [first, first + count) of all arrays of one parameter. All slices together have every
// element of every parameter once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/train/checkpoint.h"
#include "tutti/train/optimizer.h"
#include "tutti/train/parameters.h"

namespace tutti::train {

inline constexpr const char* kIndexFile = "index.json";
inline constexpr std::size_t kChecksumBytes = 16 << 20;     // of a file that one checksum is of
inline constexpr std::size_t kMostChecksumBytes = 1 << 30;  // which are read at once

struct CheckpointSlice {
  std::size_t parameter = 0;
  std::size_t first = 0, count = 0;
  std::vector<std::size_t> offsets;  // in the file, of each array
  std::string array = {};            // of what compression keeps: the one array that it is of

  bool operator==(const CheckpointSlice&) const = default;
};

// Whose it is that compression keeps, where ranks have other parts of the model or several strategies: their parameters
// lie in buckets of their own.
struct KeptOrigin {
  std::string maker;                // a checksum of the strategies of this rank: ranks, settings, parts of parameters
  std::vector<std::int64_t> steps;  // that have compressed, by strategy
  std::vector<std::size_t> order;   // of this rank's parameters, strategy by strategy, in which buckets were filled

  bool operator==(const KeptOrigin&) const = default;
};

struct CheckpointPiece {
  std::string file;
  std::size_t bytes = 0;
  std::vector<std::string> checksums;  // SHA-256 in hexadecimal, of every block of the file
  std::vector<CheckpointSlice> slices;
  std::optional<KeptOrigin> origin = {};

  bool operator==(const CheckpointPiece&) const = default;
};

struct SavedLossScale {
  double scale = 1;
  int steps_since_overflow = 0;
};

// What one strategy counts.
struct SavedCounts {
  std::int64_t updates = 0;
  std::optional<SavedLossScale> loss_scale = {};
};

// Where local updates stood: inner steps, and after how many of them finish() came last.
struct SavedRounds {
  std::int64_t steps = 0, origin = 0;
};

// What compression keeps: a piece of each rank, whose slices are of one array each. They are floats that a parameter
// has on that rank, and not one for every element of every array.
struct SavedCompression {
  std::string settings;                 // in words
  std::int64_t steps = 0;               // that have compressed
  std::vector<std::size_t> order = {};  // of parameters, in which buckets were filled; none where pieces tell theirs
  std::vector<CheckpointPiece> pieces = {};
};

struct CheckpointIndex {
  TrainingPosition position;
  std::int64_t updates = 0;
  int ranks = 0, stage = 0;
  std::string optimizer;
  std::vector<std::pair<std::string, double>> settings;  // of the optimizer
  std::vector<std::string> arrays;                       // those of the optimizer, then those of local updates
  std::optional<SavedLossScale> loss_scale;
  std::vector<SavedCounts> others;  // where several strategies train the model: of all but the first
  std::optional<SavedRounds> local_updates;
  std::optional<SavedCompression> compression;
  Parameters parameters;  // without values
  std::size_t checksum_bytes = kChecksumBytes;
  std::vector<CheckpointPiece> pieces;

  // Of a strategy by its number; the first one's where fewer have saved.
  SavedCounts counts_of(std::size_t strategy) const {
    return strategy == 0 || strategy > others.size() ? SavedCounts{updates, loss_scale} : others[strategy - 1];
  }
};

std::string_view optimizer_name(const Optimizer& optimizer);
std::vector<std::pair<std::string, double>> optimizer_settings(const Optimizer& optimizer);
// "master", and the states by the names that torch.optim gives them.
std::vector<std::string> arrays_of(const Optimizer& optimizer);

// The text of index.json has a checksum of its own. Both throw Error(invalid_argument) whose words come behind the name
// of the file, where the text is not an index, or one that contradicts itself: what they return has every element of
// every array once, inside its file.
std::string to_text(const CheckpointIndex& index);
CheckpointIndex index_from_text(const std::string& text);

// The parameters alone, without values.
std::string to_text(const Parameters& parameters);
Parameters parameters_from_text(const std::string& text);

// What a rank tells rank 0 of its file.
std::string to_text(const CheckpointPiece& piece);
CheckpointPiece piece_from_text(const std::string& text);

// The first bytes of a safetensors file that has the slices' arrays one behind the other, padded so that they begin at
// a multiple of 8. Sets the slices' offsets. A slice that is a whole parameter has its name and shape, others
// "name[first:end]" and one dimension; states have ".exp_avg" and the like behind the name.
std::string safetensors_header(const Parameters& parameters, const std::vector<std::string>& arrays,
                               const std::vector<std::pair<std::string, std::string>>& metadata,
                               std::vector<CheckpointSlice>& slices);

// The same where every slice has an array of its own.
std::string safetensors_header(const Parameters& parameters,
                               const std::vector<std::pair<std::string, std::string>>& metadata,
                               std::vector<CheckpointSlice>& slices);

}  // namespace tutti::train
