// A user's program in C++: verbs, an operator of its own, errors that cross from the library, ranks as threads.
#include <cstdio>
#include <tutti/tutti.hpp>
#include <vector>

namespace {

struct Best {
  double value;
  int owner;
};

int with_threads() {
  const auto ends = tutti::run_threads(3, [](tutti::Communicator& comm) { comm.barrier(); });
  for (const tutti::RankEnd& end : ends) {
    if (!end.ok()) return 1;
  }
  return 0;
}

}  // namespace

int main() {
  try {
    tutti::Communicator comm = tutti::init();
    std::vector<double> x(1000, comm.rank());
    tutti::Work work = comm.all_reduce_async(x);
    work.wait();
    std::vector<Best> best{{static_cast<double>(comm.rank()), comm.rank()}};
    comm.all_reduce(best, tutti::Op::of<Best>([](const Best& a, const Best& b) { return b.value > a.value ? b : a; }));
    const int last = comm.size() - 1;
    if (x[7] != comm.size() * last / 2.0 || best[0].owner != last) return 2;
    bool refused = false;
    try {
      comm.broadcast(x, comm.size());
    } catch (const tutti::Error& error) {
      refused = error.code() == tutti::ErrorCode::invalid_argument;
    }
    if (!refused || with_threads() != 0) return 3;
    std::printf("c++: rank %d of %d\n", comm.rank(), comm.size());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
