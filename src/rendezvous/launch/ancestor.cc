#include "rendezvous/launch/ancestor.h"

#include <unistd.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

namespace tutti::rendezvous {
namespace {

struct Process {
  std::string program;
  long parent = 0;
  std::string start;
};

// One line: pid (program) state parent ... ; the 22nd field is the start. A program's name may hold ) and spaces.
std::optional<Process> process(long pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string line{std::istreambuf_iterator<char>(file), {}};
  const std::size_t open = line.find('(');
  const std::size_t close = line.rfind(')');
  if (open == std::string::npos || close == std::string::npos) return std::nullopt;
  Process result;
  result.program = line.substr(open + 1, close - open - 1);
  std::istringstream rest(line.substr(close + 1));
  std::string field;
  rest >> field >> result.parent;
  for (int number = 5; number <= 22; ++number) rest >> field;
  if (!rest) return std::nullopt;
  result.start = field;
  return result;
}

}  // namespace

std::string ancestor(std::string_view program) {
  const long parent = ::getppid();
  std::string result;
  for (long pid = parent; pid > 1;) {
    const auto found = process(pid);
    if (!found) break;
    const std::string name = std::to_string(pid) + "@" + found->start;
    if (found->program == program) return name;
    if (pid == parent) result = name;
    pid = found->parent;
  }
  return result;
}

}  // namespace tutti::rendezvous
