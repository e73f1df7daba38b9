#include "trace/ring_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "base/formatted.h"
#include "trace/recording.h"

namespace tutti::trace {
namespace {

namespace fs = std::filesystem;

// Whether the open folder is the one of this name, and not one that was removed meanwhile.
bool is_there(const FileDescriptor& folder, const std::string& name) {
  struct stat open {
  }, named{};
  return ::fstat(folder.get(), &open) == 0 && ::stat(name.c_str(), &named) == 0 && open.st_dev == named.st_dev &&
         open.st_ino == named.st_ino;
}

}  // namespace

bool is_in_use(const std::string& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("rank-") && name.ends_with(".ring") && is_recorded(entry.path().string())) return true;
  }
  return false;
}

FolderClaim::FolderClaim(const std::string& folder) {
  do {
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return;
    folder_ = FileDescriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder_.valid() && errno != ENOENT) return;
    if (folder_.valid() && ::flock(folder_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      holds_ = false;
      return;
    }
  } while (!folder_.valid() || !is_there(folder_, folder));
  holds_ = !is_in_use(folder);
  std::error_code ignored;
  if (!holds_) return;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) fs::remove_all(entry.path(), ignored);
}

std::string file_beside(const std::string& file, std::uint64_t job) {
  const fs::path path(file);
  const std::string number = formatted(".%llx", static_cast<unsigned long long>(job));
  return (path.parent_path() / (path.stem().string() + number + path.extension().string())).string();
}

}  // namespace tutti::trace
