// Composition: one program of several, each run by groups of the ranks, one after the other: inside hosts, then across.
//
// Pure. A *stage* is the program of any row for a part of the ranks. Its ranks become those of the whole, its blocks
// stand for blocks of the whole, its input and output for buffers or planes of scratch. Stages have lanes of their own,
// so that one works on a segment while the next is at the one before: a lane waits for those of the stage before it in
// the same segment, and for the last stage where scratch is used again. Stages of one level send on the same edges, and
// so each on a channel of its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "schedule/algorithms/table.h"
#include "schedule/program.h"
#include "schedule/stage_blocks.h"

namespace tutti::schedule {

// What a stage's input or output is in the whole.
struct StageMemory {
  Buffer buffer = Buffer::input;
  int plane = 0;  // of scratch
};

struct Stage {
  std::string name;  // of its lanes
  std::function<Program(const Placement& placement)> generate;
  int level = 0;                  // groups of different levels share no edge
  std::vector<int> sizes = {};    // that the groups which run it have
  std::vector<int> members = {};  // ranks of this one's group; empty: it takes no part
  int root = 0;                   // in the group
  StageBlocks blocks = {};
  int widest = 1;  // the most blocks of the whole for one of the stage, in any group
  StageMemory input = {}, output = {};
  bool last = true;  // its reductions are final
};

class Composition {
 public:
  // `whole`: verb, name, ranks, root and blocks. `planes`: of scratch between stages.
  Composition(Program whole, int planes);

  void add(const Stage& stage);
  Program finish();

 private:
  struct LaneRange {
    std::size_t begin = 0, end = 0;
  };

  void embed(const Stage& stage, const Program& part, int channel, int first_plane);

  Program whole_;
  std::vector<LaneRange> stages_;     // lanes of this rank, of the stages that have something for it to do
  std::vector<int> channels_so_far_;  // by level
};

}  // namespace tutti::schedule
