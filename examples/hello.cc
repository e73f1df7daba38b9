// The smallest job: every rank contributes its number, and every rank prints the sum.
//
//   tutti run -n 4 -- hello        or under torchrun, mpirun, srun: the program does not care who starts it
#include <tutti/init.h>

#include <cstdio>
#include <exception>
#include <span>
#include <vector>

int main() {
  try {
    tutti::Communicator comm = tutti::init();
    std::vector<float> data(4, static_cast<float>(comm.rank()));
    comm.all_reduce(std::span(data));
    std::printf("rank %d of %d: the sum of all ranks is %g\n", comm.rank(), comm.size(), data[0]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
