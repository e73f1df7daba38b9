#include "topology/discover/core_place.h"

#include <fstream>
#include <optional>

namespace tutti::topology {
namespace {

std::optional<int> number_in(const std::string& path) {
  int number = 0;
  if (std::ifstream(path) >> number && number >= 0) return number;
  return std::nullopt;
}

// The first core of those that share it: "0-15,32-47" begins with it.
std::optional<int> last_cache_of(const std::string& core) {
  std::optional<int> first;
  int last_level = 0;
  for (int index = 0;; ++index) {
    const std::string cache = core + "/cache/index" + std::to_string(index);
    const std::optional<int> level = number_in(cache + "/level");
    if (!level) return first;
    if (*level <= last_level) continue;
    last_level = *level;
    first = number_in(cache + "/shared_cpu_list");
  }
}

// One number for all, until a core has another or none.
class OfAll {
 public:
  void add(std::optional<int> number) {
    if (!number || (number_ && *number_ != *number)) known_ = false;
    number_ = number;
  }
  bool known() const { return known_; }
  int value() const { return known_ ? number_.value_or(-1) : -1; }

 private:
  std::optional<int> number_;
  bool known_ = true;
};

}  // namespace

CorePlace place_of_cores(const std::vector<std::uint64_t>& cores, const std::string& folder) {
  OfAll package, cache;
  for (std::size_t core = 0; core < cores.size() * 64 && (package.known() || cache.known()); ++core) {
    if ((cores[core / 64] >> (core % 64) & 1) == 0) continue;
    const std::string path = folder + "/cpu" + std::to_string(core);
    if (package.known()) package.add(number_in(path + "/topology/physical_package_id"));
    if (cache.known()) cache.add(last_cache_of(path));
  }
  return {package.value(), cache.value()};
}

}  // namespace tutti::topology
