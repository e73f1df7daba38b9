#include "train/checkpoint_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/formatted.h"
#include "base/system_error.h"

namespace tutti::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNamePrefix = "step-";
constexpr std::string_view kUnfinished = ".unfinished-";
constexpr const char* kRestore = "; put the file back from a copy, or remove the folder to load the checkpoint before";

[[noreturn]] void refuse_piece(const std::string& words) { throw Error(ErrorCode::invalid_argument, words + kRestore); }

FileDescriptor open_file(const std::string& path, int flags) {
  FileDescriptor file(::open(path.c_str(), flags | O_CLOEXEC, 0666));
  if (!file.valid()) throw_errno("cannot open " + path);
  return file;
}

FileDescriptor open_saved(const std::string& path) {
  if (!fs::exists(path)) refuse_piece(path + " is missing");
  return open_file(path, O_RDONLY);
}

void sync_file(const FileDescriptor& file, const std::string& path) {
  // Some file systems cannot sync folders, and say so by EINVAL.
  if (::fsync(file.get()) != 0 && errno != EINVAL) throw_errno("cannot write " + path + " to disk");
}

void sync_folder(const std::string& path) { sync_file(open_file(path, O_RDONLY | O_DIRECTORY), path); }

void write_all(const FileDescriptor& file, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) throw_errno("cannot write " + path);
    if (written > 0) bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void read_block(const FileDescriptor& file, std::size_t offset, std::span<std::byte> block, const std::string& path) {
  while (!block.empty()) {
    const ssize_t got = ::pread(file.get(), block.data(), block.size(), static_cast<off_t>(offset));
    if (got < 0 && errno != EINTR) throw_errno("cannot read " + path);
    if (got == 0) refuse_piece(path + " was cut short while it was read");
    if (got <= 0) continue;
    block = block.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::size_t>(got);
  }
}

void check_length(const FileDescriptor& file, const std::string& path, std::size_t bytes) {
  struct stat facts {};
  if (::fstat(file.get(), &facts) != 0) throw_errno("cannot look at " + path);
  const auto length = static_cast<std::size_t>(facts.st_size);
  if (length == bytes) return;
  refuse_piece(path + (length < bytes ? " is cut short: it has " : " is not as it was written: it has ") +
               std::to_string(length) + " bytes of " + std::to_string(bytes));
}

void require_done(const std::error_code& error, const std::string& what) {
  if (error) throw Error(ErrorCode::system, what + ": " + error.message());
}

}  // namespace

PieceFile::PieceFile(const std::string& path, std::size_t checksum_bytes)
    : path_(path), file_(open_file(path, O_WRONLY | O_CREAT | O_EXCL)), checksum_bytes_(checksum_bytes) {}

void PieceFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), checksum_bytes_ - bytes_ % checksum_bytes_));
    write_all(file_, part, path_);
    sum_.add(part);
    bytes_ += part.size();
    if (bytes_ % checksum_bytes_ == 0) checksums_.push_back(sum_.take());
    bytes = bytes.subspan(part.size());
  }
}

void PieceFile::finish(CheckpointPiece& piece) {
  if (bytes_ % checksum_bytes_ != 0) checksums_.push_back(sum_.take());
  sync_file(file_, path_);
  file_.reset();
  piece.bytes = bytes_;
  piece.checksums = std::move(checksums_);
}

void read_piece(const std::string& path, const CheckpointPiece& piece, std::size_t checksum_bytes,
                std::vector<WantedBytes>& wanted) {
  const FileDescriptor file = open_saved(path);
  check_length(file, path, piece.bytes);
  std::ranges::sort(wanted, {}, &WantedBytes::offset);
  std::vector<std::byte> block;
  auto next = wanted.begin();
  for (std::size_t b = 0; b < piece.checksums.size() && next != wanted.end(); ++b) {
    const std::size_t begin = b * checksum_bytes, end = std::min(begin + checksum_bytes, piece.bytes);
    if (next->offset >= end) continue;
    block.resize(end - begin);
    read_block(file, begin, block, path);
    if (sha256_of(block) != piece.checksums[b]) {
      refuse_piece(path + " is damaged: bytes " + std::to_string(begin) + " to " + std::to_string(end - 1) +
                   " do not have the checksum that " + kIndexFile + " tells");
    }
    for (auto part = next; part != wanted.end() && part->offset < end; ++part) {
      const std::size_t from = std::max(begin, part->offset), to = std::min(end, part->offset + part->count);
      if (from < to) std::memcpy(part->to + (from - part->offset), block.data() + (from - begin), to - from);
    }
    while (next != wanted.end() && next->offset + next->count <= end) ++next;
  }
}

std::string read_text(const std::string& path) { return read_all(open_saved(path).get()); }

void write_text(const std::string& path, const std::string& text) {
  const FileDescriptor file = open_file(path, O_WRONLY | O_CREAT | O_EXCL);
  write_all(file, std::as_bytes(std::span(text)), path);
  sync_file(file, path);
}

std::string checkpoint_name(std::int64_t step) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%08lld", static_cast<long long>(step));
  return std::string(kNamePrefix) + digits;
}

std::string unfinished_name(std::int64_t step, std::uint64_t number) {
  return checkpoint_name(step) + std::string(kUnfinished) + std::to_string(number);
}

std::string piece_name(int rank) { return formatted("rank-%05d.safetensors", rank); }
std::string compression_name(int rank) { return formatted("compression-%05d.safetensors", rank); }

std::vector<std::int64_t> saved_steps(const std::string& folder) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(kNamePrefix)) continue;
    std::int64_t step = 0;
    const char* end = name.data() + name.size();
    const auto [read, failure] = std::from_chars(name.data() + kNamePrefix.size(), end, step);
    if (failure == std::errc() && read == end) steps.push_back(step);
  }
  if (error && error != std::errc::no_such_file_or_directory)
    throw Error(ErrorCode::system, "cannot look into " + folder + ": " + error.message());
  std::ranges::sort(steps);
  return steps;
}

void make_folder(const std::string& path) {
  std::error_code error;
  const bool is_new = fs::create_directories(path, error);
  require_done(error, "cannot make the folder " + path);
  if (is_new) sync_folder(fs::absolute(path).parent_path().string());
}

void put_in_place(const std::string& from, const std::string& to) {
  sync_folder(from);
  // An exchange leaves no moment without a checkpoint of that name. Not all file systems have it.
  const bool replaced = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0;
  if (!replaced) {
    if (fs::exists(to)) remove_checkpoint(to);
    if (::rename(from.c_str(), to.c_str()) != 0) throw_errno("cannot rename " + from + " to " + to);
  }
  sync_folder(fs::path(to).parent_path().string());
  if (replaced) remove_checkpoint(from);
}

void remove_checkpoint(const std::string& path) {
  std::string half = path;
  if (fs::path(path).filename().string().find(kUnfinished) == std::string::npos) {
    half += std::string(kUnfinished) + "removed";
    std::error_code ignored;
    fs::remove_all(half, ignored);
    if (::rename(path.c_str(), half.c_str()) != 0) throw_errno("cannot remove " + path);
  }
  std::error_code error;
  fs::remove_all(half, error);
  require_done(error, "cannot remove " + half);
}

void remove_unfinished(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(kNamePrefix) && name.find(kUnfinished) != std::string::npos)
      found.push_back(entry->path().string());
  }
  for (const std::string& path : found) remove_checkpoint(path);
}

}  // namespace tutti::train
