// The one JSON form of a collective's lowered programs, for files, tools and the viewer. Versioned, strict, lossless:
// from_json(to_json(programs)) == programs.
//
//   { "version": 6,
//     "verb": "all_reduce", "algorithm": "ring", "ranks": 4, "root": 0, "blocks": 4, "message_blocks": 1,
//     "hears_first": false, "channels": 1,
//     "offers": { "inside": { "credits": 2, ... }, "scratch_bytes": 0, "segment_bytes": 0, "channels": 1 },
//     "segment_bytes": 0,                                       what the programs were lowered to, and the bound it set
//     "legend": { ... },                                        what the words mean; written, never read
//     "programs": [ { "ranks": [0, 1, 2, 3],                    the ranks that share this text
//                     "scratch": { "planes": 0, "depth": 1 },
//                     "lanes": [ { "name": "ring", "published": false,
//                                  "steps": [ { "op": "copy", "to": [operand], "from": [operand] }, ... ] } ] } ] }
//
//   operand   { "kind": "own", "buffer": "input", "plane": 0, "blocks": { "first": index, "stride": 1, "count": 1 } }
//             (a "run" of neighbours from each place on is left out where it is 1; or "blocks": { "list": [0, 3, 4] })
//             { "kind": "window", "rank": index, "buffer": ..., "plane": ..., "blocks": ... }
//             { "kind": "slot", "rank": index }                 also "channel": 1, where it is not 0
//   index     { "at": 3 }  or  { "plus": -1 }, (rank - 1) mod n  or  { "xor": 2 }
//   step      also "last": true, and "waits": [ { "rank": index, "lane": 0, "step": 0, "segments_back": 0 },
//                                               { "rank": index, "entered": true } ]
//   offers    of a group over several hosts also "across", as "inside" but between hosts, and "hosts": [0, 0, 1], the
//             number of each rank's host
//
// Version 2 brought "hears_first", "run" and most verbs; version 4 says "single_copy" for the offer that was "lends";
// version 5 has offers by kind of edge; version 6 has lists of blocks, and channels again. A key that is unknown,
// missing or of the wrong type is refused with its place. Whether the programs are any good is not asked here: that is
// the verifier's work.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/lower.h"

namespace tutti::schedule {

inline constexpr int kJsonVersion = 6;

// Throws Error(invalid_argument) unless `programs` is one program for each rank of one collective.
std::string to_json(std::span<const Lowered> programs);

// Throws Error(invalid_argument) naming the place, e.g. "programs[0].lanes[0].steps[2].op".
std::vector<Lowered> from_json(std::string_view text);

}  // namespace tutti::schedule
