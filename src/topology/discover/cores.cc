#include "topology/discover/cores.h"

#include <cerrno>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/folders.h"
#include "base/system_error.h"

namespace tutti::topology {
namespace {

// Equal for the hardware threads of one core; where the system does not say, each counts as a core.
std::string core_of(int processor) {
  std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(processor) + "/topology/thread_siblings_list");
  std::string siblings;
  if (std::getline(file, siblings) && !siblings.empty()) return siblings;
  return std::to_string(processor);
}

}  // namespace

std::vector<cpu_set_t> allowed_cores() {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) throw_errno("cannot see which processors are allowed");
  std::vector<cpu_set_t> cores;
  std::map<std::string, std::size_t> index_of;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &allowed)) continue;
    const auto [found, is_new] = index_of.emplace(core_of(processor), cores.size());
    if (is_new) {
      cores.emplace_back();
      CPU_ZERO(&cores.back());
    }
    CPU_SET(processor, &cores[found->second]);
  }
  return cores;
}

std::vector<int> first_processors() {
  std::vector<int> processors;
  for (const cpu_set_t& core : allowed_cores()) {
    int processor = 0;
    while (!CPU_ISSET(processor, &core)) ++processor;
    processors.push_back(processor);
  }
  return processors;
}

void pin_process(int processor) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  for (const std::string& task : names_in("/proc/self/task").value_or(std::vector<std::string>())) {
    const pid_t thread = std::stoi(task);
    // One that has ended meanwhile needs no place.
    if (::sched_setaffinity(thread, sizeof one, &one) != 0 && errno != ESRCH)
      throw_errno("cannot run on processor " + std::to_string(processor) + " alone");
  }
}

}  // namespace tutti::topology
