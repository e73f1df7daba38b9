// What the player of the page plays: a collective round by round, as JSON. Pure.
//
//   { "version": 1, "kind": "schedule", "verb": "all_reduce", "algorithm": "ring", "ranks": 4, "root": 0, "blocks": 4,
//     "bytes": 1048576, "block_bytes": 262144, "hosts": [0, 0, 0, 0], "rounds_per_frame": 1,
//     "proof": { "verified": true, "canonical": false, "problems": [ { "kind", "message", "story": [line] } ] },
//     "words": [["copy  →rank+", "  <-  input[rank]"]],
//     "texts": [[0, 1]],                  of steps, each once: the number of its words, and the numbers between these
//     "programs": [ { "ranks": "0-3", "lanes": [ { "name": "ring", "steps": [text, ...] } ] } ],
//     "sets": ["", "0", "1", "0-1"],       ranks whose input went into a block; 0 is nothing yet; all others name a set
//     "places": ["input", "output", "scratch 0"],
//     "start": [[1, 1]], "wanted": [[3, 3]],                    by rank and block: its input, and its output in the end
//     "frames": [ { "ops": ["copy"],
//                   "fired": [rank, ranks, lane, ...],         the next step of this lane of so many ranks from there
//                   "moves": [[kind, from, to, block, ...]],    kind 0 message, 1 load, 2 store; the way the data goes
//                   "writes": [rank, place, block, set, ...],   what memory holds now that it did not hold before
//                   "taken": [rank, index, ...],     of the messages that had come to a rank, the oldest first: the one
//                                                     at this index goes, and those behind it move up
//                   "come": [[channel, set, ...]] } ],    of each move that is a message, in their order: what it holds
//     "stuck": ["rank 2 waits at ring.3"] }
//
// The rows of writes and taken are packed (packed.h).
//
// More ranks than are drawn one by one come in groups of neighbours, and blocks as well; then, instead of what is said
// of places, sets, writes, taken and come,
//
//     "groups": { "ranks": 4, "blocks": 4 },                    so many of each in a group, the last may have fewer
//     "start": [[[12, 0]]],      by group: parts in a hundred of what is wanted that is there, and that are complete
//     "frames": [ { "moves": [[kind, from, to, blocks]],                                      of all between two groups
//                   "cells": [group, group of blocks, share, complete, ...] } ]
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>

#include "schedule/lower.h"

namespace tutti::view {

using Json = nlohmann::ordered_json;

inline constexpr int kViewVersion = 1;
inline constexpr int kMostDrawn = 64;    // ranks, or blocks, one by one
inline constexpr int kMostPlayed = 512;  // ranks in all
inline constexpr int kMostFrames = 96;   // of groups: where there are more rounds, a frame has several

// `bytes`: of the vector, or of all chunks together. Programs that do not hold are played as far as they go, and their
// story is told; those that name what does not exist have no frames. Throws Error(invalid_argument) where there are too
// many ranks.
Json played_json(std::span<const schedule::Lowered> programs, std::uint64_t bytes);

}  // namespace tutti::view
