// A rank of a job for the tests of `tutti run`: meets the others and sums ones. `meeting_probe R` dies of SIGKILL as
// rank R before it meets anybody; `meeting_probe children` looks at what its children inherit, and meets once more.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tutti/init.h"

int main(int argc, char** argv) {
  const char* rank = std::getenv("TUTTI_RANK");
  if (argc > 1 && rank != nullptr && argv[1] == std::string(rank)) std::raise(SIGKILL);
  try {
    tutti::Communicator comm = tutti::init();
    std::vector<float> ones(1000, 1.0F);
    comm.all_reduce(ones);
    std::printf("sum %d of %d\n", static_cast<int>(ones[999]), comm.size());
    if (argc > 1 && argv[1] == std::string("children")) {
      std::fflush(stdout);
      if (std::system("env | grep -c ^TUTTI_TOKEN=") < 0) return 1;
      std::printf("met %d again\n", tutti::init().size());
    }
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
