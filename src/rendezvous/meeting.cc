#include "rendezvous/meeting.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <numeric>

#include "base/system_error.h"
#include "base/thread.h"
#include "rendezvous/address.h"
#include "rendezvous/epoll_network.h"
#include "rendezvous/host.h"
#include "rendezvous/joiner.h"
#include "rendezvous/lobby_server.h"
#include "rendezvous/watch_thread.h"
#include "topology/discover/core_place.h"

namespace tutti::rendezvous {
namespace {

constexpr std::size_t kSpareDescriptors = 128;  // strangers at the gate and the lobby, and what else the process opens
// How long a rank that keeps the lobby stays after a failure, for those who have not come yet: ranks of one job are
// often seconds apart, and who comes to a closed lobby waits out its whole timeout for nothing.
constexpr Time kStay = std::chrono::seconds(3);
constexpr Time kLastWords = std::chrono::milliseconds(500);  // until what this rank has said is out

constexpr Time kPatience = std::chrono::seconds(5);
constexpr std::chrono::milliseconds kPause{100};

void check(const MeetingOptions& options) {
  const auto refuse = [](const std::string& why) { throw Error(ErrorCode::invalid_argument, why); };
  const std::string rank = std::to_string(options.rank), size = std::to_string(options.size);
  if (options.size < 1 || options.size >= 1 << Statement::kRankBits)
    refuse("a job of " + size + " ranks is impossible");
  if (options.rank < 0 || options.rank >= options.size)
    refuse("rank " + rank + " is out of range: the job has " + size + " ranks, numbered from 0");
  if (options.channels < 1) refuse("a pair of ranks needs at least one channel");
  if (options.size == 1) return;
  if (options.lobby.empty())
    refuse("rank " + rank + " does not know where to meet the others; set TUTTI_RENDEZVOUS=host:port");
  if (!parse(options.lobby)) {
    refuse("the rendezvous '" + options.lobby + "' is neither host:port, [v6]:port nor unix:@name; correct " +
           "TUTTI_RENDEZVOUS");
  }
  if (!options.token && !is_unix(options.lobby)) {
    refuse("meeting at " + options.lobby + " needs a token, or anybody on the network could join; make one with " +
           "`tutti token` and set TUTTI_TOKEN_FILE on every host");
  }
}

Endpoint random_unix_endpoint(Network& network) {
  std::array<std::byte, Token::kBytes> bytes{};
  network.random(bytes);
  return "unix:@tutti-" + Token::from_bytes(bytes).hex().substr(0, 32);
}

Verdict verdict_of(const Error& error, int rank) {
  return {error.code(), rank, "rank " + std::to_string(rank) + ": " + error.what()};
}

// The meeting of one rank, from its first socket to its last link.
class Meeting {
 public:
  explicit Meeting(const MeetingOptions& options) : options_(options), network_(std::make_unique<EpollNetwork>()) {
    try_descriptors(kSpareDescriptors, 0);  // what is still needed beside these, and cannot be had, is told later
    if (options_.keep_lobby) {
      server_ = open_lobby();
      network_->on_attended([this](int) { server_->progress(); });
      network_->attend(server_->descriptor(), false);
      if (options_.publish) options_.publish(server_->endpoint());
    }
    // Where port 0 was asked for, the lobby has another one now.
    const Endpoint lobby = server_ ? server_->endpoint() : options_.lobby;
    JoinerOptions joining;
    joining.rank = options_.rank;
    joining.job = options_.job;
    joining.lobby = lobby;
    joining.token = options_.token;
    joining.deadline = EpollNetwork::at(options_.deadline);
    joining.join = {options_.size, options_.wanted, options_.channels, this_member(lobby), options_.settings};
    joining.check = [this](const Roster& roster) { return prepare(roster); };
    joining.make_room = [this] { return make_room(); };
    joining.refuge = options_.refuge;
    joiner_ = std::make_unique<Joiner>(*network_, std::move(joining), EpollNetwork::now());
  }

  Met run() {
    while (!joiner_->over()) {
      network_->poll(*joiner_, kNever);
      if (network_->take_exhausted() && !joiner_->make_room())
        joiner_->fail(verdict_of(Error(ErrorCode::system, descriptors_in_words()), options_.rank), EpollNetwork::now());
    }
    const bool met = joiner_->state() == Joiner::State::done;
    // Whoever watches this rank later, because others have left, finds it there.
    network_->stop_listening(met ? own_member().endpoint : Endpoint());
    finish_lobby();
    if (!met) joiner_->verdict().raise();
    return result();
  }

 private:
  std::unique_ptr<LobbyServer> open_lobby() const {
    const auto open_at = [this](const Endpoint& at) {
      return std::make_unique<LobbyServer>(at, options_.size, options_.job, options_.token, options_.deadline,
                                           options_.log, options_.rank);
    };
    try {
      return open_at(options_.lobby);
    } catch (const Error&) {
      const Endpoint refuge = options_.refuge && is_squatted(options_.lobby) ? options_.refuge(true) : "";
      if (refuge.empty()) throw;
      options_.log.warn("another user of this host holds the name " + options_.lobby +
                        " of this job's meeting place; its ranks meet elsewhere");
      return open_at(refuge);
    }
  }

  // Strangers, here and at the lobby that this rank keeps.
  bool make_room() {
    const bool closing = network_->drop_closing();
    return (server_ && server_->make_room()) || closing;
  }

  Member this_member(const Endpoint& lobby) {
    Member member;
    member.host = host_name();
    member.host_id = host_id();
    if (!options_.hostid.empty()) {
      member.host_id = on_part_of_host(member.host_id, options_.hostid);
      member.host += "/" + options_.hostid;
    }
    if (const std::string why = why_no_memory(); !why.empty()) {
      member.host_id = alone_on_host(member.host_id, options_.rank, why);
    }
    member.pid = ::getpid();
    member.cores = allowed_cores();
    const topology::CorePlace place = topology::place_of_cores(member.cores);
    member.package = place.package;
    member.cache = place.cache;
    if (host_memory_of(options_.wanted) != HostMemory::never)
      member.memory = network_->listen(random_unix_endpoint(*network_));
    if (options_.wanted != TransportKind::shm) member.endpoint = listen_for_peers(lobby);
    return member;
  }

  // The name of the lobby's host, or the way there, may come up a little later than this rank.
  Endpoint listen_for_peers(const Endpoint& lobby) {
    const Time until = std::min(EpollNetwork::now() + kPatience, EpollNetwork::at(options_.deadline));
    for (;;) {
      try {
        return network_->listen(endpoint_of(own_address(options_.interface, lobby, options_.deadline), 0));
      } catch (const Error& error) {
        // An attempt that has no time left would only say so.
        if (error.code() != ErrorCode::system || EpollNetwork::now() + kPause >= until) throw;
        ::poll(nullptr, 0, static_cast<int>(kPause.count()));
      }
    }
  }

  // Everything that can fail for reasons of this host is done before this rank says that it is ready.
  std::optional<Verdict> prepare(const Roster& roster) {
    try {
      const std::vector<int> near = memory_ranks(roster, options_.rank);
      const std::vector<Link> links = links_of(roster, options_.rank);
      // Who waits at a gate is no reason to go without a link: it is sent away when the descriptor is needed.
      const std::size_t strangers = network_->connections() + (server_ ? server_->strangers() : 0);
      allow_descriptors(links.size() + near.size() + kSpareDescriptors, strangers);
      // Data links come when they are wanted, and mostly few of them; where all cannot be had, those few may do.
      const std::size_t far = roster.members.size() - near.size();
      try_descriptors(far * static_cast<std::size_t>(options_.channels) + near.size() + kSpareDescriptors, strangers);
      const auto is_control = [](const Link& link) { return link.purpose == Purpose::control; };
      if (std::any_of(links.begin(), links.end(), is_control)) {
        watcher_ = std::make_unique<StandbyThread>("to watch the other ranks");
      }
      for (const int rank : near) {
        const int pid = roster.members[static_cast<std::size_t>(rank)].pid;
        life_.push_back(rank == options_.rank ? FileDescriptor() : watch_process(pid));
        if (rank != options_.rank && !life_.back().valid()) {
          const Member& member = roster.members[static_cast<std::size_t>(rank)];
          return Verdict{ErrorCode::peer_lost, rank, in_words(rank, member) + " ended in the meeting"};
        }
      }
    } catch (const Error& error) {
      return verdict_of(error, options_.rank);
    }
    return std::nullopt;
  }

  // The lobby's last words have to get out before this rank goes on or gives up.
  void finish_lobby() {
    const Time now = EpollNetwork::now();
    const auto poll_while = [this](Time until, auto&& needed) {
      while (EpollNetwork::now() < until && needed()) network_->poll(*joiner_, until);
    };
    poll_while(now + kStay, [this] { return server_ && !server_->done(); });
    poll_while(now + kLastWords, [this] { return !network_->flushed(); });
    if (server_) network_->ignore(server_->descriptor());
    network_->on_attended({});
    server_.reset();
  }

  Met result() {
    network_->drop_closing();  // nobody who was sent away has a part in what follows
    if (!joiner_->refusals().empty()) options_.log.warn("in the meeting, " + joiner_->refusals());
    Met met;
    met.rank = options_.rank;
    met.size = options_.size;
    met.members = joiner_->roster().members;
    met.memory_ranks = memory_ranks(joiner_->roster(), options_.rank);
    met.memory_sockets.resize(met.memory_ranks.front() == options_.rank ? met.memory_ranks.size() : 1);
    met.life = std::move(life_);
    Watch::Options watch{options_.rank, options_.size, options_.silence, {}, options_.suspicion};
    for (const auto& [link, connection] : joiner_->links()) {
      if (link.purpose == Purpose::control) {
        network_->make_control(connection, options_.silence);
        watch.links.emplace_back(link.peer, connection);
      } else {
        place_memory(met, link.peer, network_->release(connection));
      }
    }
    met.silence = options_.silence;
    watch.linking = linking();
    if (!watch.links.empty()) make_control(watch, met);
    return met;
  }

  void make_control(const Watch::Options& watch, Met& met) {
    std::vector<std::string> names;
    for (const Member& member : met.members) names.push_back(in_words(static_cast<int>(names.size()), member));
    std::vector<int> everybody(met.members.size());
    std::iota(everybody.begin(), everybody.end(), 0);
    const auto thread = std::make_shared<WatchThread>(std::move(network_), watch, joiner_->take_gate(),
                                                      std::move(watcher_), options_.log, std::move(names));
    met.control = thread->enter(kEverybody, std::move(everybody));
    met.links = thread;
    met.plane = thread;
  }

  const Member& own_member() const { return joiner_->roster().members[static_cast<std::size_t>(options_.rank)]; }

  LinkOptions linking() const {
    const Roster& roster = joiner_->roster();
    const std::optional<Token>& token = roster.session ? roster.session : options_.token;
    std::vector<Endpoint> endpoints;
    for (const Member& member : roster.members) endpoints.push_back(member.endpoint);
    return {token.value_or(Token::zero()), job_hash(options_.job),
            [endpoints = std::move(endpoints)](int rank) { return endpoints[static_cast<std::size_t>(rank)]; },
            static_cast<std::uint32_t>(options_.channels)};
  }

  static void place_memory(Met& met, int peer, FileDescriptor socket) {
    const int flags = ::fcntl(socket.get(), F_GETFL);
    if (flags < 0 || ::fcntl(socket.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) throw_errno("fcntl");
    const bool first = met.memory_ranks.front() == met.rank;
    const auto found = std::find(met.memory_ranks.begin(), met.memory_ranks.end(), peer);
    met.memory_sockets[first ? static_cast<std::size_t>(found - met.memory_ranks.begin()) : 0] = std::move(socket);
  }

  const MeetingOptions& options_;
  std::unique_ptr<EpollNetwork> network_;
  std::unique_ptr<LobbyServer> server_;
  std::unique_ptr<Joiner> joiner_;
  std::vector<FileDescriptor> life_;
  std::unique_ptr<StandbyThread> watcher_;  // that becomes the control plane's
};

Met meet_alone(const MeetingOptions& options) {
  Met met;
  met.silence = options.silence;
  met.members = {{host_name(), host_id(), "", "", ::getpid()}};
  met.memory_ranks = {0};
  met.memory_sockets.resize(1);
  met.life.resize(1);
  return met;
}

}  // namespace

Met meet(const MeetingOptions& options) {
  check(options);
  if (options.size == 1) return meet_alone(options);
  return Meeting(options).run();
}

}  // namespace tutti::rendezvous
