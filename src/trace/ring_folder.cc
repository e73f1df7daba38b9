#include "trace/ring_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "base/folders.h"
#include "base/formatted.h"
#include "trace/recording.h"

namespace tutti::trace {
namespace {

// Whether the open folder is the one of this name, and not one that was removed meanwhile.
bool is_there(const FileDescriptor& folder, const std::string& name) {
  struct stat open {
  }, named{};
  return ::fstat(folder.get(), &open) == 0 && ::stat(name.c_str(), &named) == 0 && open.st_dev == named.st_dev &&
         open.st_ino == named.st_ino;
}

FileDescriptor open_folder(const std::string& name) {
  return FileDescriptor(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

}  // namespace

bool is_in_use(const std::string& folder) {
  const auto recorded = [&](const std::string& name) {
    return name.starts_with("rank-") && name.ends_with(".ring") && is_recorded(folder + "/" + name);
  };
  return std::ranges::any_of(names_in(folder).value_or(std::vector<std::string>()), recorded);
}

FolderClaim::FolderClaim(const std::string& folder) {
  constexpr int kTries = 100;  // others may take the folder away between two looks
  for (int i = 0; i < kTries; ++i) {
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return;
    folder_ = open_folder(folder);
    if (!folder_.valid()) continue;
    if (::flock(folder_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) break;
    if (!is_there(folder_, folder)) continue;
    if (is_in_use(folder)) break;
    for (const std::string& name : names_in(folder).value_or(std::vector<std::string>()))
      static_cast<void>(remove_all(folder + "/" + name));
    return;
  }
  holds_ = !folder_.valid();
  folder_.reset();
}

FolderHold::FolderHold(const std::string& folder) : folder_(open_folder(folder)) {
  constexpr int kTries = 100;  // somebody may just look whether the folder is free
  for (int i = 0; i < kTries && folder_.valid() && ::flock(folder_.get(), LOCK_SH | LOCK_NB) != 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

std::string file_beside(const std::string& file, std::uint64_t job) {
  const std::string number = formatted(".%llx", static_cast<unsigned long long>(job));
  const std::size_t name = file.rfind('/') + 1, dot = file.rfind('.');
  const bool ends_in_dot = dot != std::string::npos && dot > name;  // ".json" is all name
  return ends_in_dot ? file.substr(0, dot) + number + file.substr(dot) : file + number;
}

}  // namespace tutti::trace
