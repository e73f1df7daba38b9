// Seeing machines in a build that found no hwloc: says so.
#include "topology/discover/see_machine.h"
#include "tutti/error.h"

namespace tutti::topology {
namespace {

[[noreturn]] void refuse() {
  throw Error(
      ErrorCode::unsupported,
      "this build of Tutti cannot look at machines, because hwloc was not found; install libhwloc-dev and build "
      "Tutti again. Clusters with a name can be shown: tutti topo --list");
}

}  // namespace

MachinePart see_this_machine() { refuse(); }
MachinePart see_machine_in_file(const std::string&) { refuse(); }
MachinePart see_machine_of_words(const std::string&) { refuse(); }

}  // namespace tutti::topology
