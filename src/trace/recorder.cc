#include "trace/recorder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/file_descriptor.h"
#include "base/system_error.h"

namespace tutti::trace {
namespace {

RingFacts facts_of(int rank, int size) {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return {rank, size, Recorder::now_ns(),
          static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(since_1970).count())};
}

// Who reads the file of an earlier run keeps it: this one is another.
FileDescriptor make_file(const std::string& path, std::uint64_t bytes) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw_errno("cannot replace the trace '" + path + "'");
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid()) throw_errno("cannot make the trace '" + path + "'");
  // Now, because a store to a page that a full disk has no room for would end the process.
  if (const int error = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)); error != 0) {
    errno = error;
    throw_errno("no room for the trace '" + path + "' of " + std::to_string(bytes) + " bytes");
  }
  return file;
}

std::uint64_t require_capacity(std::uint64_t capacity) {
  if (std::has_single_bit(capacity) && capacity <= kMostEvents) return capacity;
  throw Error(ErrorCode::invalid_argument, "a ring of " + std::to_string(capacity) +
                                               " events: it takes a power of two, at most " +
                                               std::to_string(kMostEvents));
}

std::shared_ptr<std::byte> map_file(const std::string& path, std::uint64_t bytes) {
  const FileDescriptor file = make_file(path, bytes);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file.get(), 0);
  if (memory == MAP_FAILED) throw_errno("cannot map the trace '" + path + "'");
  return {static_cast<std::byte*>(memory), [bytes](std::byte* mapped) { ::munmap(mapped, bytes); }};
}

}  // namespace

std::string ring_path(const std::string& folder, int rank) {
  return folder + "/rank-" + std::to_string(rank) + ".ring";
}

Recorder::Recorder(const std::string& folder, int rank, int size, std::uint64_t capacity)
    : Recorder(map_file(ring_path(folder, rank), ring_bytes(require_capacity(capacity))), rank, size, capacity) {}

Recorder::Recorder(std::shared_ptr<std::byte> memory, int rank, int size, std::uint64_t capacity)
    : memory_(std::move(memory)), ring_(memory_.get(), require_capacity(capacity), facts_of(rank, size)) {}

}  // namespace tutti::trace
