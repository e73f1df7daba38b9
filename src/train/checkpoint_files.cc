#include "train/checkpoint_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <set>
#include <string_view>
#include <system_error>

#include "base/folders.h"
#include "base/formatted.h"
#include "base/system_error.h"

namespace tutti::train {
namespace {

constexpr std::string_view kNamePrefix = "step-";
constexpr std::string_view kUnfinished = ".unfinished-";
constexpr std::string_view kReplaced = ".replaced";  // a whole checkpoint that makes room for another
constexpr const char* kRestore = "; put the file back from a copy, or remove the folder to load the checkpoint before";

[[noreturn]] void refuse_piece(const std::string& words) { throw Error(ErrorCode::invalid_argument, words + kRestore); }

FileDescriptor open_file(const std::string& path, int flags) {
  FileDescriptor file(::open(path.c_str(), flags | O_CLOEXEC, 0666));
  if (!file.valid()) throw_errno("cannot open " + path);
  return file;
}

FileDescriptor open_saved(const std::string& path) {
  if (!exists(path)) refuse_piece(path + " is missing");
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

void rename_folder(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) throw_errno("cannot rename " + from + " to " + to);
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

namespace {

std::string replaced_name(std::int64_t step) { return checkpoint_name(step) + std::string(kReplaced); }

// Names in the folder that begin like a checkpoint's; none where there is no such folder.
std::vector<std::string> checkpoints_in(const std::string& folder) {
  auto names = names_in(folder);
  if (!names && errno != ENOENT) throw_errno("cannot look into " + folder);
  if (!names) return {};
  std::erase_if(*names, [](const std::string& name) { return !name.starts_with(kNamePrefix); });
  return *std::move(names);
}

// The step of a name that is a whole checkpoint's, moved aside or not.
std::optional<std::int64_t> step_of(std::string_view name) {
  if (name.ends_with(kReplaced)) name.remove_suffix(kReplaced.size());
  std::int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [read, failure] = std::from_chars(name.data() + kNamePrefix.size(), end, step);
  return failure == std::errc() && read == end ? std::optional(step) : std::nullopt;
}

}  // namespace

std::vector<std::int64_t> saved_steps(const std::string& folder) {
  std::set<std::int64_t> steps;
  for (const std::string& name : checkpoints_in(folder))
    if (const std::optional<std::int64_t> step = step_of(name)) steps.insert(*step);
  return {steps.begin(), steps.end()};
}

std::string saved_name(const std::string& folder, std::int64_t step) {
  const bool is_aside = !exists(folder + "/" + checkpoint_name(step)) && exists(folder + "/" + replaced_name(step));
  return is_aside ? replaced_name(step) : checkpoint_name(step);
}

void make_folder(const std::string& path) {
  const int made = make_folders(path);
  if (made < 0) throw_errno("cannot make the folder " + path);
  if (made > 0) sync_folder(folder_of(path));
}

bool exchange_names(const std::string& one, const std::string& other) {
  return ::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) == 0;
}

void put_in_place(const std::string& from, const std::string& to,
                  const std::function<bool(const std::string&, const std::string&)>& exchange) {
  const std::string folder = folder_of(to);
  sync_folder(from);
  std::optional<std::string> old;
  if (exists(to)) old = exchange(from, to) ? from : to + std::string(kReplaced);
  if (old != from) {
    if (old) {
      rename_folder(to, *old);
      sync_folder(folder);
    }
    rename_folder(from, to);
  }
  sync_folder(folder);
  if (old) remove_checkpoint(*old);
}

void remove_checkpoint(const std::string& path) {
  std::string half = path;
  if (last_name_of(path).find(kUnfinished) == std::string::npos) {
    half += std::string(kUnfinished) + "removed";
    static_cast<void>(remove_all(half));
    if (::rename(path.c_str(), half.c_str()) != 0) throw_errno("cannot remove " + path);
  }
  if (!remove_all(half)) throw_errno("cannot remove " + half);
}

void remove_unfinished(const std::string& folder) {
  for (const std::string& name : checkpoints_in(folder)) {
    const std::string path = folder + "/" + name;
    if (name.find(kUnfinished) != std::string::npos) {
      remove_checkpoint(path);
    } else if (const std::optional<std::int64_t> step = step_of(name); step && name.ends_with(kReplaced)) {
      const std::string named = folder + "/" + checkpoint_name(*step);
      if (exists(named)) {
        remove_checkpoint(path);
      } else {
        rename_folder(path, named);
      }
    }
  }
}

}  // namespace tutti::train
