// Where engines are made from transports: the one place that names them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/engine.h"
#include "rendezvous/meeting.h"
#include "transport/memory/mapper.h"

namespace tutti::engine {

// One mapper per rank; each is to be given to make_engine on its own thread.
std::vector<std::unique_ptr<transport::Mapper>> make_threads_group(int ranks);

// Throws Error(unsupported), in a sentence, where there is no such transport here, and Error(invalid_argument) where
// there can be none, or not as many threads: said before ranks meet.
void require_options(const Options& options);
// What all ranks must have alike besides, in the form in which the meeting compares it.
std::vector<std::string> settings(const Options& options);

// Collective over the ranks of the group.
std::unique_ptr<Engine> make_engine(rendezvous::Met met, const Options& options, const Log& log,
                                    const Deadline& deadline);
std::unique_ptr<Engine> make_engine(std::unique_ptr<transport::Mapper> mapper, const Options& options,
                                    const Deadline& deadline);
// How the members of a new group find each other. A record without pointers.
struct GroupPlace {
  std::uint64_t number = 0;  // by which their processes know it
  std::uint64_t memory = 0;  // where in the memory of their host
};

// For the new group of these ranks of `parent`, as far as it is for this rank to make it: the first one makes the
// number, and the first of those that share memory their place in it. Nothing otherwise.
GroupPlace make_place(const Engine& parent, const std::vector<int>& members);
// The first of the members that shares memory with this rank, which may be this rank; it is one of them.
int first_in_memory(const Engine& parent, const std::vector<int>& members);
// The new group, in this order. Waits only for those that share memory with this rank.
std::unique_ptr<Engine> make_engine(const Engine& parent, const std::vector<int>& members, const GroupPlace& place,
                                    const Deadline& deadline, const std::function<bool()>& hopeless);

}  // namespace tutti::engine
