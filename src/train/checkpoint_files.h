// Files of a checkpoint: written to disk with checksums, read only where checksums hold. Throws Error(system) where the
// system refuses, Error(invalid_argument) where a file is not what the index says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "train/checkpoint_index.h"
#include "train/checksum.h"

namespace tutti::train {

// A new file that is written from its first byte to its last.
class PieceFile {
 public:
  explicit PieceFile(const std::string& path, std::size_t checksum_bytes = kChecksumBytes);
  void write(std::span<const std::byte> bytes);
  // On disk. The piece's bytes and checksums.
  void finish(CheckpointPiece& piece);

 private:
  std::string path_;
  FileDescriptor file_;
  std::size_t checksum_bytes_;
  Sha256 sum_;
  std::size_t bytes_ = 0;
  std::vector<std::string> checksums_;
};

// Bytes of a file, and where they go.
struct WantedBytes {
  std::size_t offset = 0, count = 0;
  std::byte* to = nullptr;
};

// Reads them, block by block; every block that has some must have the checksum that the piece tells. `wanted` in any
// order, which it changes. Also checks the length of the file where nothing is wanted.
void read_piece(const std::string& path, const CheckpointPiece& piece, std::size_t checksum_bytes,
                std::vector<WantedBytes>& wanted);

std::string read_text(const std::string& path);                     // of a checkpoint
void write_text(const std::string& path, const std::string& text);  // on disk

// ---- Folders.

std::string checkpoint_name(std::int64_t step);
// Steps that have a checkpoint in the folder, in order; none where there is no such folder.
std::vector<std::int64_t> saved_steps(const std::string& folder);
// Where that of one of them lies: under its name, or under the one that put_in_place() has moved it aside to, where
// that came no further.
std::string saved_name(const std::string& folder, std::int64_t step);
void make_folder(const std::string& path);
// Has two folders exchange their names at once; false where the file system cannot.
bool exchange_names(const std::string& one, const std::string& other);
// Gives what lies at `from` the name `to`, also where something has that name; that is removed then. On disk, and at
// every moment the step has a whole checkpoint, the old one or the new.
void put_in_place(const std::string& from, const std::string& to,
                  const std::function<bool(const std::string&, const std::string&)>& exchange = exchange_names);
// Never leaves half of it under its name.
void remove_checkpoint(const std::string& path);
// What saves that did not come to their end have left; what they have moved aside gets its name again.
void remove_unfinished(const std::string& folder);
// A name for a checkpoint that is being written; the number tells it from others.
std::string unfinished_name(std::int64_t step, std::uint64_t number);
std::string piece_name(int rank);
std::string compression_name(int rank);  // of what compression keeps

}  // namespace tutti::train
