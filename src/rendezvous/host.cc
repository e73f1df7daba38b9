#include "rendezvous/host.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "base/system_error.h"
#include "rendezvous/roster.h"
#include "rendezvous/sockets.h"

namespace tutti::rendezvous {
namespace {

std::string inode_of(const char* path) {
  struct stat facts {};
  return ::stat(path, &facts) == 0 ? std::to_string(facts.st_ino) : "0";
}

std::string boot_id() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id.empty() ? host_name() : id;
}

int open_process(int pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

// Where a filter of system calls says no, it is not the machine that lacks it.
std::string in_words_of_filter(const std::string& call, int number) {
  const bool filtered = number == EPERM || number == ENOSYS || number == EACCES;
  return call + ": " + std::strerror(number) +
         (filtered ? "; allow it in the container's seccomp profile (Linux has it since 5.3)" : "");
}

}  // namespace

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0) return "unknown host";
  return name;
}

std::vector<std::uint64_t> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return {};
  std::vector<std::uint64_t> cores;
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &set)) continue;
    cores.resize(core / 64 + 1);
    cores[core / 64] |= std::uint64_t{1} << (core % 64);
  }
  return cores;
}

std::string host_id() {
  return make_host_id(boot_id(), inode_of("/proc/self/ns/net"), inode_of("/proc/self/ns/pid"), ::geteuid());
}

std::string why_no_memory() {
  constexpr std::size_t kBytes = 4096;
  const auto failed = [](const char* what) { return std::string(what) + ": " + std::strerror(errno); };
  const FileDescriptor memory(::memfd_create("tutti-probe", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.valid()) return in_words_of_filter("memfd_create", errno);
  if (::ftruncate(memory.get(), kBytes) != 0) return failed("ftruncate of a memfd");
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) return failed("sealing a memfd");
  void* mapped = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED) return failed("mapping a memfd");
  ::munmap(mapped, kBytes);
  // Ranks that share memory learn of each other's end by it.
  const FileDescriptor life(open_process(::getpid()));
  if (!life.valid() && errno != EMFILE && errno != ENFILE) return in_words_of_filter("pidfd_open", errno);
  return {};
}

FileDescriptor watch_process(int pid) {
  FileDescriptor life(open_process(pid));
  if (life.valid() || errno == ESRCH) return life;
  if (errno == EMFILE) throw Error(ErrorCode::system, descriptors_in_words());
  throw Error(ErrorCode::system,
              "watching process " + std::to_string(pid) + ": " + in_words_of_filter("pidfd_open", errno));
}

}  // namespace tutti::rendezvous
