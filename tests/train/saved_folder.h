// A folder for checkpoints of one test, gone when the test ends, and what may become of files in it.
#pragma once

#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace tutti::testing {

class SavedFolder {
 public:
  SavedFolder() : path_((std::filesystem::temp_directory_path() / "tutti-checkpoints-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("mkdtemp");
  }
  ~SavedFolder() { std::filesystem::remove_all(path_); }
  SavedFolder(const SavedFolder&) = delete;
  SavedFolder& operator=(const SavedFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  // How many files and folders it holds by itself.
  std::ptrdiff_t entries() const {
    return std::distance(std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator());
  }

 private:
  std::string path_;
};

inline std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void overwrite(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

inline void flip_bit(const std::string& path, std::size_t byte) {
  std::string content = content_of(path);
  content.at(byte) = static_cast<char>(content.at(byte) ^ 4);
  overwrite(path, content);
}

}  // namespace tutti::testing
