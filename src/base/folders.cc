#include "base/folders.h"

#include <dirent.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string_view>

namespace tutti {
namespace {

constexpr mode_t kForAll = 0777;      // but for what the process masks
constexpr int kMostOpenFolders = 16;  // of those that are in each other

std::string_view without_last_slashes(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path;
}

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

}  // namespace

bool exists(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0;
}

bool is_folder(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

std::string folder_of(const std::string& path) {
  const std::string_view whole = without_last_slashes(path);
  const std::size_t slash = whole.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return std::string(without_last_slashes(whole.substr(0, slash + 1)));
}

std::string last_name_of(const std::string& path) {
  const std::string_view whole = without_last_slashes(path);
  return std::string(whole.substr(whole.rfind('/') + 1));
}

std::optional<std::vector<std::string>> names_in(const std::string& folder) {
  const std::unique_ptr<DIR, CloseFolder> open(::opendir(folder.c_str()));
  if (!open) return std::nullopt;
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* const entry = ::readdir(open.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  if (errno != 0) return std::nullopt;
  std::ranges::sort(names);
  return names;
}

int make_folders(const std::string& path) {
  if (is_folder(path)) return 0;
  const std::string above = folder_of(path);
  const int made = above == path || above == "." ? 0 : make_folders(above);
  if (made < 0) return -1;
  if (::mkdir(path.c_str(), kForAll) == 0) return made + 1;
  const int why = errno;
  if (is_folder(path)) return made;  // others make it, too
  errno = why;
  return -1;
}

bool remove_all(const std::string& path) {
  const auto remove = [](const char* each, const struct stat*, int, FTW*) {
    return std::remove(each) == 0 || errno == ENOENT ? 0 : -1;
  };
  return ::nftw(path.c_str(), remove, kMostOpenFolders, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT;
}

}  // namespace tutti
