// How a fabric gets to know the other processes of the job, and takes leave of them.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/deadline.h"
#include "base/system_error.h"
#include "transport/ucx/fabric.h"
#include "transport/ucx/ucx.h"

namespace tutti::transport {
namespace {

// For what was sent to arrive where others are slow to read it.
constexpr std::chrono::milliseconds kLongestArrival{5000}, kLongestHurry{100}, kLongestClose{1000};
constexpr std::uint64_t kEnded = ~std::uint64_t{0};

// Whoever has UCX go on is left alone for as long.
constexpr std::chrono::milliseconds kPatience{2};
constexpr std::chrono::nanoseconds kAtOnce{1};  // for a timer, which takes 0 for never

// What happens at link_poll_ but for links, which are known by their rank.
constexpr std::uint32_t kWorkerTag = ~std::uint32_t{0}, kTimerTag = kWorkerTag - 1;

void add_to_poll(int poll, int descriptor, std::uint32_t events, std::uint32_t tag) {
  epoll_event event{};
  event.events = events;
  event.data.u32 = tag;
  if (::epoll_ctl(poll, EPOLL_CTL_ADD, descriptor, &event) != 0) throw_errno("epoll_ctl");
}

std::uint64_t random_key() {
  std::uint64_t key = 0;
  if (::getrandom(&key, sizeof key, 0) != sizeof key) throw_errno("getrandom");
  return key;
}

}  // namespace

UcxFabric::UcxFabric(const FabricJob& job, std::shared_ptr<Links> links, std::function<void()> elsewhere)
    : job_(job),
      worker_(*this, job.ranks),
      bell_(
          worker_.descriptor(), [this] { return settle(); }, std::move(elsewhere)),
      address_(worker_.address()),
      link_poll_(::epoll_create1(EPOLL_CLOEXEC)),
      timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)),
      links_(std::move(links)) {
  if (!link_poll_.valid()) throw_errno("epoll_create (too many open files?)");
  if (!timer_.valid()) throw_errno("timerfd_create (too many open files?)");
  add_to_poll(link_poll_.get(), timer_.get(), EPOLLIN | EPOLLET, kTimerTag);
  add_to_poll(link_poll_.get(), worker_.descriptor(), EPOLLIN | EPOLLONESHOT, kWorkerTag);
  for (int rank = 0; rank < job_.ranks; ++rank) {
    UcxPeer& made = *peers_.emplace_back(std::make_unique<UcxPeer>());
    made.listener = this;
    made.rank = rank;
    made.our_key = random_key();
  }
  Links::Hooks hooks;
  hooks.linked = [this](Links::Made made) { link(std::move(made)); };
  hooks.absent = [this](int rank, std::uint32_t) {
    const Turn turn(*this);
    peer(rank).breakage.note(0);
    happened_ = true;
  };
  hooks.leaves = [this](std::uint64_t group, const std::vector<Links::Member>& members) { leave(group, members); };
  hooks.look = [this] {
    const Turn turn(*this);
    for (const auto& each : peers_) {
      if (each->link.started()) each->link.flush();
    }
  };
  hooks.readable = link_poll_.get();
  hooks.happened = [this] { read_links(); };
  links_->attach(std::move(hooks));
  attend_in(kAtOnce);
  links_->arm();
}

UcxFabric::~UcxFabric() {
  links_->attach({});
  links_.reset();
  await_arrival();
  const Turn turn(*this);
  if (!close_endpoints()) worker_.abandon(std::move(parcels_));
}

bool UcxFabric::close_endpoints() {
  std::vector<ucp_ep_h> good, lost;
  for (const auto& each : peers_) {
    for (const auto& [group, streams] : each->groups) drop(*streams);
    if (each->endpoint == nullptr) continue;
    if (each->under_way > 0 || !(each->lost || each->settled)) return false;
    (each->lost ? lost : good).push_back(each->endpoint);
  }
  return worker_.close(good, lost, kLongestClose);
}

void UcxFabric::link(Links::Made made) {
  const Turn turn(*this);
  UcxPeer& other = peer(made.rank);
  if (made.channel != 0 || other.link.started()) return;  // one for all channels is enough
  other.wanted = true;
  other.link.start(std::move(made.socket), made.first);
  add_to_poll(link_poll_.get(), other.link.socket(), EPOLLIN | EPOLLRDHUP | EPOLLET,
              static_cast<std::uint32_t>(made.rank));
  other.link.say({LinkFrame::Kind::hello, 0, made.told, other.our_key}, address_);
  read(other);
  attend_in(kAtOnce);
}

void UcxFabric::read_links() {
  constexpr int kMostEvents = 64;
  std::array<epoll_event, kMostEvents> events;
  {
    const Turn turn(*this);
    int count = 0;
    do {
      count = ::epoll_wait(link_poll_.get(), events.data(), kMostEvents, 0);
      for (int i = 0; i < count; ++i) {
        const std::uint32_t tag = events[static_cast<std::size_t>(i)].data.u32;
        if (tag < peers_.size()) read(*peers_[tag]);
      }
    } while (count == kMostEvents);
    attend();
  }
  if (links_) links_->arm();
}

void UcxFabric::attend() {
  if (driven_ != seen_driven_) {
    seen_driven_ = driven_;
    return attend_in(kPatience);
  }
  for (int round = 0; round < kMostRounds && progress(); ++round) continue;
  if (!watch_worker()) attend_in(kAtOnce);
}

bool UcxFabric::watch_worker() {
  seen_driven_ = driven_;
  if (!worker_.arm()) return false;
  epoll_event event{};
  event.events = EPOLLIN | EPOLLONESHOT;
  event.data.u32 = kWorkerTag;
  ::epoll_ctl(link_poll_.get(), EPOLL_CTL_MOD, worker_.descriptor(), &event);
  return true;
}

void UcxFabric::arm() {
  const Turn turn(*this);
  progress();
  // Who sleeps drives nothing: attend() need not be patient.
  if (!watch_worker()) happened_ = true;
}

void UcxFabric::attend_in(std::chrono::nanoseconds time) {
  itimerspec once{};
  once.it_value.tv_nsec = time.count();
  ::timerfd_settime(timer_.get(), 0, &once, nullptr);
}

void UcxFabric::read(UcxPeer& peer) {
  while (const auto message = peer.link.next()) take(peer, *message);
  happened_ = true;
  if (!peer.link.ended()) return;
  peer.breakage.note(peer.link.number());
  for (auto each = peer.groups.begin(); each != peer.groups.end();) {
    if (each->second->state == UcxStreams::State::left) {
      each = peer.groups.erase(each);
    } else {
      ++each;
    }
  }
}

void UcxFabric::take(UcxPeer& peer, const UcxLink::Message& message) {
  switch (message.frame.kind) {
    case LinkFrame::Kind::hello: greet(peer, message); break;
    case LinkFrame::Kind::bye: hear_bye(peer, message); break;
    case LinkFrame::Kind::end:
      peer.last_sent = message.frame.first;
      confirm(peer);
      break;
    case LinkFrame::Kind::arrived: peer.confirmed = true; break;
  }
}

void UcxFabric::greet(UcxPeer& peer, const UcxLink::Message& hello) {
  if (std::exchange(peer.opened, true)) return;
  peer.told = hello.frame.first;
  peer.their_key = hello.frame.second;
  peer.endpoint = worker_.connect(hello.body, peer);
  if (peer.endpoint == nullptr) return peer.breakage.note(EHOSTUNREACH);
  for (Parcel* const parcel : std::exchange(peer.early, {})) give(peer, *parcel);
  // What has come already may have overtaken the hello.
  for (const auto& [group, streams] : peer.groups) {
    for (UcxStream& stream : streams->channels) tell_taken(stream);
  }
  confirm(peer);
}

void UcxFabric::hear_bye(UcxPeer& peer, const UcxLink::Message& bye) {
  UcxStreams& streams = streams_of(peer, bye.frame.first);
  if (bye.body.size() != streams.channels.size() * sizeof(std::uint32_t)) return peer.breakage.note(EPROTO);
  streams.bye = true;
  streams.last_sent.resize(streams.channels.size());
  std::memcpy(streams.last_sent.data(), bye.body.data(), bye.body.size());
  if (streams.state == UcxStreams::State::left && streams.have_all_come()) peer.groups.erase(bye.frame.first);
}

void UcxFabric::confirm(UcxPeer& peer) {
  if (!peer.last_sent || peer.arrivals < *peer.last_sent) return;
  if (!peer.settled) return start_flush(peer);
  peer.last_sent.reset();
  peer.link.say({LinkFrame::Kind::arrived});
}

void UcxFabric::leave(std::uint64_t group, std::span<const Links::Member> members) {
  const Turn turn(*this);
  for (const Links::Member& member : members) {
    UcxPeer& other = peer(member.rank);
    if (!other.wanted) continue;
    const bool bye_comes =
        member.left_at != kEnded && (member.left_at == 0 || !other.opened || other.told < member.left_at);
    UcxStreams& streams = streams_of(other, group);
    std::vector<std::uint32_t> sent;
    for (const UcxStream& stream : streams.channels) sent.push_back(stream.sent);
    streams.state = UcxStreams::State::left;
    drop(streams);
    if (streams.bye ? streams.have_all_come() : !bye_comes) other.groups.erase(group);
    if (other.link.started()) other.link.say({LinkFrame::Kind::bye, 0, group}, std::as_bytes(std::span(sent)));
  }
}

bool UcxFabric::is_drained(const UcxStream& stream, std::uint64_t left_at) {
  const Turn turn(*this);
  const UcxPeer& from = *stream.peer;
  // Who ends waits until all that it sent has arrived.
  if (from.link.started() ? from.link.ended() : from.breakage.noted()) return true;
  const UcxStreams& streams = streams_of(*stream.peer, stream.group);
  return streams.has_come(stream.channel) || (from.opened && left_at != kEnded && from.told >= left_at);
}

bool UcxFabric::is_done_with(UcxPeer& peer) {
  if (!peer.link.started() || peer.link.ended() || peer.breakage.noted()) return true;
  if (!peer.settled) start_flush(peer);
  return peer.settled && peer.confirmed && peer.under_way == 0;
}

void UcxFabric::await_arrival() {
  const Deadline until = Deadline::after(hurries_ ? kLongestHurry : kLongestArrival);
  for (const auto& each : peers_) {
    if (each->link.started()) each->link.say({LinkFrame::Kind::end, 0, each->sent});
  }
  for (;;) {
    bool armed = false;
    read_links();
    {
      const Turn turn(*this);
      for (const auto& each : peers_) {
        if (each->link.started()) each->link.flush();
      }
      const auto is_done = [this](const auto& each) { return is_done_with(*each); };
      if (std::count_if(peers_.begin(), peers_.end(), is_done) == job_.ranks || until.passed()) return;
      progress();
      armed = worker_.arm();
    }
    std::array<pollfd, 2> entries{pollfd{link_poll_.get(), POLLIN, 0}, pollfd{worker_.descriptor(), POLLIN, 0}};
    if (armed) ::poll(entries.data(), entries.size(), 10);
  }
}

std::shared_ptr<Fabric> make_ucx_fabric(const FabricJob& job, std::shared_ptr<Links> links,
                                        std::function<void()> elsewhere) {
  return std::make_shared<UcxFabric>(job, std::move(links), std::move(elsewhere));
}

}  // namespace tutti::transport
