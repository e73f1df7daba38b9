// The first minute on a machine that has half of everything: what cannot be built is left out in words, and a target of
// the Makefile configures only what it asked for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "shell.h"

namespace tutti::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class FirstRun : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tutti_first_run_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder = name;
  }
  void TearDown() override { fs::remove_all(folder); }

  Ended configure(const std::string& options) const {
    return shell("cmake -G Ninja -S " TUTTI_SOURCE_DIRECTORY " -B " + (folder / "build").string() +
                 " -DCMAKE_CXX_COMPILER=" TUTTI_CXX_COMPILER " " + options);
  }

  fs::path folder;
};

// As Debian's libgtest-dev without libgmock-dev.
TEST_F(FirstRun, WithoutGoogleMockTheTestsAreLeftOut) {
  std::ofstream(folder / "GTestConfig.cmake") << "add_library(GTest::gtest INTERFACE IMPORTED)\n"
                                                 "add_library(GTest::gtest_main INTERFACE IMPORTED)\n";
  const Ended ended = configure("-DTUTTI_BENCH=OFF -DGTest_DIR=" + folder.string());
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("Tutti: GoogleTest or its GoogleMock not found, the tests are left out"));
}

// python3 without python3-dev.
TEST_F(FirstRun, WithoutPythonsHeadersThePackageIsLeftOut) {
  const Ended ended = configure("-DTUTTI_TESTS=OFF -DTUTTI_BENCH=OFF -DTUTTI_PYTHON=ON -DPython_EXECUTABLE=/bin/false");
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("Tutti: no Python 3.9 or newer with its headers"));
}

// Scripts in a tree of their own, with a cmake that only notes what it is asked for.
class Parts : public FirstRun {
 protected:
  void SetUp() override {
    FirstRun::SetUp();
    fs::copy(fs::path(TUTTI_SOURCE_DIRECTORY) / "scripts", folder / "scripts");
    fs::create_directories(folder / "bin");
    program("cmake", "echo \"$*\" >" + (folder / "asked").string());
  }

  void program(const std::string& name, const std::string& text) const {
    std::ofstream(folder / "bin" / name) << "#!/bin/sh\n" << text << "\n";
    fs::permissions(folder / "bin" / name, fs::perms::owner_all);
  }

  Ended script(const std::string& words) const {
    return shell("PATH=" + (folder / "bin").string() + ":$PATH " + (folder / "scripts" / words).string());
  }

  std::string asked_by(const std::string& words) const {
    const Ended ended = script("configure.sh " + words);
    EXPECT_EQ(ended.exit_code, 0) << ended.output;
    std::ostringstream text;
    text << std::ifstream(folder / "asked").rdbuf();
    return text.str();
  }
};

TEST_F(Parts, ATargetConfiguresWhatItAskedFor) {
  const std::string demo = asked_by("release build");
  EXPECT_THAT(demo, HasSubstr("-DTUTTI_TESTS=OFF"));
  EXPECT_THAT(demo, HasSubstr("-DTUTTI_BENCH=OFF"));
  EXPECT_THAT(demo, Not(HasSubstr("-DTUTTI_PYTHON")));
  const std::string test = asked_by("release build test");
  EXPECT_THAT(test, HasSubstr("-DTUTTI_TESTS=ON"));
  EXPECT_THAT(test, HasSubstr("-DTUTTI_BENCH=OFF"));
  const std::string all = asked_by("release");
  EXPECT_THAT(all, HasSubstr("-DTUTTI_TESTS=ON"));
  EXPECT_THAT(all, HasSubstr("-DTUTTI_BENCH=ON"));
}

// CMake deletes what it no longer knows how to build.
TEST_F(Parts, WhatWasBuiltBeforeStays) {
  fs::create_directories(folder / "build");
  std::ofstream(folder / "build/CMakeCache.txt") << "\n";
  EXPECT_THAT(asked_by("release build"), Not(HasSubstr("-DTUTTI_TESTS")));
  const std::string bench = asked_by("release build bench");
  EXPECT_THAT(bench, Not(HasSubstr("-DTUTTI_TESTS")));
  EXPECT_THAT(bench, HasSubstr("-DTUTTI_BENCH=ON"));
}

TEST_F(Parts, ALongBuildSaysHowLong) {
  program("ninja", "echo '[1/400] a.cc.o'; echo '[2/400] b.cc.o'");
  EXPECT_THAT(script("build.sh release one two").output, HasSubstr("building: 400 steps, about "));
  program("ninja", "echo '[1/2] a.cc.o'");
  EXPECT_EQ(script("build.sh release").output, "");
}

}  // namespace
}  // namespace tutti::testing
