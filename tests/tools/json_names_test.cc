// What commands print as JSON is valid, whatever the names of files and of what lies in them are made of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "shell.h"

namespace {

using tutti::testing::Ended;

const std::string kName = "na\xffme";  // no UTF-8

class JsonOfNamesThatAreNoText : public ::testing::Test {
 protected:
  JsonOfNamesThatAreNoText() {
    if (::mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("mkdtemp");
    const std::string text = told("topo dgx-h100:2 --text");
    cluster_ = write(kName + ".topo", "topology " + kName + text.substr(text.find('\n')));
    programs_ = write(kName + ".json", told("show all_reduce -a ring -n 4 --json"));
  }
  ~JsonOfNamesThatAreNoText() override { std::filesystem::remove_all(folder_); }

  static std::string told(const std::string& arguments) {
    const Ended ended = tutti::testing::shell(TUTTI_TOOL " " + arguments, "2>/dev/null");
    EXPECT_EQ(ended.exit_code, 0) << arguments;
    return ended.output;
  }
  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return "'" + path + "'";
  }
  static void expect_valid(const std::string& arguments) {
    EXPECT_TRUE(nlohmann::json::accept(told(arguments + " --json"))) << arguments;
  }

  std::string folder_ = (std::filesystem::temp_directory_path() / "tutti-names-XXXXXX").string();
  std::string cluster_, programs_;
};

TEST_F(JsonOfNamesThatAreNoText, OfClusters) {
  expect_valid("topo " + cluster_);
  expect_valid("cost all_reduce --topology " + cluster_);
  expect_valid("sim all_reduce -a ring --topology " + cluster_);
  expect_valid("view all_reduce -a ring --topology " + cluster_);
  expect_valid("topo place --mesh dp2.tp8 --topology " + cluster_);
}

TEST_F(JsonOfNamesThatAreNoText, OfPlans) {
  const std::string job = "--model gpt2 --accelerator h100 --global-batch 64 --cluster " + cluster_;
  expect_valid("plan " + job);
  expect_valid("plan compare zero1 zero3 " + job);
}

TEST_F(JsonOfNamesThatAreNoText, OfFiles) {
  expect_valid("verify --file " + programs_);
  expect_valid("view --file " + programs_);
}

}  // namespace
