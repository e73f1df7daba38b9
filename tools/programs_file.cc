#include "tools/programs_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <istream>

#include "schedule/json.h"
#include "tools/machine_memory.h"
#include "tools/verbs.h"

namespace tutti::tools {
namespace {

// What never ends should not take all memory.
constexpr std::size_t kMostStreamBytes = std::size_t{256} << 20;

// A file says how long it is: a trace of a large job has gigabytes, for which and for what is made of it there has to
// be room.
std::size_t most_of_file() { return std::max(kMostStreamBytes, machine_memory_bytes() / 3); }

std::string contents_of(std::istream& stream, const std::string& name, std::size_t most_bytes) {
  std::string text;
  for (std::vector<char> piece(1 << 20); stream; text.append(piece.data(), static_cast<std::size_t>(stream.gcount()))) {
    if (text.size() > most_bytes) {
      refuse(fmt::format("{} has more than {} MB, which is more than is read", name, most_bytes >> 20));
    }
    stream.read(piece.data(), static_cast<std::streamsize>(piece.size()));
  }
  if (stream.bad()) refuse(fmt::format("cannot read {}; is it a file?", name));
  return text;
}

}  // namespace

std::string text_of_file(const std::string& file) {
  if (file == "-") return contents_of(std::cin, "standard input", kMostStreamBytes);
  std::ifstream stream(file, std::ios::binary);
  if (!stream) refuse(fmt::format("cannot read '{}'; is the path right?", file));
  std::error_code none;
  const bool says_its_length = std::filesystem::is_regular_file(file, none);
  return contents_of(stream, "'" + file + "'", says_its_length ? most_of_file() : kMostStreamBytes);
}

std::vector<schedule::Lowered> programs_of_file(const std::string& path) {
  return schedule::from_json(text_of_file(path));
}

}  // namespace tutti::tools
