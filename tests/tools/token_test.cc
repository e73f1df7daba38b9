// `tutti token`: a secret in a private file, and never anywhere else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tools/launched.h"

namespace tutti::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class Token : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path(name); }
  static std::string text_of(const std::string& file) {
    std::ifstream stream(file);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  Folder folder_;
};

TEST_F(Token, WritesAPrivateFileAndSaysWhatToDoNext) {
  const mode_t before = ::umask(0);
  const LaunchedEnd end = launch({"token", path("job")});
  ::umask(before);
  EXPECT_EQ(end.exit_code, 0) << end.errors;
  EXPECT_THAT(text_of(path("job")), ContainsRegex("^[0-9a-f]{64}\n$"));
  struct stat about {};
  ASSERT_EQ(::stat(path("job").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600U);
  EXPECT_THAT(end.output, HasSubstr("export TUTTI_TOKEN_FILE=" + path("job") + "\n"));
  EXPECT_THAT(end.output, HasSubstr("scp -p "));
  EXPECT_THAT(end.output + end.errors, Not(HasSubstr(text_of(path("job")).substr(0, 16)))) << "never shown";
}

TEST_F(Token, EachIsNew) {
  launch({"token", path("one")});
  launch({"token", path("two")});
  EXPECT_NE(text_of(path("one")), text_of(path("two")));
}

TEST_F(Token, ReplacesAFileOnlyWhereItIsForced) {
  launch({"token", path("job")});
  const std::string first = text_of(path("job"));
  const LaunchedEnd refused = launch({"token", path("job")});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.errors, HasSubstr("is there already, and jobs may be using it; name another file, or --force"));
  EXPECT_EQ(text_of(path("job")), first);
  EXPECT_EQ(launch({"token", "--force", path("job")}).exit_code, 0);
  EXPECT_NE(text_of(path("job")), first);
  EXPECT_EQ(std::distance(fs::directory_iterator(path("")), {}), 1) << "nothing else is left in the folder";
}

TEST_F(Token, SaysWhyAFileCannotBeWritten) {
  const LaunchedEnd end = launch({"token", "/no/such/folder/job"});
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_THAT(end.errors, HasSubstr("'/no/such/folder/job': No such file or directory"));
  EXPECT_NE(launch({"token", path(""), "--force"}).exit_code, 0) << "a folder is no token file";
}

TEST_F(Token, IsWhatRunTakes) {
  launch({"token", path("job")});
  const LaunchedEnd end = launch({"run", "--nnodes", "2", "--node-rank", "1", "-n", "1", "--rendezvous",
                                  "127.0.0.1:29736", "--token-file", path("job"), "printenv", "TUTTI_TOKEN_FILE"});
  EXPECT_EQ(end.exit_code, 0) << end.errors;
  EXPECT_EQ(end.output, "[1] " + path("job") + "\n");
}

}  // namespace
}  // namespace tutti::testing
