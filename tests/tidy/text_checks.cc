// The checks that look at the text of a file.
#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "tidy/checks.h"

namespace tutti::tidy {
namespace {

std::string at(const Source& source, std::size_t line) { return source.path + ":" + std::to_string(line) + ": "; }

std::size_t columns_of(std::string_view line) {
  const auto continues = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; };
  return line.size() - static_cast<std::size_t>(std::count_if(line.begin(), line.end(), continues));
}

// What a `{` opens; in a function all that follows belongs to it.
enum class Scope { outside, function, inner };

// `opening` is the text since the statement before it ended.
Scope scope_of(const std::string& opening, bool in_function) {
  static const std::regex kType(R"(^\s*(template\s*<.*>\s*)?(namespace|class|struct|union|enum|extern)\b[^()]*$)");
  if (in_function) return Scope::inner;
  const bool has_parameters = opening.find(')') != std::string::npos;
  return has_parameters && !std::regex_search(opening, kType) ? Scope::function : Scope::outside;
}

std::set<std::string> heading_words(const Source& source) {
  std::set<std::string> kinds;
  for (const std::string& line : source.lines()) {
    if (!line.starts_with("//")) break;
    if (line.find("Cost:") != std::string::npos) kinds.insert("cost");
    if (line.starts_with("//   ")) kinds.insert("picture");
  }
  return kinds;
}

// Whether the file belongs to a header of the same name.
bool has_header(const Source& source) {
  const std::vector<Include> includes = includes_of(source);
  return std::any_of(includes.begin(), includes.end(), [&](const Include& include) {
    return include.quoted && include.target.ends_with("/" + source.stem() + ".h");
  });
}

}  // namespace

Complaints check_library_does_not_print(const Source& source) {
  static const std::regex kPrints(
      R"((std::(cout|cerr|clog)|fmt::print|\b(printf|fprintf|puts|fputs|perror|vprintf)\s*\())");
  if (!source.is_code() || !(source.is_under("src/") || source.is_under("include/"))) return {};
  const std::string code = code_of(source.text);
  Complaints complaints;
  for (std::sregex_iterator match(code.begin(), code.end(), kPrints), end; match != end; ++match) {
    const auto line = 1 + std::count(code.begin(), code.begin() + match->position(), '\n');
    complaints.push_back(at(source, static_cast<std::size_t>(line)) + "the library never prints: " + match->str());
  }
  return complaints;
}

Complaints check_words(const Source& source) {
  static const std::set<std::string> kBanned{"util",   "utils",   "utilities", "common", "misc",
                                             "helper", "helpers", "manager",   "impl2"};
  static const std::regex kUnfinished(R"(\b(TODO|FIXME|XXX|HACK|TBD)\b)");
  static const std::regex kMachine(R"((^|[\s"'(=])/(root|home|work)/)");
  // Names that others gave.
  static const std::regex kTheirs(R"(std::common_\w+|CMakePackageConfigHelpers|ParamCommsUtils|_coalescing_manager)"
                                  R"(|(torch|torch/csrc|torch\.nn|c10)[./]utils?)"
                                  R"(|torch\.testing\._internal\.common_\w+)");
  if (source.is_under("tests/tidy/")) return {};  // has to name what it bans
  Complaints complaints;
  for (const std::string& word : words_of(source.path)) {
    if (kBanned.contains(word)) complaints.push_back(source.path + ": a name that says nothing: " + word);
  }
  std::size_t number = 0;
  for (const std::string& line : source.lines()) {
    ++number;
    for (const std::string& word : words_of(std::regex_replace(line, kTheirs, ""))) {
      if (kBanned.contains(word)) complaints.push_back(at(source, number) + "a word that says nothing: " + word);
    }
    if (std::regex_search(line, kUnfinished)) complaints.push_back(at(source, number) + "unfinished: " + line);
    if (std::regex_search(line, kMachine)) complaints.push_back(at(source, number) + "a path of one machine: " + line);
  }
  return complaints;
}

Complaints check_size(const Source& source) {
  const std::size_t lines = source.lines().size();
  if (!source.is_code() || lines <= kMostLines) return {};
  return {source.path + ": " + std::to_string(lines) + " lines; more than one idea?"};
}

Complaints check_function_sizes(const Source& source) {
  if (!source.is_code()) return {};
  Complaints complaints;
  std::vector<Scope> scopes;
  std::string opening;
  std::size_t line = 1;
  std::size_t began = 0;
  for (const char c : code_of(source.text)) {
    if (c == '\n') ++line;
    if (c == '{') {
      const bool in_function = std::find(scopes.begin(), scopes.end(), Scope::function) != scopes.end();
      scopes.push_back(scope_of(opening, in_function));
      if (scopes.back() == Scope::function) began = line;
    } else if (c == '}' && !scopes.empty()) {
      if (scopes.back() == Scope::function && line - began > kMostFunctionLines) {
        complaints.push_back(at(source, began) + "a function of " + std::to_string(line - began) + " lines");
      }
      scopes.pop_back();
    }
    if (c == '{' || c == '}' || c == ';') {
      opening.clear();
    } else {
      opening += c;
    }
  }
  return complaints;
}

Complaints check_columns(const Source& source) {
  if (!source.is_code()) return {};
  Complaints complaints;
  std::size_t number = 0;
  for (const std::string& line : source.lines()) {
    ++number;
    if (columns_of(line) > kMostColumns) {
      complaints.push_back(at(source, number) + std::to_string(columns_of(line)) + " columns; make format may do");
    }
  }
  return complaints;
}

Complaints check_opening(const Source& source) {
  if (!source.is_code()) return {};
  Complaints complaints;
  const bool in_c = source.text.starts_with("/*");  // a header for C has guards, which every compiler knows
  const bool comments = source.text.starts_with("//") || in_c;
  if (source.is_header()) {
    if (!comments) complaints.push_back(source.path + ": opens without saying what it is");
    // Files that are compiled once per instruction set are included several times on purpose.
    const bool once = source.text.find(in_c ? "#ifndef" : "#pragma once") != std::string::npos;
    if (!once && !source.path.ends_with("_inl.h")) complaints.push_back(source.path + ": lacks #pragma once");
  } else if (!comments && (source.is_under("src/") || source.is_under("tools/"))) {
    if (!has_header(source))
      complaints.push_back(source.path + ": has no header of its name and opens without saying what it is");
  }
  return complaints;
}

Complaints check_algorithm_file(const Source& source) {
  if (!source.is_under("src/schedule/algorithms/") || source.is_header() || !source.is_code()) return {};
  if (has_header(source)) return {};  // what algorithms share
  Complaints complaints;
  const std::set<std::string> kinds = heading_words(source);
  if (!kinds.contains("picture")) complaints.push_back(source.path + ": no picture in its heading");
  if (!kinds.contains("cost")) complaints.push_back(source.path + ": no \"Cost:\" in its heading");
  if (source.lines().size() >= kMostAlgorithmLines) complaints.push_back(source.path + ": not under 100 lines");
  return complaints;
}

Complaints check_golden_files(const std::vector<Source>& sources) {
  static const std::regex kRow(R"re((?:^|\n)ALGORITHM\((\w+),\s*(\w+))re");
  const auto table = std::find_if(sources.begin(), sources.end(), [](const Source& source) {
    return source.path == "src/schedule/algorithms/algorithms.def";
  });
  if (table == sources.end() || !std::regex_search(table->text, kRow)) return {"no table of algorithms"};
  Complaints complaints;
  for (std::sregex_iterator row(table->text.begin(), table->text.end(), kRow), end; row != end; ++row) {
    const std::string prefix = "tests/golden/" + (*row)[1].str() + "." + (*row)[2].str() + ".";
    const auto is_golden = [&](const Source& file) { return file.is_under(prefix) && file.path.ends_with(".txt"); };
    if (std::none_of(sources.begin(), sources.end(), is_golden))
      complaints.push_back("no golden file " + prefix + "4.txt");
  }
  return complaints;
}

Complaints check_pages_are_linked(const std::vector<Source>& sources) {
  const std::string folder = "docs/", index_path = folder + "index.md";
  const auto index =
      std::find_if(sources.begin(), sources.end(), [&](const Source& source) { return source.path == index_path; });
  if (index == sources.end()) return {"no " + index_path};
  Complaints complaints;
  for (const Source& source : sources) {
    const bool is_page = source.path == folder + source.stem() + ".md" && source.path != index_path;
    if (is_page && index->text.find("](" + source.file_name() + ")") == std::string::npos)
      complaints.push_back(index_path + ": nothing leads to " + source.path);
  }
  return complaints;
}

Complaints check_type_names(const std::vector<Source>& sources) {
  static const std::regex kType(
      R"re((?:^|\n)(?:struct|class|enum class)\s+(?:alignas\(\w+\)\s+)?(\w+)\b(?!::)[^;{()]*\{)re");
  std::map<std::string, std::string> first;
  Complaints complaints;
  for (const Source& source : sources) {
    if (!source.is_under("src/") || !source.is_code()) continue;
    const std::string code = code_of(source.text);
    for (std::sregex_iterator type(code.begin(), code.end(), kType), end; type != end; ++type) {
      const auto [known, is_new] = first.emplace((*type)[1].str(), source.path);
      if (!is_new && known->second != source.path)
        complaints.push_back(source.path + ": a type named " + known->first + ", as in " + known->second);
    }
  }
  return complaints;
}

}  // namespace tutti::tidy
