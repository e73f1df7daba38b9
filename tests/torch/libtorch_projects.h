// Projects of libtorch as users build them: Tutti is installed into a folder of its own, and they are built against it
// and the libtorch of $TORCH_PYTHON (or python3), to be run on several ranks. The folder goes with the object.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "shell.h"

namespace tutti::testing {

inline const std::filesystem::path kSource = TUTTI_SOURCE_DIRECTORY;
inline constexpr const char* kNoTorch = "no PyTorch for python3; TORCH_PYTHON names a python that has it";

// Where CMake finds libtorch; empty without one.
inline std::string torch_folder() {
  const Ended found =
      shell("${TORCH_PYTHON:-python3} -c 'import torch; print(torch.utils.cmake_prefix_path)'", "2>/dev/null");
  return found.exit_code == 0 ? found.output.substr(0, found.output.find('\n')) : "";
}

class LibtorchProjects {
 public:
  explicit LibtorchProjects(std::string torch) : torch_(std::move(torch)) {
    std::string name = (std::filesystem::temp_directory_path() / "tutti_cpp_torch_XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    shell_out("cmake --install " TUTTI_BUILD_DIRECTORY " --prefix " + (folder_ / "tutti").string());
  }
  ~LibtorchProjects() { std::filesystem::remove_all(folder_); }
  LibtorchProjects(const LibtorchProjects&) = delete;
  LibtorchProjects& operator=(const LibtorchProjects&) = delete;

  // Builds the project in `source`, in a folder of this name.
  void build(const std::filesystem::path& source, const std::string& name) {
    const std::string build = (folder_ / name).string();
    shell_out("cmake -S " + source.string() + " -B " + build + " -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH='" +
              torch_ + ";" + (folder_ / "tutti").string() + "' -DCMAKE_CXX_COMPILER=" TUTTI_CXX_COMPILER +
              " && cmake --build " + build);
  }
  // Runs a program of that folder, with its arguments, on all ranks; what it tells.
  std::string run(const std::string& name, const std::string& program, int ranks,
                  const std::string& transport = "auto") {
    if (::testing::Test::HasFailure()) return "";
    return shell_out("TUTTI_TRANSPORT=" + transport + " timeout 300 " + (folder_ / "tutti/bin/tutti").string() +
                     " run -n " + std::to_string(ranks) + " --no-prefix -- " + (folder_ / name).string() + "/" +
                     program);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

 private:
  static std::string shell_out(const std::string& command) {
    const Ended ended = shell("( " + command + " )");
    EXPECT_EQ(ended.exit_code, 0) << command << "\n" << ended.output;
    return ended.output;
  }

  std::string torch_;
  std::filesystem::path folder_;
};

}  // namespace tutti::testing
