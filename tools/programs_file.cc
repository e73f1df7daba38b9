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
      refuse(fmt::format("{} has more than {} MB, which is more than is read", name, kMostFileBytes >> 20));
    }
    stream.read(piece.data(), static_cast<std::streamsize>(piece.size()));
  }
  return text;
}

}  // namespace

std::string text_of_file(const std::string& file) {
  if (file == "-") return contents_of(std::cin, "standard input");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) refuse(fmt::format("cannot read '{}'; is the path right?", file));
  return contents_of(stream, "'" + file + "'");
}

std::vector<schedule::Lowered> programs_of_file(const std::string& path) {
  return schedule::from_json(text_of_file(path));
}

}  // namespace tutti::tools
