#include "transport/shm/shm_mapper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/system_error.h"
#include "transport/shm/descriptor_passing.h"

namespace tutti::transport {
namespace {

FileDescriptor make_sealed_memory(std::size_t bytes) {
  FileDescriptor memory(::memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.valid()) throw_errno("memfd_create");
  if (::fchmod(memory.get(), 0600) != 0) throw_errno("fchmod of shared memory");
  if (::ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0)
    throw_errno("sizing shared memory to " + std::to_string(bytes) + " bytes");
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    throw_errno("sealing shared memory");
  return memory;
}

void require_sealed(int memory, std::size_t bytes) {
  struct stat facts {};
  if (::fstat(memory, &facts) != 0) throw_errno("fstat of shared memory");
  const int seals = ::fcntl(memory, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || static_cast<std::size_t>(facts.st_size) < bytes) {
    throw Error(ErrorCode::system, "rank 0 handed over shared memory that is not sealed or too small", 0);
  }
}

Mapping map_descriptor(int memory, std::size_t bytes) {
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  if (base == MAP_FAILED) throw_errno("mapping " + std::to_string(bytes) + " bytes of shared memory");
  return {std::shared_ptr<void>(base, [bytes](void* mapped) { ::munmap(mapped, bytes); }), bytes};
}

class ShmMapper final : public Mapper {
 public:
  explicit ShmMapper(ShmLinks links) : links_(std::move(links)) {
    for (const FileDescriptor& socket : links_.sockets) {
      if (socket.valid()) require_same_user(socket.get());
    }
  }
  int rank() const override { return links_.rank; }
  int size() const override { return links_.size; }
  int known_as(int rank) const override {
    return links_.known_as.empty() ? rank : links_.known_as[static_cast<std::size_t>(rank)];
  }

  Mapping map_shared(std::size_t bytes, const Deadline& deadline) override {
    return links_.rank == 0 ? hand_out(bytes, deadline) : take(bytes, deadline);
  }

  bool ended(int peer) override {
    const FileDescriptor& life = links_.life[static_cast<std::size_t>(peer)];
    pollfd entry{life.get(), POLLIN, 0};
    // A pipe hangs up, a pidfd becomes readable.
    return life.valid() && ::poll(&entry, 1, 0) > 0 && entry.revents != 0;
  }

 private:
  // A peer that has ended gets nothing, and all others do: whoever waits for it finds out in the memory they share, and
  // names it. Were this rank to give up here, the others would name this one.
  Mapping hand_out(std::size_t bytes, const Deadline& deadline) {
    const FileDescriptor memory = make_sealed_memory(bytes);
    for (int peer = 1; peer < links_.size; ++peer) {
      send_descriptor(links_.sockets[static_cast<std::size_t>(peer)].get(), memory.get(), bytes, known_as(peer),
                      deadline);
    }
    return map_descriptor(memory.get(), bytes);
  }

  Mapping take(std::size_t bytes, const Deadline& deadline) {
    std::uint64_t offered = 0;
    const FileDescriptor memory = receive_descriptor(links_.sockets[0].get(), &offered, known_as(0), deadline);
    if (offered != bytes) {
      throw Error(ErrorCode::mismatch,
                  "rank " + std::to_string(known_as(0)) + " asked for shared memory of " + std::to_string(offered) +
                      " bytes and rank " + std::to_string(known_as(links_.rank)) + " for " + std::to_string(bytes) +
                      " in the same call",
                  known_as(0));
    }
    require_sealed(memory.get(), bytes);
    return map_descriptor(memory.get(), bytes);
  }

  ShmLinks links_;
};

}  // namespace

std::unique_ptr<Mapper> make_shm_mapper(ShmLinks links) { return std::make_unique<ShmMapper>(std::move(links)); }

}  // namespace tutti::transport
