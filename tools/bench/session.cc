#include "tools/bench/session.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "base/system_error.h"

namespace tutti::bench {
namespace {

std::filesystem::path make_folder() {
  std::string name = std::filesystem::temp_directory_path() / "tutti-bench-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) throw_errno("cannot make a folder in " + name);
  return name;
}

}  // namespace

// What launchers leave behind when they are killed becomes a child of this process, so that it can be reaped.
Session::Session() : folder_(make_folder()) { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

Session::~Session() {
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

bool Session::wait(std::vector<pollfd>& descriptors, Clock::time_point deadline) {
  descriptors.push_back({signals_.descriptor(), POLLIN, 0});
  bool ready = false;
  while (!ready) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    const int got = ::poll(descriptors.data(), descriptors.size(), static_cast<int>(std::clamp(left, 0L, 60'000L)));
    if (got < 0 && errno != EINTR) throw_errno("cannot wait for ranks");
    if (got > 0 && descriptors.back().revents != 0) {
      for (const int signal : signals_.take()) {
        if (signal == SIGTSTP) ::raise(SIGSTOP);
        if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT) throw Interrupted(signal);
      }
    }
    ready = std::any_of(descriptors.begin(), descriptors.end() - 1, [](const pollfd& it) { return it.revents != 0; });
    if (!ready && left <= 0) break;
  }
  descriptors.pop_back();
  return ready;
}

}  // namespace tutti::bench
