// In place, verb by verb: which buffers may be the same memory, what is overwritten and what stays as it was.
// Every verb runs twice, into another buffer and in place; the results must agree.
//
//   tutti run -n 4 -- build/bin/in_place
#include <cstdio>
#include <exception>
#include <span>
#include <tutti/tutti.hpp>
#include <vector>

namespace {

using Numbers = std::vector<long>;

class Table {
 public:
  explicit Table(const tutti::Communicator& comm) : comm_(comm) {
    if (comm.rank() == 0) std::printf("%-15s %-46s %s\n", "verb", "in place", "what changes");
  }
  void row(const char* verb, const char* call, const char* changes, bool right) {
    right_ = right_ && right;
    if (!right) std::fprintf(stderr, "rank %d: %s in place differs\n", comm_.rank(), verb);
    if (comm_.rank() == 0) std::printf("%-15s %-46s %s\n", verb, call, changes);
  }
  bool right() const { return right_; }

 private:
  const tutti::Communicator& comm_;
  bool right_ = true;
};

// Verbs whose input and output are equally long: the output is the input.
void whole_buffers(tutti::Communicator& comm, const Numbers& x, Table& table) {
  const bool root = comm.rank() == 0;
  Numbers y = x, z = x;
  comm.all_reduce(x, y);
  comm.all_reduce(z);
  table.row("all_reduce", "all_reduce(z)", "all of z", z == y);
  comm.scan(x, y);
  comm.scan(z = x, z);
  table.row("scan", "scan(z, z)", "all of z", z == y);
  comm.exclusive_scan(x, y = x);
  comm.exclusive_scan(z = x, z);
  table.row("exclusive_scan", "exclusive_scan(z, z)", "all of z, but nothing on rank 0", z == y);
  comm.all_to_all(x, y);
  comm.all_to_all(z = x);
  table.row("all_to_all", "all_to_all(z)", "all of z", z == y);
  comm.broadcast(x, y, 0);
  comm.broadcast(z = x, 0);
  table.row("broadcast", "broadcast(z, 0)", "all of z, but nothing on the root", z == y && (!root || z == x));
  comm.reduce(x, y, 0);
  comm.reduce(z = x, z, 0);
  table.row("reduce", "reduce(z, z, 0)", "all of z on the root, nothing elsewhere", z == (root ? y : x));
}

// Verbs where one buffer holds a chunk per rank: the short one is the own chunk of the long one.
void chunks(tutti::Communicator& comm, const Numbers& x, Table& table) {
  const bool root = comm.rank() == 0;
  const std::size_t count = x.size() / static_cast<std::size_t>(comm.size());
  const auto own = [&](Numbers& all) {
    return std::span(all).subspan(static_cast<std::size_t>(comm.rank()) * count, count);
  };
  const auto set = [&](Numbers all, const Numbers& chunk) {  // `all` with this rank's chunk replaced
    std::copy(chunk.begin(), chunk.end(), own(all).begin());
    return all;
  };
  Numbers y(x.size()), z = x, chunk(count), mine(own(z).begin(), own(z).end());
  comm.all_gather(mine, y);
  comm.all_gather(own(z), z);
  table.row("all_gather", "all_gather(own chunk of z, z)", "the other chunks of z", z == y);
  comm.gather(mine, y, 0);
  comm.gather(own(z = x), z, 0);
  table.row("gather", "gather(own chunk of z, z, 0)", "the other chunks of z on the root", z == (root ? y : x));
  comm.reduce_scatter(x, chunk);
  comm.reduce_scatter(z = x, own(z));
  table.row("reduce_scatter", "reduce_scatter(z, own chunk of z)", "the own chunk of z", z == set(x, chunk));
  comm.scatter(x, chunk, 0);
  comm.scatter(z = x, own(z), 0);
  table.row("scatter", "scatter(z, own chunk of z, 0)", "the own chunk of z, nothing on the root",
            z == set(x, chunk) && (!root || z == x));
}

// Any other overlap is refused before anything moves.
void overlap(tutti::Communicator& comm, const Numbers& x, Table& table) {
  Numbers z = x;
  bool refused = false;
  try {
    comm.all_reduce(std::span(z).first(z.size() - 1), std::span(z).last(z.size() - 1));
  } catch (const tutti::Error& error) {
    refused = error.code() == tutti::ErrorCode::invalid_argument;
  }
  table.row("any", "buffers that overlap otherwise", "nothing: the call is refused", refused && z == x);
}

int run(tutti::Communicator comm) {
  Numbers x;
  for (long i = 0; i < 3L * comm.size(); ++i) x.push_back(100 * comm.rank() + i);
  Table table(comm);
  whole_buffers(comm, x, table);
  chunks(comm, x, table);
  overlap(comm, x, table);
  return table.right() ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run(tutti::init());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
