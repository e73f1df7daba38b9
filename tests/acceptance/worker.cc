// The program that the acceptance tests start under every launcher.
//
//   worker verbs          a round of every verb, in the job and in groups of its ranks, results checked; says "ok"
//   worker until-failure  works until something fails, then says what, when, and whom it blames
//   worker until-told F   works until the file F is there, then says "ok"
//   worker reduce N       one all_reduce of N floats, checked; says "ok"
//   worker now            what its clock says, to compare with that
#include <tutti/init.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using tutti::Communicator;
using tutti::DType;

void require(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(std::string("wrong result: ") + what);
}

long long now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

void round_of_verbs(Communicator& comm, std::size_t count) {
  const int size = comm.size(), rank = comm.rank();
  std::vector<std::int64_t> sum(count, rank + 1);
  comm.all_reduce(std::span(sum));
  for (const std::int64_t value : sum) require(value == size * (size + 1) / 2, "all_reduce");
  std::vector<double> mean(count, rank);
  comm.all_reduce(mean, tutti::ReduceOp::average);
  for (const double value : mean) require(value == (size - 1) / 2.0, "average");
  for (int root = 0; root < size; ++root) {
    std::vector<int> data(count, rank == root ? root + 7 : -1);
    comm.broadcast(std::span(data), root);
    for (const int value : data) require(value == root + 7, "broadcast");
  }
  if (size == 1) return;
  std::vector<int> out(count, rank), in(count, -1);
  tutti::Work sent = comm.send_async(std::span(out).first(count), (rank + 1) % size);
  comm.recv(std::span(in).first(count), (rank + size - 1) % size);
  sent.wait();
  for (const int value : in) require(value == (rank + size - 1) % size, "send and recv");
}

// Groups across hosts, inside them, and of some hosts, where ranks are placed by blocks.
void round_of_groups(Communicator& comm) {
  const int rank = comm.rank(), half = (comm.size() + 1) / 2;
  Communicator every_other = comm.split(rank % 2, -rank), near = comm.split(rank / 2), block = comm.split(rank / half);
  Communicator again = every_other.duplicate();
  require(every_other.size() == (comm.size() + 1 - rank % 2) / 2, "split by parity");
  for (Communicator* group : {&every_other, &near, &block, &again}) round_of_verbs(*group, 10'000);
  int total = rank;
  every_other.all_reduce(tutti::one(total));
  const int last = (comm.size() - 1 - rank % 2) / 2 * 2 + rank % 2;
  require(total == (rank % 2 + last) * every_other.size() / 2, "sum over every other rank");
}

int verbs() {
  Communicator comm = tutti::init();
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{300'001}}) {
    round_of_verbs(comm, count);
  }
  round_of_groups(comm);
  std::printf("rank %d of %d ok\n", comm.rank(), comm.size());
  return 0;
}

int until_failure() {
  std::printf("started %lld\n", now_ns());
  std::fflush(stdout);
  try {
    Communicator comm = tutti::init();
    std::printf("met %lld\n", now_ns());
    std::fflush(stdout);
    const tutti::Symmetric<float> symmetric = comm.allocate<float>(60'000);
    std::vector<float> large(200'000, 1.0f);
    for (;;) {
      round_of_verbs(comm, 5);
      tutti::Work under_way = comm.all_reduce_async(large);
      comm.all_reduce(symmetric.span());
      round_of_verbs(comm, 50'000);
      under_way.wait();
    }
  } catch (const tutti::Error& error) {
    std::printf("failed %lld code %s peer %d: %s\n", now_ns(), std::string(name_of(error.code())).c_str(), error.peer(),
                error.what());
    std::fflush(stdout);
    return 3;
  }
}

int until_told(const char* file) {
  Communicator comm = tutti::init();
  std::printf("met %lld\n", now_ns());
  std::fflush(stdout);
  // Rank 0 looks for all, so that all end after the same round.
  for (int told = 0; told == 0;) {
    round_of_verbs(comm, 5'000);
    told = comm.rank() == 0 && std::filesystem::exists(file) ? 1 : 0;
    comm.broadcast(tutti::one(told), 0);
  }
  std::printf("rank %d of %d ok\n", comm.rank(), comm.size());
  return 0;
}

int reduce(std::size_t count) {
  Communicator comm = tutti::init();
  std::vector<float> data(count, static_cast<float>(comm.rank() + 1));
  comm.all_reduce(data);
  const auto sum = static_cast<float>(comm.size() * (comm.size() + 1) / 2);
  for (const float value : data) require(value == sum, "all_reduce");
  std::printf("rank %d of %d ok\n", comm.rank(), comm.size());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  try {
    if (mode == "verbs") return verbs();
    if (mode == "until-failure") return until_failure();
    if (mode == "until-told" && argc == 3) return until_told(argv[2]);
    if (mode == "reduce" && argc == 3) return reduce(std::stoul(argv[2]));
    if (mode == "now") return std::printf("%lld\n", now_ns()) > 0 ? 0 : 1;
    std::fprintf(stderr, "usage: worker verbs|until-failure|until-told FILE|reduce COUNT|now\n");
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
