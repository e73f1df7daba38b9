#include "tools/programs_file.h"

#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <istream>

#include "schedule/json.h"
#include "tools/verbs.h"

namespace tutti::tools {
namespace {

// A file that never ends should not take all memory.
constexpr std::size_t kMostFileBytes = 256 << 20;

std::string contents_of(std::istream& stream, const std::string& name) {
  std::string text;
  for (std::vector<char> piece(1 << 20); stream; text.append(piece.data(), static_cast<std::size_t>(stream.gcount()))) {
    if (text.size() > kMostFileBytes) {
      refuse(fmt::format("{} has more than {} MB, which no file of programs has", name, kMostFileBytes >> 20));
    }
    stream.read(piece.data(), static_cast<std::streamsize>(piece.size()));
  }
  return text;
}

std::string contents_of(const std::string& file) {
  if (file == "-") return contents_of(std::cin, "standard input");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) refuse(fmt::format("cannot read '{}'; is the path right?", file));
  return contents_of(stream, "'" + file + "'");
}

}  // namespace

std::vector<schedule::Lowered> programs_of_file(const std::string& path) {
  return schedule::from_json(contents_of(path));
}

}  // namespace tutti::tools
