#include "base/folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

class Folders : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "folders-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    top_ = name;
  }
  void TearDown() override { EXPECT_TRUE(remove_all(top_)); }

  std::string in_top(const std::string& name) const { return top_ + "/" + name; }
  void write(const std::string& name) const { ASSERT_TRUE(std::ofstream(in_top(name)) << name); }

  std::string top_;
};

TEST(Path, IsAFolderAndALastName) {
  EXPECT_EQ(folder_of("a/b/c"), "a/b");
  EXPECT_EQ(folder_of("a/b/c//"), "a/b");
  EXPECT_EQ(folder_of("/a"), "/");
  EXPECT_EQ(folder_of("/"), "/");
  EXPECT_EQ(folder_of("a"), ".");
  EXPECT_EQ(last_name_of("a/b"), "b");
  EXPECT_EQ(last_name_of("a/b/"), "b");
  EXPECT_EQ(last_name_of("a"), "a");
}

TEST_F(Folders, AreMadeWithThoseAboveThem) {
  EXPECT_EQ(make_folders(in_top("a/b/c")), 3);
  EXPECT_TRUE(is_folder(in_top("a/b/c")));
  EXPECT_EQ(make_folders(in_top("a/b/c")), 0);
  EXPECT_EQ(make_folders(in_top("a/b/d/")), 1);
  EXPECT_THAT(names_in(in_top("a/b")), Optional(ElementsAre("c", "d")));
}

TEST_F(Folders, CannotBeMadeInAFile) {
  write("file");
  for (const char* const name : {"file", "file/a"}) {
    EXPECT_EQ(make_folders(in_top(name)), -1) << name;
    EXPECT_EQ(errno, EEXIST) << name;
  }
}

TEST_F(Folders, TellWhatIsInThem) {
  EXPECT_THAT(names_in(top_), Optional(ElementsAre()));
  write("b");
  write(".a");
  EXPECT_THAT(names_in(top_), Optional(ElementsAre(".a", "b")));
  EXPECT_FALSE(names_in(in_top("none")).has_value());
  EXPECT_EQ(errno, ENOENT);
  EXPECT_TRUE(exists(in_top("b")));
  EXPECT_FALSE(is_folder(in_top("b")));
  EXPECT_FALSE(exists(in_top("none")));
}

TEST_F(Folders, GoWithAllThatIsInThemButWhatLinksLeadTo) {
  make_folders(in_top("kept"));
  write("kept/file");
  make_folders(in_top("gone/below"));
  write("gone/below/file");
  ASSERT_EQ(::symlink(in_top("kept").c_str(), in_top("gone/link").c_str()), 0);
  EXPECT_TRUE(remove_all(in_top("gone")));
  EXPECT_FALSE(exists(in_top("gone")));
  EXPECT_TRUE(exists(in_top("kept/file")));
  EXPECT_TRUE(remove_all(in_top("gone"))) << "it was not there";
}

}  // namespace
}  // namespace tutti
