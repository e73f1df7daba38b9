// What a project outside gets: the build is installed into a folder of its own, the folder is moved, and programs are
// built against it by find_package and by pkg-config, and run by the installed command.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "shell.h"

namespace tutti::testing {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = TUTTI_SOURCE_DIRECTORY;
const std::string kC = std::string(TUTTI_C_COMPILER) + " -std=c99 -Wall -Wextra -Wpedantic -Werror ";
const std::string kCxx = std::string(TUTTI_CXX_COMPILER) + " -std=c++20 -Wall -Wextra -Wpedantic -Werror ";

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class Installed : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::string name = (fs::temp_directory_path() / "tutti_install_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder() = name;
    const fs::path first = folder() / "first";
    const Ended ended = shell("cmake --install " TUTTI_BUILD_DIRECTORY " --prefix " + first.string());
    ASSERT_EQ(ended.exit_code, 0) << ended.output;
    fs::rename(first, prefix());  // what still points to the old place is broken from here on
  }
  static void TearDownTestSuite() { fs::remove_all(folder()); }

  static fs::path& folder() {
    static fs::path path;
    return path;
  }
  static fs::path prefix() { return folder() / "moved"; }
  static fs::path library_directory() { return prefix() / TUTTI_LIBRARY_DIRECTORY; }

  static void expect_ok(const std::string& command) {
    const Ended ended = shell("( " + command + " )");
    EXPECT_EQ(ended.exit_code, 0) << command << "\n" << ended.output;
  }
  static void expect_two_ranks(const fs::path& program, const std::string& line, const std::string& before = "") {
    const Ended ended =
        shell(before + "timeout 50 " + (prefix() / "bin/tutti").string() + " run -n 2 -- " + program.string());
    EXPECT_EQ(ended.exit_code, 0) << ended.output;
    EXPECT_EQ(count_of(ended.output, line), 2) << ended.output;
  }
  static void expect_cmake_project(const std::string& name, const std::string& line) {
    const fs::path build = folder() / name;
    expect_ok("cmake -S " + (kSource / "tests/install" / name).string() + " -B " + build.string() +
              " -DCMAKE_PREFIX_PATH=" + prefix().string() +
              " -DCMAKE_C_COMPILER=" TUTTI_C_COMPILER " -DCMAKE_CXX_COMPILER=" TUTTI_CXX_COMPILER +
              " && cmake --build " + build.string());
    expect_two_ranks(build / name, line);
  }
  // Functions that tutti.h declares.
  static std::set<std::string> declared() {
    const std::string header =
        std::regex_replace(text_of(prefix() / "include/tutti/tutti.h"), std::regex(R"(/\*[^]*?\*/|#[^\n]*)"), "");
    static const std::regex kFunction(R"(\b(tutti_\w+)\s*\([^*])");
    std::set<std::string> names;
    for (std::sregex_iterator found(header.begin(), header.end(), kFunction), end; found != end; ++found)
      names.insert((*found)[1]);
    return names;
  }
};

TEST_F(Installed, ACProjectFindsThePackage) { expect_cmake_project("outside_c", "c: rank "); }
TEST_F(Installed, ACxxProjectFindsThePackage) { expect_cmake_project("outside_cxx", "c++: rank "); }

TEST_F(Installed, PkgConfigIsEnough) {
  if (shell("command -v pkg-config").exit_code != 0) GTEST_SKIP() << "pkg-config is not installed";
  const std::string flags =
      " $(PKG_CONFIG_PATH=" + (library_directory() / "pkgconfig").string() + " pkg-config --cflags --libs tutti)";
  const std::string found = "LD_LIBRARY_PATH=" + library_directory().string() + " ";
  const fs::path c = folder() / "pc_c", cxx = folder() / "pc_cxx";
  expect_ok(kC + (kSource / "tests/install/outside_c/outside.c").string() + " -o " + c.string() + flags);
  expect_two_ranks(c, "c: rank ", found);
  expect_ok(kCxx + (kSource / "tests/install/outside_cxx/outside.cc").string() + " -o " + cxx.string() + flags);
  expect_two_ranks(cxx, "c++: rank ", found);
}

TEST_F(Installed, EveryHeaderIsThere) {
  const fs::path all = folder() / "all.cc", c = folder() / "c.c";
  std::ofstream program(all);
  for (const auto& header : fs::recursive_directory_iterator(kSource / "include/tutti")) {
    if (!header.is_regular_file()) continue;
    const std::string name = fs::relative(header.path(), kSource / "include/tutti").string();
    EXPECT_TRUE(fs::exists(prefix() / "include/tutti" / name)) << name;
    // Those need libtorch.
    if (!header.path().filename().string().starts_with("torch")) program << "#include <tutti/" << name << ">\n";
  }
  program.close();
  const std::string include = " -fsyntax-only -I" + (prefix() / "include").string() + " ";
  expect_ok(kCxx + include + all.string());
  std::ofstream(c) << "#include <tutti/tutti.h>\n";
  expect_ok(kC + include + c.string());
}

TEST_F(Installed, EveryFunctionOfTheHeaderIsExportedAndNothingInternal) {
  const fs::path library = library_directory() / "libtutti.so";
  if (!fs::exists(library)) GTEST_SKIP() << "the library is static";
  const Ended ended = shell("nm -DC --defined-only " + library.string());
  ASSERT_EQ(ended.exit_code, 0) << ended.output;
  std::set<std::string> exported;
  static const std::regex kInternal(
      R"(^(hwy|nlohmann|tutti::(engine|capi|kernels|schedule|transport|rendezvous|topology|strategy|canonical))::)");
  std::istringstream lines(ended.output);
  for (std::string line; std::getline(lines, line);) {
    const std::string symbol = line.substr(std::min<std::size_t>(line.size(), 19));
    exported.insert(symbol);
    EXPECT_FALSE(std::regex_search(symbol, kInternal)) << symbol;
  }
  const std::set<std::string> functions = declared();
  EXPECT_GT(functions.size(), 40U);
  for (const std::string& function : functions) EXPECT_TRUE(exported.contains(function)) << function;
  for (const std::string& symbol : exported) {
    const bool known = !symbol.starts_with("tutti_") || functions.contains(symbol);
    EXPECT_TRUE(known) << symbol << " is not in tutti.h";
  }
}

TEST_F(Installed, NoPathOfTheBuildIsLeft) {
  int looked = 0;
  for (const auto& entry : fs::recursive_directory_iterator(library_directory())) {
    if (!entry.is_regular_file() || entry.path().filename().string().starts_with("libtutti")) continue;
    const std::string text = text_of(entry.path());
    for (const std::string path : {TUTTI_BUILD_DIRECTORY, TUTTI_SOURCE_DIRECTORY})
      EXPECT_EQ(text.find(path), std::string::npos) << entry.path() << " names " << path;
    EXPECT_EQ(text.find((folder() / "first").string()), std::string::npos) << entry.path();
    ++looked;
  }
  EXPECT_GE(looked, 4);
}

TEST_F(Installed, TheCommandAndTheLicenceAreThere) {
  expect_ok((prefix() / "bin/tutti").string() + " list");
  EXPECT_TRUE(fs::exists(prefix() / TUTTI_DOC_DIRECTORY / "LICENSE"));
}

}  // namespace
}  // namespace tutti::testing
