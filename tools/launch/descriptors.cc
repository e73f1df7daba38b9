#include "tools/launch/descriptors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/system_error.h"

namespace tutti::tools {

void open_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    ::open("/dev/null", stream == STDIN_FILENO ? O_RDONLY : O_WRONLY);  // takes the lowest number, which is this one
  }
}

unsigned long provide_descriptors(std::size_t ranks) {
  const unsigned long needed = 160 + 4 * ranks;  // per rank: two pipes, a pidfd, its connection to the lobby
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) throw_errno("cannot see the limit on descriptors");
  const unsigned long before = limit.rlim_cur;
  if (before >= needed) return before;
  const unsigned long most = limit.rlim_max;
  limit.rlim_cur = needed;
  if (most < needed || ::setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{} ranks need {} descriptors in the launcher, but only {} are allowed; raise the limit with "
                    "`ulimit -n {}` (an administrator may have to), or start fewer ranks",
                    ranks, needed, most, needed));
  }
  return before;
}

}  // namespace tutti::tools
