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

rendezvous::Wanted wanted(TransportKind transport);
// What all ranks must have alike besides, in the form in which the meeting compares it.
std::vector<std::string> settings(const Options& options);

// Collective over the ranks of the group. `parent`: the group they were in, whose costs they take over, or nullptr.
std::unique_ptr<Engine> make_engine(rendezvous::Met met, const Options& options, const Log& log,
                                    const Deadline& deadline, const Engine* parent = nullptr);
std::unique_ptr<Engine> make_engine(std::unique_ptr<transport::Mapper> mapper, const Options& options,
                                    const Deadline& deadline);
// Whether these ranks of `parent` can be a group without meeting: they share memory, or no ranks of `parent` do, and
// are linked. All of them come to the same.
bool need_not_meet(const Engine& parent, const std::vector<int>& members);
// Of such ranks, in this order. The first of them has made the place.
std::unique_ptr<Engine> make_engine(const Engine& parent, const std::vector<int>& members, std::uint64_t place,
                                    const Deadline& deadline, const std::function<bool()>& hopeless);
// For the first of them: where in their memory they come together, or the number by which their processes know the
// group.
std::uint64_t make_place(const Engine& parent, int size);

}  // namespace tutti::engine
