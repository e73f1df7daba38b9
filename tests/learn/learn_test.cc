// Chapters of docs/learn say what happens: their commands are run here, print what the chapter shows and draw its
// pictures. Numbers that the text names are among what was printed.
//
//   ```console                   the output is exactly this
//   ```console, numbers vary     the output is this but for its numbers, and for how wide they are
//
// After a change: TUTTI_UPDATE_GOLDEN=1 build/bin/learn_test, then read the diff.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "shell.h"

namespace tutti::testing {
namespace {

using std::filesystem::path;

const path kRoot = TUTTI_SOURCE_DIRECTORY, kChapters = kRoot / "docs/learn";
constexpr std::string_view kExact = "```console", kVarying = "```console, numbers vary", kEnd = "```";

std::string text_of(const path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// A number, its unit where that follows, and the blanks before it are one "#": times have several units.
std::string without_numbers(const std::string& text) {
  static const std::regex kNumber(R"([ \t]*[-+]?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?( (ns|us|ms|s|B|KB|MB|GB|%)\b)?)");
  return std::regex_replace(text, kNumber, "#");
}

// A folder of its own for what commands write, and the programs of this build before all others.
class Workplace {
 public:
  Workplace() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tutti-learn-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no folder for what chapters write");
    folder_ = pattern;
  }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;
  ~Workplace() { std::filesystem::remove_all(folder_); }

  path file(const std::string& name) const { return folder_ / name; }

  Ended run(const std::string& command) const {
    ::setenv("TUTTI_LEARN_COMMAND", command.c_str(), 1);  // no quoting to get wrong
    return shell("cd '" + folder_.string() +
                 "' && PATH='" TUTTI_PROGRAMS
                 "':\"$PATH\" TUTTI_COSTS=built-in "
                 "bash -o pipefail -c \"$TUTTI_LEARN_COMMAND\"");
  }

 private:
  path folder_;
};

// A chapter cut into lines, with what each of its commands printed just now.
class Chapter {
 public:
  explicit Chapter(const path& file) : file_(file), lines_(lines_of(text_of(file))) {}

  // Runs all commands; what differs from the text is a failure, or goes into it.
  void play(bool updates) {
    const Workplace workplace;
    std::vector<std::string> played;
    bool within = false, varies = false;
    for (std::size_t i = 0; i < lines_.size();) {
      const std::string& line = lines_[i];
      played.push_back(line);
      ++i;
      if (!within) {
        within = line == kExact || line == kVarying;
        varies = line == kVarying;
        if (!within) note_prose(line);
        continue;
      }
      if (line == kEnd) {
        within = false;
        continue;
      }
      ASSERT_TRUE(line.starts_with("$ ")) << file_ << ": what does '" << line << "' answer? A command begins with $";
      std::string shown;
      for (; i < lines_.size() && lines_[i] != kEnd && !lines_[i].starts_with("$ "); ++i) shown += lines_[i] + "\n";
      const Ended ended = workplace.run(line.substr(2));
      ++commands_;
      EXPECT_EQ(ended.exit_code, 0) << file_ << ": " << line << "\n" << ended.output;
      if (line.find(" > ") == std::string::npos) {
        EXPECT_NE(ended.output, "") << file_ << ": " << line;
      }
      note_numbers(line);
      const bool same = varies ? without_numbers(shown) == without_numbers(ended.output) : shown == ended.output;
      if (!updates) {
        EXPECT_TRUE(same) << file_ << ": " << line << "\nprints\n" << ended.output << "\nand the text has\n" << shown;
      }
      // What varies stays as it was, so that nobody has to read a diff of timings.
      const std::string& kept = same || !updates ? shown : ended.output;
      note_numbers(kept);
      for (const std::string& printed : lines_of(kept)) played.push_back(printed);
    }
    compare_pictures(workplace, updates);
    EXPECT_FALSE(within) << file_ << ": a block has no end";
    EXPECT_GT(commands_, 0) << file_;
    if (!updates) return;
    std::ofstream out(file_);
    for (const std::string& line : played) out << line << "\n";
  }

  // Numbers of the text that nobody printed; small ones count ranks, chapters and things.
  std::vector<std::string> unproven() const {
    std::vector<std::string> numbers;
    for (const std::string& number : told_)
      if (!printed_.contains(number)) numbers.push_back(number);
    return numbers;
  }

 private:
  // A picture of the chapter is what one of its commands has drawn.
  void compare_pictures(const Workplace& workplace, bool updates) const {
    static const std::regex kPicture(R"(!\[[^\]]*\]\(pictures/([^)]+)\))");
    const std::string text = text_of(file_);
    for (std::sregex_iterator at(text.begin(), text.end(), kPicture), end; at != end; ++at) {
      const path drawn = workplace.file(at->str(1)), kept = kChapters / "pictures" / at->str(1);
      ASSERT_TRUE(std::filesystem::exists(drawn)) << file_ << ": no command draws " << at->str(1);
      if (updates) std::filesystem::copy_file(drawn, kept, std::filesystem::copy_options::overwrite_existing);
      EXPECT_EQ(text_of(drawn), text_of(kept)) << "docs/learn/pictures/" << at->str(1) << " is another picture";
    }
  }

  template <class Take>
  static void each_number(const std::string& text, const Take& take) {
    static const std::regex kNumber(R"([0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?)");
    for (std::sregex_iterator at(text.begin(), text.end(), kNumber), end; at != end; ++at) take(at->str());
  }

  void note_numbers(const std::string& text) {
    each_number(text, [&](const std::string& number) { printed_.insert(number); });
  }

  void note_prose(const std::string& line) {
    static const std::regex kCode("`[^`]*`|\\]\\([^)]*\\)");
    each_number(std::regex_replace(line, kCode, ""), [&](const std::string& number) {
      if (number.size() > 2) told_.insert(number);
    });
  }

  path file_;
  std::vector<std::string> lines_;
  int commands_ = 0;
  std::set<std::string> told_, printed_;
};

std::vector<std::string> chapters() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kChapters))
    if (entry.path().extension() == ".md" && entry.path().stem() != "index") names.push_back(entry.path().stem());
  std::ranges::sort(names);
  return names;
}

class Learn : public ::testing::TestWithParam<std::string> {};

TEST_P(Learn, ChapterSaysWhatHappens) {
  Chapter chapter(kChapters / (GetParam() + ".md"));
  chapter.play(std::getenv("TUTTI_UPDATE_GOLDEN") != nullptr);
  EXPECT_THAT(chapter.unproven(), ::testing::IsEmpty()) << "no command of the chapter has printed these";
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  return std::regex_replace(info.param, std::regex("[^a-zA-Z0-9]"), "_");
}

INSTANTIATE_TEST_SUITE_P(All, Learn, ::testing::ValuesIn(chapters()), test_name);

TEST(Learn, EveryChapterIsInTheIndexAndHasTwoExercises) {
  const std::string index = text_of(kChapters / "index.md"), solutions = text_of(kChapters / "solutions.md");
  int count = 0;
  for (const std::string& name : chapters()) {
    EXPECT_THAT(index, ::testing::HasSubstr("(" + name + ".md)"));
    if (name == "solutions") continue;
    ++count;
    const std::string text = text_of(kChapters / (name + ".md"));
    EXPECT_EQ(count_of(text, "\n**Exercise "), 2) << name;
    EXPECT_THAT(text, ::testing::HasSubstr("](pictures/")) << name << " has a picture that our own tools drew";
    const std::string number = std::to_string(std::stoi(name));
    for (const char* letter : {"a", "b"}) {
      EXPECT_THAT(text, ::testing::HasSubstr("**Exercise " + number + letter));
      EXPECT_THAT(solutions, ::testing::HasSubstr("## " + number + letter));
    }
  }
  EXPECT_EQ(count, 10);
}

}  // namespace
}  // namespace tutti::testing
