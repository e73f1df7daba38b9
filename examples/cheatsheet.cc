// Every verb of distributed training on one sheet: how it is called, what each rank has before and after, and where
// training uses it. All of it happens between the ranks while it is drawn; a rank that gets something else than it
// should makes the program exit with 1.
//
//   tutti run -n 4 --no-prefix -- build/bin/cheatsheet
#include <cstdio>
#include <exception>
#include <string>
#include <tutti/tutti.hpp>
#include <vector>

#include "sheet.h"

namespace {

using sheet::element;
using sheet::elements;
using sheet::Sheet;
using sheet::sum;
using sheet::Values;
using tutti::Communicator;

// Writes the call down and makes it: what the sheet says is what ran.
#define CALL(...)           \
  sheet.call(#__VA_ARGS__); \
  __VA_ARGS__

constexpr int root = 0;

// ---- Vectors: every rank has one of the same length.

void broadcast(Sheet& sheet, Communicator& comm) {
  sheet.verb("broadcast", "at the start of training all ranks take rank 0's weights");
  Values x = elements(comm.rank(), 2);
  sheet.before("x", x);
  CALL(comm.broadcast(x, root));
  sheet.after("x", x, elements(root, 2));
}

void reduce(Sheet& sheet, Communicator& comm) {
  sheet.verb("reduce", "one rank logs the sum of all losses");
  const Values x = elements(comm.rank(), 2);
  Values y(comm.rank() == root ? 2 : 0);  // only the root has a result
  sheet.before("x", x);
  CALL(comm.reduce(x, y, root, tutti::ReduceOp::sum));
  const int last = comm.size() - 1;
  sheet.after("y", y, comm.rank() == root ? Values{sum(0, last, 0), sum(0, last, 1)} : Values{});
}

void all_reduce(Sheet& sheet, Communicator& comm) {
  sheet.verb("all_reduce", "data parallel training sums gradients; tensor parallel layers sum partial results");
  Values x = elements(comm.rank(), 2);
  sheet.before("x", x);
  CALL(comm.all_reduce(x, tutti::ReduceOp::sum));
  sheet.after("x", x, {sum(0, comm.size() - 1, 0), sum(0, comm.size() - 1, 1)});
}

void scan(Sheet& sheet, Communicator& comm) {
  sheet.verb("scan", "running totals over ranks: up to which token of the data all ranks so far have read");
  const Values x = elements(comm.rank(), 1);
  Values y(1);
  sheet.before("x", x);
  CALL(comm.scan(x, y));
  sheet.after("y", y, {sum(0, comm.rank(), 0)});
}

void exclusive_scan(Sheet& sheet, Communicator& comm) {
  sheet.verb("exclusive_scan", "where this rank's part begins: offsets into a checkpoint or a sharded data set");
  const Values x = elements(comm.rank(), 1);
  Values y(1);
  sheet.before("x", x);
  CALL(comm.exclusive_scan(x, y));
  sheet.after("y", y, {comm.rank() == 0 ? 0 : sum(0, comm.rank() - 1, 0)});  // rank 0's output is left alone
}

// ---- Chunks: one of the two buffers holds a chunk for every rank.

void scatter(Sheet& sheet, Communicator& comm) {
  sheet.verb("scatter", "one rank reads the data and deals it out");
  const Values x = elements(comm.rank(), comm.rank() == root ? static_cast<std::size_t>(comm.size()) : 0);
  Values y(1);
  sheet.before("x", x);
  CALL(comm.scatter(x, y, root));
  sheet.after("y", y, {element(root, comm.rank())});
}

void gather(Sheet& sheet, Communicator& comm) {
  sheet.verb("gather", "one rank collects metrics, or writes a checkpoint");
  const Values x = elements(comm.rank(), 1);
  Values y(comm.rank() == root ? static_cast<std::size_t>(comm.size()) : 0), expected;
  for (int rank = 0; rank < comm.size() && comm.rank() == root; ++rank) expected.push_back(element(rank, 0));
  sheet.before("x", x);
  CALL(comm.gather(x, y, root));
  sheet.after("y", y, expected);
}

void all_gather(Sheet& sheet, Communicator& comm) {
  sheet.verb("all_gather", "ZeRO-3 and FSDP collect the sharded weights of a layer just before it runs");
  const Values x = elements(comm.rank(), 1);
  Values y(static_cast<std::size_t>(comm.size())), expected;
  for (int rank = 0; rank < comm.size(); ++rank) expected.push_back(element(rank, 0));
  sheet.before("x", x);
  CALL(comm.all_gather(x, y));
  sheet.after("y", y, expected);
}

void reduce_scatter(Sheet& sheet, Communicator& comm) {
  sheet.verb("reduce_scatter", "ZeRO and FSDP: every rank gets the summed gradients of the weights it owns");
  const Values x = elements(comm.rank(), static_cast<std::size_t>(comm.size()));
  Values y(1);
  sheet.before("x", x);
  CALL(comm.reduce_scatter(x, y, tutti::ReduceOp::sum));
  sheet.after("y", y, {sum(0, comm.size() - 1, comm.rank())});
}

void all_to_all(Sheet& sheet, Communicator& comm) {
  sheet.verb("all_to_all", "expert parallel: tokens to their experts; sequence parallel: from heads to positions");
  const Values x = elements(comm.rank(), static_cast<std::size_t>(comm.size()));
  Values y(x.size()), expected;
  for (int rank = 0; rank < comm.size(); ++rank) expected.push_back(element(rank, comm.rank()));
  sheet.before("x", x);
  CALL(comm.all_to_all(x, y));
  sheet.after("y", y, expected);
}

// ---- The same with chunks of different lengths: 2, 1, 0, 2, 1, 0 elements for ranks 0 to 5.

std::size_t share(int rank) { return static_cast<std::size_t>(2 * (rank + 1) % 3); }

std::vector<std::size_t> shares(const Communicator& comm) {
  std::vector<std::size_t> counts;
  for (int rank = 0; rank < comm.size(); ++rank) counts.push_back(share(rank));
  return counts;
}

std::size_t total(const std::vector<std::size_t>& counts) {
  std::size_t elements = 0;
  for (const std::size_t count : counts) elements += count;
  return elements;
}

// What `rank` gets of a buffer that is cut into shares.
std::size_t first_of(int rank) {
  std::size_t at = 0;
  for (int before = 0; before < rank; ++before) at += share(before);
  return at;
}

Values gathered(const Communicator& comm) {
  Values all;
  for (int rank = 0; rank < comm.size(); ++rank) {
    for (const sheet::Value value : elements(rank, share(rank))) all.push_back(value);
  }
  return all;
}

void scatter_v(Sheet& sheet, Communicator& comm) {
  sheet.verb("scatter_v", "samples dealt out by length; only the root knows the counts");
  const std::vector<std::size_t> counts = shares(comm);
  const Values x = elements(comm.rank(), comm.rank() == root ? total(counts) : 0);
  Values y(share(comm.rank())), expected;
  for (std::size_t i = 0; i < y.size(); ++i)
    expected.push_back(element(root, static_cast<int>(first_of(comm.rank()) + i)));
  sheet.before("x", x);
  CALL(comm.scatter_v(x, {counts}, y, root));
  sheet.after("y", y, expected);
}

void gather_v(Sheet& sheet, Communicator& comm) {
  sheet.verb("gather_v", "generated texts of different lengths to the rank that writes them");
  const std::vector<std::size_t> counts = shares(comm);
  const Values x = elements(comm.rank(), share(comm.rank()));
  Values y(comm.rank() == root ? total(counts) : 0);
  sheet.before("x", x);
  CALL(comm.gather_v(x, y, {counts}, root));
  sheet.after("y", y, comm.rank() == root ? gathered(comm) : Values{});
}

void all_gather_v(Sheet& sheet, Communicator& comm) {
  sheet.verb("all_gather_v", "weights whose shards are not equally long; batches that ended early");
  const std::vector<std::size_t> counts = shares(comm);
  const Values x = elements(comm.rank(), share(comm.rank()));
  Values y(total(counts));
  sheet.before("x", x);
  CALL(comm.all_gather_v(x, y, {counts}));
  sheet.after("y", y, gathered(comm));
}

void reduce_scatter_v(Sheet& sheet, Communicator& comm) {
  sheet.verb("reduce_scatter_v", "gradients cut at tensor boundaries instead of into equal parts");
  const std::vector<std::size_t> counts = shares(comm);
  const Values x = elements(comm.rank(), total(counts));
  Values y(share(comm.rank())), expected;
  for (std::size_t i = 0; i < y.size(); ++i)
    expected.push_back(sum(0, comm.size() - 1, static_cast<int>(first_of(comm.rank()) + i)));
  sheet.before("x", x);
  CALL(comm.reduce_scatter_v(x, {counts}, y));
  sheet.after("y", y, expected);
}

void all_to_all_v(Sheet& sheet, Communicator& comm) {
  sheet.verb("all_to_all_v", "mixture of experts: as many tokens to each expert as the router has chosen");
  const auto tokens = [](int from, int to) { return static_cast<std::size_t>((from + 2 * to) % 3); };
  std::vector<std::size_t> sent, received;
  Values expected;
  for (int rank = 0; rank < comm.size(); ++rank) {
    sent.push_back(tokens(comm.rank(), rank));
    received.push_back(tokens(rank, comm.rank()));
    std::size_t at = 0;  // where that rank's tokens for this one begin
    for (int before = 0; before < comm.rank(); ++before) at += tokens(rank, before);
    for (std::size_t i = 0; i < received.back(); ++i) expected.push_back(element(rank, static_cast<int>(at + i)));
  }
  const Values x = elements(comm.rank(), total(sent));
  Values y(total(received));
  sheet.before("x", x);
  CALL(comm.all_to_all_v(x, {sent}, y, {received}));
  sheet.after("y", y, expected);
}

// ---- Nothing moves, but nobody goes on alone.

void barrier(Sheet& sheet, Communicator& comm) {
  sheet.verb("barrier", "nobody reads the checkpoint before it is written; in this picture the last rank comes late");
  const int last = comm.size() - 1;
  const bool late = comm.rank() == last;
  std::vector<int> word(1);
  CALL(comm.barrier());
  // Once more, looking at it: the last rank calls when all others have said that they are waiting.
  for (int rank = 0; rank < last && late; ++rank) comm.recv(word, rank);
  CALL(tutti::Work work = comm.barrier_async());
  const bool waits = !late && !work.test();
  if (!late) comm.send(word, last);
  CALL(work.wait());
  sheet.before("at first", std::vector<sheet::Cell>{sheet::Cell(late ? "away" : waits ? "waits" : "gone")});
  sheet.after("then", std::vector<sheet::Cell>{sheet::Cell("gone")}, late || waits);
}

// ---- Messages between two ranks.

// Even ranks send, the next ones receive.
bool sends(const Communicator& comm) { return comm.rank() % 2 == 0 && comm.rank() + 1 < comm.size(); }

void send_and_recv(Sheet& sheet, Communicator& comm) {
  sheet.verb("send, recv", "pipeline parallel: activations to the next stage, gradients to the one before");
  const int me = comm.rank();
  const bool even = sends(comm), odd = me % 2 == 1;
  const Values x = elements(me, even ? 2 : 0);
  Values y(odd ? 2 : 0);
  sheet.before("x", x);
  CALL(if (even) comm.send(x, me + 1));
  CALL(if (odd) comm.recv(y, me - 1));
  sheet.after("y", y, odd ? elements(me - 1, 2) : Values{});
}

void tags(Sheet& sheet, Communicator& comm) {
  sheet.verb("tags", "several streams between two ranks: tag 2 is taken first, though it was sent last");
  const int me = comm.rank();
  const bool even = sends(comm), odd = me % 2 == 1;
  const Values a{element(me, 0)}, b{element(me, 1)};
  Values c(1), d(1);
  sheet.before("a, b", even ? Values{a[0], b[0]} : Values{});
  CALL(tutti::Work first, second);
  CALL(if (even) first = comm.send_async(a, me + 1, 1));
  CALL(if (even) second = comm.send_async(b, me + 1, 2));
  CALL(if (odd) comm.recv(c, me - 1, 2));
  CALL(if (odd) comm.recv(d, me - 1, 1));
  sheet.after("c, d", odd ? Values{c[0], d[0]} : Values{},
              odd ? Values{element(me - 1, 1), element(me - 1, 0)} : Values{});
}

void send_recv(Sheet& sheet, Communicator& comm) {
  sheet.verb("send_recv", "ring attention: keys and values go round while the own queries stay; never deadlocks");
  const int right = (comm.rank() + 1) % comm.size(), left = (comm.rank() + comm.size() - 1) % comm.size();
  const Values x = elements(comm.rank(), 2);
  Values y(2);
  sheet.before("x", x);
  CALL(comm.send_recv(x, right, y, left));
  sheet.after("y", y, elements(left, 2));
}

void probe(Sheet& sheet, Communicator& comm) {
  sheet.verb("probe, any source", "a rank that serves others: who has something, and how much?");
  const int me = comm.rank(), tag = 3;
  const Values x = elements(me, static_cast<std::size_t>(me));
  std::vector<Values> from(static_cast<std::size_t>(comm.size()));
  sheet.before("x", x);
  CALL(if (me != 0) comm.send(x, 0, tag));
  for (int message = 1; message < comm.size() && me == 0; ++message) {
    CALL(tutti::Received next = comm.probe(tutti::kAnySource, tag, tutti::DType::uint64));
    CALL(Values y(next.count));
    CALL(comm.recv(y, next.source, tag));
    from[static_cast<std::size_t>(next.source)] = y;
  }
  Values all, expected;
  for (int rank = 1; rank < comm.size() && me == 0; ++rank) {
    for (const sheet::Value value : from[static_cast<std::size_t>(rank)]) all.push_back(value);
    for (const sheet::Value value : elements(rank, static_cast<std::size_t>(rank))) expected.push_back(value);
  }
  sheet.after("y of all", all, expected);
}

void batch(Sheet& sheet, Communicator& comm) {
  sheet.verb("batch", "borders of a sequence or image cut over ranks; interleaved pipeline schedules");
  const int me = comm.rank(), right = (me + 1) % comm.size(), left = (me + comm.size() - 1) % comm.size();
  const Values first{element(me, 0)}, last{element(me, 1)};
  Values from_left(1), from_right(1);
  sheet.before("first, last", {first[0], last[0]});
  CALL(tutti::Batch batch(comm));
  CALL(batch.send(first, left, 0).recv(from_right, right, 0));
  CALL(batch.send(last, right, 1).recv(from_left, left, 1));
  CALL(batch.run());
  sheet.after("from_left, first, last, from_right", {from_left[0], first[0], last[0], from_right[0]},
              {element(left, 1), element(me, 0), element(me, 1), element(right, 0)});
}

// ---- Groups.

void split(Sheet& sheet, Communicator& comm) {
  sheet.verb("split", "a row of the device mesh: tensor, pipeline, expert and data parallel groups at once");
  const int me = comm.rank();
  const Values x = elements(me, 1);
  sheet.before("x", x);
  CALL(tutti::Communicator group = comm.split(me % 2));
  CALL(Values y(group.size()));
  CALL(group.all_gather(x, y));
  Values expected;
  for (int rank = me % 2; rank < comm.size(); rank += 2) expected.push_back(element(rank, 0));
  sheet.after("y", y, expected);
}

struct Part {
  const char* title;
  std::vector<void (*)(Sheet&, Communicator&)> verbs;
};

const std::vector<Part>& parts() {
  static const std::vector<Part> kParts{
      {"vectors: as long on every rank", {broadcast, reduce, all_reduce, scan, exclusive_scan}},
      {"chunks: one for every rank", {scatter, gather, all_gather, reduce_scatter, all_to_all}},
      {"chunks of different lengths", {scatter_v, gather_v, all_gather_v, reduce_scatter_v, all_to_all_v}},
      {"waiting for all", {barrier}},
      {"messages", {send_and_recv, tags, send_recv, probe, batch}},
      {"groups", {split}}};
  return kParts;
}

int run(Communicator world) {
  // Letters and digits last for so many ranks; others stand by.
  Communicator comm =
      world.size() > sheet::kMostRanks ? world.split(world.rank() < sheet::kMostRanks ? 0 : -1) : std::move(world);
  if (!comm.valid()) return 0;
  Sheet sheet(comm);
  const int last = comm.size() - 1;
  sheet.line("Tutti: every verb, between " + std::to_string(comm.size()) + (last == 0 ? " rank" : " ranks") +
             ", drawn as it happens. A0 is element 0 of rank 0,");
  sheet.line(sheet::cell_of(sum(0, last, 0)).text + std::string(" the sum of the elements 0 of ") +
             (last == 0 ? "rank 0" : "ranks 0 to " + std::to_string(last)) + ", ·· not written; root is 0.");
  for (const Part& part : parts()) {
    sheet.part(part.title);
    for (const auto verb : part.verbs) verb(sheet, comm);
  }
  sheet.line(
      "\nAll but send_recv and probe have async forms that return a tutti::Work: all_reduce_async, ... More: "
      "docs/api.md");
  if (sheet.wrong().empty()) return 0;
  std::fprintf(stderr, "rank %d: wrong results from %s\n", comm.rank(), sheet.wrong().c_str());
  return 1;
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
