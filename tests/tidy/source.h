// The files of the repository as text, and the few ways the checks look at them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::tidy {

struct Source {
  std::string path;  // from the root of the repository, with forward slashes
  std::string text;

  std::vector<std::string> lines() const;
  bool is_header() const { return path.ends_with(".h"); }
  bool is_code() const { return is_header() || path.ends_with(".cc") || path.ends_with(".c"); }
  bool is_under(std::string_view folder) const { return path.starts_with(folder); }
  std::string file_name() const { return path.substr(path.find_last_of('/') + 1); }
  std::string stem() const { return file_name().substr(0, file_name().find_last_of('.')); }
};

struct Include {
  std::size_t line = 0;  // counted from 1
  std::string target;
  bool quoted = false;
};

// Everything below `root` that people write: not what was built, not what git keeps for itself, not the licence.
std::vector<Source> read_tree(const std::filesystem::path& root);

std::vector<Include> includes_of(const Source& source);

// `text` with comments, the insides of literals and preprocessor lines blanked; lines keep their numbers.
std::string code_of(std::string_view text);

// Lower-case words of a text; names are taken apart at underscores and capitals.
std::vector<std::string> words_of(std::string_view text);

}  // namespace tutti::tidy
