// What a test records: some calls of each rank. "kill": rank 1 is killed behind the first. "leave": ends by exit(),
// with the communicator open.
#include <signal.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tutti/error.h"
#include "tutti/init.h"
#include "tutti/trace.h"

int main(int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "";
  try {
    tutti::Communicator comm = tutti::init();
    const tutti::Span whole("whole");
    std::vector<float> values(100'000, 1.0f);
    comm.all_reduce(values);
    if (word == "kill" && comm.rank() == 1) ::raise(SIGKILL);
    for (int i = 0; i < 3; ++i) {
      const tutti::Span turn("turn");
      comm.all_reduce(values);
    }
    if (word == "twice") {
      tutti::Communicator again = tutti::init();
      again.barrier();
    }
    if (word == "leave") std::exit(0);
  } catch (const tutti::Error&) {
    return 3;
  }
}
