// What each verb is about, in one table: how its data is cut, which blocks each rank's buffers hold, and what an output
// holds in the end. The layout, the verifier, the executor and the tools all read it here.
//
// A vector verb works on one vector of `count` elements per rank. A chunk verb works on chunks of `count` elements, one
// per rank: block b is the chunk of, from or for rank b. A buffer that holds only the rank's own chunk has that block
// alone, at its beginning.
//
// In place means that the blocks which a rank's input and output both hold are the same memory: for all_gather the
// input is the own chunk inside the output, for reduce_scatter the output is the own chunk inside the input.
#pragma once

#include <cstddef>
#include <cstdint>

#include "schedule/program.h"

namespace tutti::schedule {

enum class Cut : std::uint8_t { vector, chunks };

// On which ranks a buffer is there, and whether it holds all blocks or only the rank's own.
enum class Share : std::uint8_t { none, all, own, all_at_root, all_elsewhere, all_but_first };

// Whom a rank cannot be through with the collective before, whatever the algorithm.
enum class Needs : std::uint8_t { everybody, root, everybody_at_root, lower_ranks, nobody };

struct VerbFacts {
  Verb verb;
  Cut cut = Cut::vector;
  bool rooted = false;   // its result depends on the root
  bool reduces = false;  // has an operator
  Share input = Share::all;
  Share output = Share::all;
  Needs needs = Needs::everybody;
  bool prefix = false;                    // reduces what the ranks up to this one have
  bool reads_input_at_root_only = false;  // though all ranks have one
  bool all_know_counts = false;           // of its v-variant: every rank is given everybody's counts
  int passes = 1;                         // how often the data has to pass the busiest rank, whatever the algorithm
  bool own_stays = false;                 // ... without that rank's own share
};

inline constexpr VerbFacts kVerbTable[] = {
    {.verb = Verb::all_reduce, .reduces = true, .passes = 2, .own_stays = true},
    {.verb = Verb::broadcast, .rooted = true, .needs = Needs::root, .reads_input_at_root_only = true},
    {.verb = Verb::send_recv,
     .rooted = true,
     .input = Share::all_at_root,
     .output = Share::all_elsewhere,
     .needs = Needs::nobody},
    {.verb = Verb::reduce,
     .rooted = true,
     .reduces = true,
     .output = Share::all_at_root,
     .needs = Needs::everybody_at_root},
    {.verb = Verb::scatter,
     .cut = Cut::chunks,
     .rooted = true,
     .input = Share::all_at_root,
     .output = Share::own,
     .needs = Needs::root,
     .own_stays = true},
    {.verb = Verb::gather,
     .cut = Cut::chunks,
     .rooted = true,
     .input = Share::own,
     .output = Share::all_at_root,
     .needs = Needs::everybody_at_root,
     .own_stays = true},
    {.verb = Verb::all_gather, .cut = Cut::chunks, .input = Share::own, .all_know_counts = true, .own_stays = true},
    {.verb = Verb::reduce_scatter,
     .cut = Cut::chunks,
     .reduces = true,
     .output = Share::own,
     .all_know_counts = true,
     .own_stays = true},
    {.verb = Verb::all_to_all, .cut = Cut::chunks, .own_stays = true},
    {.verb = Verb::scan, .reduces = true, .needs = Needs::lower_ranks, .prefix = true},
    {.verb = Verb::exclusive_scan,
     .reduces = true,
     .output = Share::all_but_first,
     .needs = Needs::lower_ranks,
     .prefix = true},
    {.verb = Verb::barrier, .input = Share::none, .output = Share::none, .passes = 0},
};

constexpr const VerbFacts& facts_of(Verb verb) { return kVerbTable[static_cast<std::size_t>(verb)]; }

constexpr bool is_whole(const VerbFacts (&table)[kVerbs]) {
  for (std::size_t i = 0; i < kVerbs; ++i) {
    if (table[i].verb != static_cast<Verb>(i)) return false;
  }
  return true;
}
static_assert(is_whole(kVerbTable), "a row for each verb, in their order");

// What the busiest rank has to send or receive at least, in vectors, or in all chunks together: time less than this
// times the bytes over the bandwidth of its link nothing takes.
constexpr double least_moved(Verb verb, int ranks) {
  const VerbFacts& facts = facts_of(verb);
  return ranks == 1 ? 0.0 : facts.passes * (facts.own_stays ? (ranks - 1.0) / ranks : 1.0);
}

// A barrier has no buffers.
constexpr bool moves_data(Verb verb) { return facts_of(verb).input != Share::none; }

enum class Holding : std::uint8_t { nothing, own, all };

// What `buffer` of rank `owner` holds in the call that `program` is part of.
constexpr Holding holding_of(Verb verb, Buffer buffer, int ranks, int owner, int root) {
  if (buffer == Buffer::scratch) return Holding::all;
  const VerbFacts& facts = facts_of(verb);
  switch (buffer == Buffer::input ? facts.input : facts.output) {
    case Share::none: return Holding::nothing;
    case Share::all: return Holding::all;
    case Share::own: return Holding::own;
    case Share::all_at_root: return owner == root ? Holding::all : Holding::nothing;
    case Share::all_elsewhere: return owner != root || ranks == 1 ? Holding::all : Holding::nothing;
    case Share::all_but_first: return owner != 0 ? Holding::all : Holding::nothing;
  }
  return Holding::nothing;
}
inline Holding holding_of(const Program& program, Buffer buffer, int owner) {
  return holding_of(program.verb, buffer, program.ranks, owner, program.root);
}
inline bool holds_block(const Program& program, Buffer buffer, int owner, int block) {
  const Holding holding = holding_of(program, buffer, owner);
  return holding == Holding::all || (holding == Holding::own && block == owner);
}

// What a block of an output holds in the end: the block `from_block` of rank `from_rank`'s input, or the reduction of
// that block over ranks 0 .. contributors - 1.
struct Promised {
  int contributors = 0;  // 0: nothing is reduced
  int from_rank = 0;
  int from_block = 0;
};

constexpr Promised promised(Verb verb, int ranks, int rank, int root, int block) {
  switch (verb) {
    case Verb::all_reduce:
    case Verb::reduce:
    case Verb::reduce_scatter: return {ranks, 0, block};
    case Verb::scan: return {rank + 1, 0, block};
    case Verb::exclusive_scan: return {rank, 0, block};
    case Verb::broadcast:
    case Verb::send_recv:
    case Verb::scatter: return {0, root, block};
    case Verb::gather:
    case Verb::all_gather: return {0, block, block};
    case Verb::all_to_all: return {0, block, rank};
    case Verb::barrier: break;
  }
  return {};
}
inline Promised promised(const Program& program, int rank, int block) {
  return promised(program.verb, program.ranks, rank, program.root, block);
}

// Whether `rank` cannot be through with the collective before `other` has made it, whatever the algorithm.
constexpr bool needs(Verb verb, int root, int rank, int other) {
  switch (facts_of(verb).needs) {
    case Needs::everybody: return true;
    case Needs::root: return other == root;
    case Needs::everybody_at_root: return rank == root;
    case Needs::lower_ranks: return other < rank;
    case Needs::nobody: return false;
  }
  return true;
}

}  // namespace tutti::schedule
