// How the ranks of a group came together, kept for the groups that will be made of them. A value.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "base/control.h"
#include "base/hosts.h"
#include "base/log.h"
#include "choice/size_table.h"
#include "engine/execute/call_part.h"
#include "engine/schedule_files.h"
#include "engine/tracing/tracer.h"
#include "rendezvous/roster.h"
#include "runtime/progress_thread.h"
#include "transport/memory/mapper.h"

namespace tutti::transport {
class Fabric;
}

namespace tutti::engine {

// What the ranks of a job have between their processes where they do not all share memory.
struct Linked {
  std::shared_ptr<ControlPlane> plane;
  std::shared_ptr<transport::Fabric> fabric;
  std::vector<rendezvous::Member> members;  // of the job, by rank
  Hosts hosts;                              // of the job
  bool mixed = false;                       // ranks of a host share memory
  int parts = 1;                            // of large calls, each by a thread of its own
  int rank = 0;                             // of the job
};

struct Origin {
  // Of the ranks that share memory with this one, itself included; nullptr where it was alone from the beginning.
  std::shared_ptr<transport::Regrouping> memory;
  std::vector<int> memory_ranks;  // ascending
  // Where not all ranks of the group do.
  std::shared_ptr<Linked> linked = nullptr;
  std::vector<int> job_ranks = {};       // by those of the group; empty where they are the same
  int job_size = 0;                      // 0: that of the group
  std::chrono::milliseconds silence{0};  // after which a rank is lost, where they watch each other
  Log log = {};
  // Shared by all groups that were made of one: their costs are the same, and so is the rank's process.
  std::shared_ptr<choice::SizeTables> size_tables = std::make_shared<choice::SizeTables>();
  // Those that the caller brought, for all groups whose number of ranks is theirs.
  std::shared_ptr<const ScheduleFiles> schedules = std::make_shared<const ScheduleFiles>();
  std::shared_ptr<runtime::ProgressThreads> threads = std::make_shared<runtime::ProgressThreads>();
  std::shared_ptr<const PartThreads> part_threads = std::make_shared<const PartThreads>(make_part_threads());
  std::shared_ptr<Tracer> tracer = std::make_shared<Tracer>();
  std::uint64_t number = 0;  // of the group, alike on all its ranks; 0: the one that all were made of
  // That this rank was the first of.
  std::shared_ptr<std::atomic<std::uint64_t>> groups = std::make_shared<std::atomic<std::uint64_t>>(0);

  int job_rank(int rank) const { return job_ranks.empty() ? rank : job_ranks[static_cast<std::size_t>(rank)]; }
  // The number by which the memory knows a rank of the group, or -1.
  int number_in_memory(int rank) const {
    const auto found = std::lower_bound(memory_ranks.begin(), memory_ranks.end(), rank);
    return found == memory_ranks.end() || *found != rank ? -1 : static_cast<int>(found - memory_ranks.begin());
  }
};

}  // namespace tutti::engine
