// The house rules, held against the whole repository.
#include <gtest/gtest.h>

#include <iostream>

#include "tidy/checks.h"

namespace tutti::tidy {
namespace {

const std::vector<Source>& tree() {
  static const std::vector<Source> kTree = read_tree(TUTTI_SOURCE_DIRECTORY);
  return kTree;
}

void expect_none(const Complaints& complaints) {
  for (const std::string& complaint : complaints) ADD_FAILURE() << complaint;
}

void expect_none_in_tree(Complaints (*check)(const Source&)) {
  for (const Source& source : tree()) expect_none(check(source));
}

TEST(House, TheTreeWasFound) { EXPECT_GT(tree().size(), 50U); }
TEST(House, IncludesPointDownwards) { expect_none_in_tree(check_include_direction); }
TEST(House, TheScheduleIsPure) { expect_none_in_tree(check_schedule_is_pure); }
TEST(House, TheLibraryDoesWithoutFilesystem) { expect_none_in_tree(check_no_filesystem); }
TEST(House, NoFileIsDead) { expect_none(check_dead_files(tree())); }
TEST(House, TheLibraryNeverPrints) { expect_none_in_tree(check_library_does_not_print); }
TEST(House, WordsSaySomething) { expect_none_in_tree(check_words); }
TEST(House, FunctionsAreShort) { expect_none_in_tree(check_function_sizes); }
TEST(House, LinesFitTheColumns) { expect_none_in_tree(check_columns); }
TEST(House, FilesOpenWithWhatTheyAre) { expect_none_in_tree(check_opening); }
TEST(House, AlgorithmsAreTold) { expect_none_in_tree(check_algorithm_file); }
TEST(House, TypesHaveNamesOfTheirOwn) { expect_none(check_type_names(tree())); }
TEST(House, AlgorithmsHaveGoldenFiles) { expect_none(check_golden_files(tree())); }

TEST(House, PagesAreFoundFromTheIndex) { expect_none(check_pages_are_linked(tree())); }

TEST(House, FilesAreShort) {
  expect_none_in_tree(check_size);
  for (const Source& source : tree()) {
    const std::size_t lines = source.lines().size();
    if (source.is_code() && lines > kManyLines) std::cout << "long: " << source.path << ", " << lines << " lines\n";
  }
}

}  // namespace
}  // namespace tutti::tidy
