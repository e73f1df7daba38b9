// Ranks that all do the same, each as seen from its own place: one of them stands for all.
//
// Where every rank has the same text, and ranks and blocks in it are written relative to the rank, turning the group by
// one place turns every program into its neighbour's. So what rank 0 can do in a state that looks the same from every
// place, all ranks can do, and after they have the state looks the same again: in the one maximal run that decides a
// program (verify.h) all ranks can move together. The proof runs rank 0 alone; what it receives from rank -d is what
// it sent to rank d itself, turned by -d. Values are trees that know by how much they are turned, so that turning one
// costs nothing, and a ring of 10,000 ranks takes as long as one of its ranks has steps.
//
// This holds for programs that
//   - are of verbs without a root or an order among the ranks, on one host;
//   - have one lane, which waits for nothing but messages and credits, and no windows: memory is the rank's own, so
//     that there are no races;
//   - name ranks by `plus`, and blocks by `plus`, one for each rank; messages are copied when they are sent;
//   - name the same blocks wherever blocks of a vector have to be of the same size.
// Of others it says so, and nothing else.
#pragma once

#include <optional>
#include <string>

#include "schedule/readers/verify.h"

namespace tutti::schedule {

// Why ranks with this text cannot be verified by one of them, or empty.
std::string why_not_rotation(const Lowered& program);

// The report on all ranks, given that each has the text of `first`, which is rank 0's; without edge_bytes. Nothing
// where one rank does not decide it: then verify() does.
std::optional<VerifyReport> verify_rotation(const Lowered& first, const VerifyOptions& options);

// The same as verify_calls() has it.
std::optional<VerifyReport> verify_calls_by_rotation(const Lowered& first, bool in_place);

}  // namespace tutti::schedule
