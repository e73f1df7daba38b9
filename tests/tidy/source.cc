#include "tidy/source.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <regex>
#include <sstream>

namespace tutti::tidy {
namespace {

namespace fs = std::filesystem;

bool is_skipped_folder(const std::string& name) {
  return name == ".git" || name == ".cache" || name == "__pycache__" || name.starts_with("build");
}

bool is_text(const fs::path& path) {
  static const std::vector<std::string> kEndings{".h",   ".hpp",   ".cc", ".c",    ".def", ".md",
                                                 ".txt", ".cmake", ".sh", ".json", ".py",  ".ts"};
  static const std::vector<std::string> kNames{"Makefile", "run", ".clang-format", ".clang-tidy", ".gitignore"};
  const std::string name = path.filename().string();
  return std::find(kEndings.begin(), kEndings.end(), path.extension().string()) != kEndings.end() ||
         std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

// Blanks comments, literals and preprocessor lines, one character at a time.
class Blanker {
 public:
  explicit Blanker(std::string_view text) : text_(text) {}

  std::string run() {
    while (at_ < text_.size()) {
      if (starts("//")) {
        blank_until("\n");
      } else if (starts("/*")) {
        blank_until("*/");
        blank(2);
      } else if (starts("R\"")) {
        const std::size_t open = text_.find('(', at_);
        const std::string close = ")" + std::string(text_.substr(at_ + 2, open - at_ - 2)) + "\"";
        blank_until(close);
        blank(close.size());
      } else if (text_[at_] == '"' || (text_[at_] == '\'' && !is_digit_separator())) {
        literal(text_[at_]);
      } else if (text_[at_] == '#' && only_blanks_before()) {
        directive();
      } else {
        out_ += text_[at_++];
      }
    }
    return std::move(out_);
  }

 private:
  bool starts(std::string_view prefix) const { return text_.substr(at_).starts_with(prefix); }
  bool is_digit_separator() const {
    return at_ > 0 && at_ + 1 < text_.size() && std::isalnum(static_cast<unsigned char>(text_[at_ - 1])) != 0 &&
           std::isalnum(static_cast<unsigned char>(text_[at_ + 1])) != 0;
  }
  bool only_blanks_before() const {
    const std::size_t line = out_.find_last_of('\n');
    return out_.find_first_not_of(" \t", line == std::string::npos ? 0 : line + 1) == std::string::npos;
  }
  void blank(std::size_t count) {
    for (; count > 0 && at_ < text_.size(); --count, ++at_) out_ += text_[at_] == '\n' ? '\n' : ' ';
  }
  void blank_until(std::string_view end) { blank(std::min(text_.find(end, at_), text_.size()) - at_); }
  void literal(char quote) {
    out_ += text_[at_++];
    while (at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n') blank(text_[at_] == '\\' ? 2 : 1);
    if (at_ < text_.size()) out_ += text_[at_++];
  }
  void directive() {
    while (at_ < text_.size() && text_[at_] != '\n') blank(text_[at_] == '\\' ? 2 : 1);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::vector<std::string> Source::lines() const {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<Source> read_tree(const fs::path& root) {
  std::vector<Source> sources;
  for (auto entry = fs::recursive_directory_iterator(root); entry != fs::recursive_directory_iterator(); ++entry) {
    if (entry->is_directory()) {
      if (is_skipped_folder(entry->path().filename().string())) entry.disable_recursion_pending();
      continue;
    }
    if (!entry->is_regular_file() || !is_text(entry->path())) continue;
    std::ostringstream text;
    text << std::ifstream(entry->path(), std::ios::binary).rdbuf();
    sources.push_back({fs::relative(entry->path(), root).generic_string(), text.str()});
  }
  std::sort(sources.begin(), sources.end(), [](const Source& a, const Source& b) { return a.path < b.path; });
  return sources;
}

std::vector<Include> includes_of(const Source& source) {
  static const std::regex kInclude(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"])");
  std::vector<Include> includes;
  std::size_t number = 0;
  for (const std::string& line : source.lines()) {
    ++number;
    std::smatch match;
    if (std::regex_search(line, match, kInclude)) includes.push_back({number, match[2], match[1] == "\""});
  }
  return includes;
}

std::string code_of(std::string_view text) { return Blanker(text).run(); }

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool after_lower = false;
  const auto finish = [&] {
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
  };
  for (const char character : text) {
    const auto c = static_cast<unsigned char>(character);
    if (std::isalnum(c) == 0) {
      finish();
    } else {
      if (std::isupper(c) != 0 && after_lower) finish();
      word += static_cast<char>(std::tolower(c));
    }
    after_lower = std::islower(c) != 0;
  }
  finish();
  return words;
}

}  // namespace tutti::tidy
