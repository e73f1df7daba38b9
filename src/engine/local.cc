#include "tutti/local.h"

#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

#include "base/thread.h"
#include "engine/factory.h"
#include "rendezvous/forked_group.h"
#include "rendezvous/lobby_server.h"
#include "rendezvous/meeting.h"

namespace tutti {
namespace {

void require_ranks(int ranks) {
  if (ranks < 1)
    throw Error(ErrorCode::invalid_argument, "a group needs at least one rank, not " + std::to_string(ranks));
}

using MakeEngine = std::function<std::unique_ptr<engine::Engine>()>;

RankEnd run_rank(const MakeEngine& make, const RankFunction& function) {
  RankEnd end;
  try {
    Communicator communicator(make());
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

// Where a local group meets that does not share memory: a name that no other group of this machine uses.
std::string new_meeting_place() {
  static std::atomic<unsigned> groups{0};
  return "unix:@tutti-local-" + std::to_string(::getpid()) + "-" + std::to_string(groups.fetch_add(1)) + "-" +
         rendezvous::Token::random().hex().substr(0, 16);
}

std::unique_ptr<engine::Engine> meet_locally(int rank, int ranks, const std::string& place, bool keep_lobby,
                                             const Options& options) {
  rendezvous::MeetingOptions meeting;
  meeting.rank = rank;
  meeting.size = ranks;
  meeting.job = meeting.lobby = place;
  meeting.keep_lobby = keep_lobby;
  meeting.wanted = options.transport;
  meeting.settings = engine::settings(options);
  meeting.channels = engine::Engine::kDataLinks;
  meeting.deadline = Deadline::after(options.timeout);
  return engine::make_engine(rendezvous::meet(meeting), options, {}, Deadline::after(options.timeout));
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
  engine::require_options(options);
  const bool linked = host_memory_of(options.transport) != HostMemory::always;
  const std::string place = linked ? new_meeting_place() : "";
  auto mappers = engine::make_threads_group(ranks);
  std::vector<RankEnd> ends(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  std::promise<bool> all_there;  // ranks wait for each other: either all of them run or none does
  const std::shared_future<bool> go = all_there.get_future();
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    const MakeEngine make = [&, rank] {
      if (linked) return meet_locally(static_cast<int>(rank), ranks, place, rank == 0, options);
      return engine::make_engine(std::move(mappers[rank]), options, Deadline::after(options.timeout));
    };
    const auto body = [&ends, &function, make, rank, go] {
      if (go.get()) ends[rank] = run_rank(make, function);
    };
    try {
      threads.push_back(make_thread("for rank " + std::to_string(rank), body));
    } catch (const Error&) {
      all_there.set_value(false);
      for (std::thread& thread : threads) thread.join();
      throw;
    }
  }
  all_there.set_value(true);
  for (std::thread& thread : threads) thread.join();
  return ends;
}

std::vector<RankEnd> run_processes(int ranks, const RankFunction& function, const Options& options, bool pin) {
  require_ranks(ranks);
  // This process keeps the lobby, because it knows when a rank ends before it has come there.
  const std::string place = new_meeting_place();
  rendezvous::LobbyServer lobby(place, ranks, place, std::nullopt, Deadline(), Log());
  rendezvous::ForkedGroup group(ranks, [&](int rank) {
    if (pin) pin_to_core(rank);
    Communicator communicator(meet_locally(rank, ranks, place, false, options));
    function(communicator);
  });
  rendezvous::Meanwhile meanwhile{lobby.descriptor(), [&] { lobby.progress(); }, {}};
  meanwhile.ended = [&](int rank, const rendezvous::ChildEnd& end) {
    if (!end.ok()) lobby.note_death(rank, rendezvous::in_words(end));
  };
  std::vector<RankEnd> ends;
  for (rendezvous::ChildEnd& end : group.wait(meanwhile)) {
    ends.push_back({end.exit_code, end.signal, std::move(end.message)});
  }
  return ends;
}

}  // namespace tutti
