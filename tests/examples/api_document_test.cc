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

// What stands in `text` between `from` and the next `to`.
std::string between(const std::string& text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  return at == std::string::npos ? "" : text.substr(at, text.find(to, at) - at);
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
  const std::string text = between(without_comments(contents_of(header)), "class " + type + " {", " private:");
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
  expect_named(methods_of("include/tutti/batch.h", "Batch"), "batch.h");
  expect_named(methods_of("include/tutti/fusion.h", "Fusion"), "fusion.h");
  expect_named(methods_of("include/tutti/work.h", "Work"), "work.h");
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
