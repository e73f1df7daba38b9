// docs/api.md against the headers and the cheat sheet: it names everything there is to call, and its pictures are those
// that the cheat sheet draws. That its code compiles is seen to by the build (api_snippets).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::SizeIs;

std::string contents_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(TUTTI_SOURCE_DIRECTORY "/" + path).rdbuf();
  return text.str();
}

// The public part of a class, exported or not.
std::string public_part(const std::string& text, const std::string& type) {
  std::smatch opening;
  if (!std::regex_search(text, opening, std::regex("\\nclass (\\w+ )?" + type + " \\{"))) return {};
  const std::string rest = opening.suffix();
  return rest.substr(0, rest.find(" private:"));
}

std::string without_comments(const std::string& text) {
  static const std::regex kComment(R"(//[^\n]*|/\*[^*]*\*+([^/*][^*]*\*+)*/)");
  return std::regex_replace(text, kComment, "");
}

std::set<std::string> matches(const std::string& text, const std::regex& pattern) {
  std::set<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match)
    found.insert((*match)[1]);
  return found;
}

// Methods of a class: a name and a parenthesis, at the indentation of members.
std::set<std::string> methods_of(const std::string& header, const std::string& type) {
  const std::string text = public_part(without_comments(contents_of(header)), type);
  static const std::regex kMethod(R"(\n  [^ \n=][^\n(=]*?[ &*](\w+)\()");
  std::set<std::string> names = matches(text, kMethod);
  names.erase(type);
  names.erase("operator");
  return names;
}

std::set<std::string> c_functions() {
  return matches(without_comments(contents_of("include/tutti/tutti.h")),
                 std::regex(R"(\n[a-z][\w *]*[ *](tutti_\w+)\()"));
}

void expect_named(const std::set<std::string>& names, const std::string& where) {
  static const std::string kDocument = contents_of("docs/api.md");
  const std::set<std::string> words = matches(kDocument, std::regex(R"((\w+)(?:<\w+>)?\()"));
  for (const std::string& name : names) EXPECT_THAT(words, Contains(name)) << "docs/api.md lacks what is in " << where;
}

TEST(ApiDocument, NamesEveryMethod) {
  const std::set<std::string> verbs = methods_of("include/tutti/communicator.h", "Communicator");
  // That the search finds what there is: all kinds of declaration.
  for (const char* name : {"all_reduce", "all_to_all_v_async", "probe", "split", "rank", "last_algorithm", "submit_all",
                           "barrier", "allocate", "allocate_bytes", "close", "valid", "send_recv"}) {
    EXPECT_THAT(verbs, Contains(name));
  }
  expect_named(verbs, "communicator.h");
  for (const auto& [header, type] : {std::pair("batch.h", "Batch"), {"work.h", "Work"}}) {
    const std::set<std::string> methods = methods_of(std::string("include/tutti/") + header, type);
    EXPECT_THAT(methods, SizeIs(testing::Ge(4U))) << header;
    expect_named(methods, header);
  }
}

TEST(ApiDocument, NamesEveryCFunction) {
  const std::set<std::string> functions = c_functions();
  EXPECT_THAT(functions, Contains("tutti_error_message"));
  EXPECT_THAT(functions, Contains("tutti_type_size"));
  EXPECT_THAT(functions, Contains("tutti_options_default"));
  EXPECT_THAT(functions, Contains("tutti_all_reduce_coalesced"));
  expect_named(functions, "tutti.h");
}

TEST(ApiDocument, DrawsWhatTheCheatSheetDraws) {
  const std::string sheet = contents_of("tests/examples/cheatsheet.4.txt");
  const std::string document = contents_of("docs/api.md");
  const std::set<std::string> pictures = matches(document, std::regex("```text\n([^`]*)```"));
  EXPECT_THAT(pictures, SizeIs(testing::Ge(20U)));
  for (const std::string& picture : pictures) EXPECT_THAT(sheet, HasSubstr(picture));
}

}  // namespace
