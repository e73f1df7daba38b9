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

#include <cstdint>

#include "schedule/program.h"

namespace tutti::schedule {

enum class Cut : std::uint8_t { vector, chunks };

// On which ranks a buffer is there, and whether it holds all blocks or only the rank's own.
enum class Share : std::uint8_t { none, all, own, all_at_root, all_elsewhere, all_but_first };

struct VerbFacts {
  Cut cut;
  bool rooted;   // its result depends on the root
  bool reduces;  // has an operator
  Share input;
  Share output;
};

constexpr VerbFacts facts_of(Verb verb) {
  switch (verb) {
    case Verb::all_reduce: return {Cut::vector, false, true, Share::all, Share::all};
    case Verb::broadcast: return {Cut::vector, true, false, Share::all, Share::all};
    case Verb::send_recv: return {Cut::vector, true, false, Share::all_at_root, Share::all_elsewhere};
    case Verb::reduce: return {Cut::vector, true, true, Share::all, Share::all_at_root};
    case Verb::scatter: return {Cut::chunks, true, false, Share::all_at_root, Share::own};
    case Verb::gather: return {Cut::chunks, true, false, Share::own, Share::all_at_root};
    case Verb::all_gather: return {Cut::chunks, false, false, Share::own, Share::all};
    case Verb::reduce_scatter: return {Cut::chunks, false, true, Share::all, Share::own};
    case Verb::all_to_all: return {Cut::chunks, false, false, Share::all, Share::all};
    case Verb::scan: return {Cut::vector, false, true, Share::all, Share::all};
    case Verb::exclusive_scan: return {Cut::vector, false, true, Share::all, Share::all_but_first};
    case Verb::barrier: return {Cut::vector, false, false, Share::none, Share::none};
  }
  return {};
}

enum class Holding : std::uint8_t { nothing, own, all };

// What `buffer` of rank `owner` holds in the call that `program` is part of.
constexpr Holding holding_of(Verb verb, Buffer buffer, int ranks, int owner, int root) {
  if (buffer == Buffer::scratch) return Holding::all;
  const VerbFacts facts = facts_of(verb);
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

constexpr bool is_prefix(Verb verb) { return verb == Verb::scan || verb == Verb::exclusive_scan; }

// Whether `rank` cannot be through with the collective before `other` has made it, whatever the algorithm.
constexpr bool needs(Verb verb, int root, int rank, int other) {
  switch (verb) {
    case Verb::broadcast:
    case Verb::scatter: return other == root;
    case Verb::reduce:
    case Verb::gather: return rank == root;
    case Verb::scan:
    case Verb::exclusive_scan: return other < rank;
    case Verb::send_recv: return false;
    default: return true;
  }
}

}  // namespace tutti::schedule
