// Files and folders, by calls of the system alone.
//
// Not std::filesystem: libraries that a program loads may bring a part of that of their own, of another compiler, and
// show it to all that come after. PyTorch's do (2.11 and 2.15), and std::filesystem::remove_all, called from this
// library, then was theirs and ended at address 0.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tutti {

// Links are followed.
bool exists(const std::string& path);
bool is_folder(const std::string& path);

// "a/b" of "a/b/c" and of "a/b/c/", "." of "c".
std::string folder_of(const std::string& path);
// "c" of these.
std::string last_name_of(const std::string& path);

// What is in the folder, in order; nullopt, and errno, where it cannot be read.
std::optional<std::vector<std::string>> names_in(const std::string& folder);

// With those above it. How many there were to be made; -1, and errno, where one cannot be.
int make_folders(const std::string& path);

// With all that is in it, links as links. Whether it is gone, or was not there; else errno.
bool remove_all(const std::string& path);

}  // namespace tutti
