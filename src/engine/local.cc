#include "tutti/local.h"

#include <sched.h>

#include <thread>

#include "engine/factory.h"
#include "rendezvous/forked_group.h"

namespace tutti {
namespace {

void require_ranks(int ranks) {
  if (ranks < 1)
    throw Error(ErrorCode::invalid_argument, "a group needs at least one rank, not " + std::to_string(ranks));
}

RankEnd run_rank(std::unique_ptr<transport::Mapper> mapper, const RankFunction& function, const Options& options) {
  RankEnd end;
  try {
    Communicator communicator(engine::make_engine(std::move(mapper), options));
    function(communicator);
  } catch (const std::exception& error) {
    end.exit_code = 1;
    end.message = error.what();
  } catch (...) {
    end.exit_code = 1;
    end.message = "an exception of unknown type";
  }
  return end;
}

void pin_to_core(int rank) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) == 0) return;
  int skip = rank % CPU_COUNT(&allowed);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed) || skip-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ::sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

}  // namespace

std::vector<RankEnd> run_threads(int ranks, const RankFunction& function, const Options& options) {
  require_ranks(ranks);
  auto mappers = engine::make_threads_group(ranks);
  std::vector<RankEnd> ends(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    threads.emplace_back([&, rank] { ends[rank] = run_rank(std::move(mappers[rank]), function, options); });
  }
  for (std::thread& thread : threads) thread.join();
  return ends;
}

std::vector<RankEnd> run_processes(int ranks, const RankFunction& function, const Options& options, bool pin) {
  require_ranks(ranks);
  rendezvous::ForkedGroup group(ranks, [&](rendezvous::GroupLinks links) {
    if (pin) pin_to_core(links.rank);
    const FileDescriptor own_life = std::move(links.own_life);
    transport::ShmLinks shm{links.rank, links.size, std::move(links.sockets), std::move(links.life)};
    Communicator communicator(engine::make_engine(engine::make_shm_member(std::move(shm)), options));
    function(communicator);
  });
  std::vector<RankEnd> ends;
  for (rendezvous::ChildEnd& end : group.wait()) ends.push_back({end.exit_code, end.signal, std::move(end.message)});
  return ends;
}

}  // namespace tutti
