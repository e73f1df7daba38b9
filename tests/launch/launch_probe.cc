// Started by a launcher under test: says on one line what it recognised, or exchanges words through PMIx, and on
// another which process it was.
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>

#include "rendezvous/launch/arrange.h"
#include "rendezvous/launch/pmix_store.h"
#include "tutti/error.h"

namespace {

using namespace tutti;
using namespace tutti::rendezvous;

// Rank 0 says `hello` and, once that may have been read, `again`: no server may answer from what it fetched before.
std::string through_pmix(const Launch& launch, const Deadline& deadline) {
  const auto store = make_pmix_store(deadline);
  if (launch.rank == 0) {
    store->set("tutti.first", "hello", deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    store->set("tutti.second", "again", deadline);
  }
  std::string words = store->get("tutti.first", deadline) + " " + store->get("tutti.second", deadline);
  try {
    store->get("tutti.never", Deadline::after(std::chrono::milliseconds(300)));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::timeout) words += " timeout";
  }
  return words;
}

// Where the ranks meet, and something that is equal where their tokens are.
std::string place_of(const Rendezvous& meeting) {
  const Endpoint lobby = meeting.publish ? meeting.lobby.substr(0, meeting.lobby.rfind(':')) + ":4567" : meeting.lobby;
  if (meeting.publish) {
    meeting.publish(lobby);
    std::this_thread::sleep_for(std::chrono::seconds(1));  // stays, as a rank that keeps the lobby does
  }
  if (!meeting.token) return lobby;
  return lobby + " " + std::to_string(std::hash<std::string>()(meeting.token->hex()));
}

}  // namespace

// libpmix leaves a few bytes behind when it ends; read by LeakSanitizer, where the build has it.
extern "C" const char* __lsan_default_suppressions() { return "leak:libpmix\n"; }

int main(int, char** argv) {
  std::ostringstream line;
  int status = 0;
  try {
    const Environment environment = Environment::of_process();
    const Launch launch = recognise(environment);
    const Deadline deadline = Deadline::after(std::chrono::seconds(20));
    line << "probe " << launch.rank << "/" << launch.size << " " << launch.local_rank << "/" << launch.local_size
         << " ";
    if (std::string(argv[1]) == "pmix") {
      line << through_pmix(launch, deadline);
    } else {
      line << place_of(arrange(launch, environment, 0, deadline, Log()));
    }
  } catch (const std::exception& error) {
    line << error.what();
    status = 1;
  }
  std::cout << line.str() + "\npid " + std::to_string(::getpid()) + "\n" << std::flush;
  return status;
}
