#include "transport/memory/memory_transport.h"

#include <sched.h>
#include <unistd.h>

#include <bit>
#include <random>

#include "tutti/error.h"

namespace tutti::transport {
namespace {

constexpr std::chrono::milliseconds kDeathCheckInterval{10};
// A thread that copies looks again and again whether it should; one that does not end for so long is stopped.
constexpr std::chrono::seconds kLongestCopy{10};

ArenaShape shape_for(int ranks, const MemoryUse& use) {
  const Offers offers = memory_offers(ranks, use.several_hosts);
  ArenaShape shape;
  shape.ranks = ranks;
  shape.channels = use.channels;
  shape.credits = offers.inside.credits;
  shape.slot_bytes = offers.inside.slot_bytes;
  shape.scratch_bytes = offers.scratch_bytes;
  return shape;
}

void note_cores(ArenaHeader* header) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return;
  for (int core = 0; core < CPU_SETSIZE && core < kMaxRanks; ++core) {
    if (CPU_ISSET(core, &set))
      header->cores[core / 64].fetch_or(std::uint64_t{1} << (core % 64), std::memory_order_relaxed);
  }
}

int noted_cores(const ArenaHeader* header) {
  int cores = 0;
  for (const auto& word : header->cores) cores += std::popcount(word.load(std::memory_order_relaxed));
  return cores;
}

}  // namespace

MemoryTransport::MemoryTransport(std::unique_ptr<Mapper> mapper, const MemoryUse& use, const Deadline& deadline,
                                 const std::function<bool()>& hopeless)
    : mapper_(std::move(mapper)),
      rank_(mapper_->rank()),
      size_(mapper_->size()),
      shape_(shape_for(size_, use)),
      symmetric_(mapper_.get()) {
  if (size_ > kMaxRanks) {
    throw Error(ErrorCode::unsupported,
                "shared memory holds at most " + std::to_string(kMaxRanks) + " ranks of a host");
  }
  offers_ = memory_offers(size_, use.several_hosts);
  arena_ = mapper_->map_shared(shape_.bytes(), deadline);
  bells_ = std::make_shared<Bells>(*mapper_);
  const auto edges = static_cast<std::size_t>(use.channels) * static_cast<std::size_t>(size_);
  senders_.resize(edges);
  receivers_.resize(edges);
  meet(deadline, hopeless);
}

std::size_t MemoryTransport::arena_bytes(int ranks, const MemoryUse& use) { return shape_for(ranks, use).bytes(); }

MemoryTransport::~MemoryTransport() {
  if (arena_.base) presence(rank_)->departed.store(1, std::memory_order_release);
}

// Every rank notes its facts, then waits until all have: what is decided from them is decided alike.
void MemoryTransport::meet(const Deadline& deadline, const std::function<bool()>& hopeless) {
  note_cores(header());
  MemoryProbe& probe = presence(rank_)->probe;
  probe_word_ = std::random_device{}() | std::uint64_t{1} << 32;
  probe.process.store(static_cast<std::uint64_t>(::getpid()), std::memory_order_relaxed);
  probe.address.store(reinterpret_cast<std::uint64_t>(&probe_word_), std::memory_order_relaxed);
  probe.word.store(probe_word_, std::memory_order_relaxed);
  header()->arrived.fetch_add(1, std::memory_order_acq_rel);
  await(header()->arrived, deadline, hopeless);
  for (int peer = 0; peer < size_; ++peer) {
    if (reach_of(peer).can_read(presence(peer)->probe)) continue;
    header()->without_reach.fetch_add(1, std::memory_order_relaxed);
    break;
  }
  header()->tried.fetch_add(1, std::memory_order_acq_rel);
  await(header()->tried, deadline, hopeless);
  bells_->use_membarrier_if_all_can();
  offers_.inside.single_copy = header()->without_reach.load(std::memory_order_relaxed) == 0;
  oversubscribed_ = size_ > noted_cores(header());
}

// Until all ranks have counted themselves.
void MemoryTransport::await(const std::atomic<std::uint32_t>& count, const Deadline& deadline,
                            const std::function<bool()>& hopeless) {
  while (count.load(std::memory_order_acquire) < static_cast<std::uint32_t>(size_)) {
    if (deadline.passed()) {
      throw Error(ErrorCode::timeout, "shared memory: only " + std::to_string(count.load()) + " of " +
                                          std::to_string(size_) + " ranks arrived before the deadline");
    }
    if (const int dead = dead_peer(); dead >= 0) {
      // Whoever ended after an error has said first whom it blames: the first to end is the one to name.
      const auto verdict = given_verdict();
      const int first = verdict ? (verdict->blamed >= 0 ? verdict->blamed : verdict->rank) : dead;
      abort(first, ErrorCode::peer_lost);
      const int known = mapper_->known_as(first);
      throw Error(ErrorCode::peer_lost, "rank " + std::to_string(known) + " ended before the group was made", known);
    }
    if (hopeless && hopeless())
      throw Error(ErrorCode::peer_failed, "shared memory: one of the ranks has ended or given up elsewhere");
    ::sched_yield();
  }
}

Reach MemoryTransport::reach_of(int peer) const {
  return Reach(static_cast<pid_t>(presence(peer)->probe.process.load(std::memory_order_relaxed)), peer, &symmetric_,
               &header()->abort);
}

EdgeMemory MemoryTransport::edge(int channel, int from, int to) const {
  const std::size_t offset = shape_.edge_of(channel, from, to);
  const std::size_t headers = offset + sizeof(EdgeCounts);
  return {at<EdgeCounts>(offset), at<MessageHeader>(headers), at<std::byte>(headers + kHeaders * sizeof(MessageHeader)),
          shape_.payload_bytes()};
}

Sender& MemoryTransport::sender(int channel, int peer) {
  auto& sender = senders_[edge_index(channel, peer)];
  if (!sender) sender = std::make_unique<MemorySender>(edge(channel, rank_, peer), bells_.get(), bells_->bell_of(peer));
  return *sender;
}

Receiver& MemoryTransport::receiver(int channel, int peer) {
  auto& receiver = receivers_[edge_index(channel, peer)];
  if (!receiver)
    receiver = std::make_unique<MemoryReceiver>(edge(channel, peer, rank_), bells_.get(), bells_->bell_of(peer),
                                                reach_of(peer));
  return *receiver;
}

std::optional<Failure> MemoryTransport::given_verdict() const {
  const std::uint64_t word = header()->abort.load(std::memory_order_acquire);
  if (word == 0) return std::nullopt;
  const int blamed = static_cast<int>(word >> 32) - 2;
  const auto cause = static_cast<ErrorCode>(word >> 24 & 0xff);
  const int who = static_cast<int>(word & 0xffffff) - 1;
  return Failure{who, blamed, false, Loss::ended, cause, blamed >= 0 && departed(blamed)};
}

std::optional<Failure> MemoryTransport::failure() {
  if (const auto verdict = given_verdict()) return verdict;
  const auto now = Deadline::Clock::now().time_since_epoch();
  if (now.count() < next_death_check_.load(std::memory_order_relaxed)) return std::nullopt;
  next_death_check_.store((now + kDeathCheckInterval).count(), std::memory_order_relaxed);
  const int dead = dead_peer();
  if (dead < 0) return std::nullopt;
  // It may have ended because of another, and has said so first.
  const auto verdict = given_verdict();
  return verdict ? verdict : Failure{dead, -1, true};
}

// A rank that left in good order has done all that was asked of it, even if its process has ended since.
int MemoryTransport::dead_peer() {
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_ && mapper_->ended(peer) && !departed(peer)) return peer;
  }
  return -1;
}

void MemoryTransport::abort(int culprit, ErrorCode cause) {
  std::uint64_t none = 0;
  const std::uint64_t word = static_cast<std::uint64_t>(culprit + 2) << 32 | static_cast<std::uint64_t>(cause) << 24 |
                             static_cast<std::uint64_t>(rank_ + 1);
  presence(rank_)->gave_up.store(1, std::memory_order_relaxed);
  header()->abort.compare_exchange_strong(none, word, std::memory_order_seq_cst);  // the first to fail is the one named
  // Nothing that the caller does to its buffers may be seen before: peers look after they have loaded from them.
  std::atomic_thread_fence(std::memory_order_release);
  bells_->ring_all();
  await_copies();
}

bool MemoryTransport::is_thread_here(int peer) const {
  return presence(peer)->probe.process.load(std::memory_order_relaxed) == static_cast<std::uint64_t>(::getpid());
}

bool MemoryTransport::has_peer_in_process() const {
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_ && is_thread_here(peer)) return true;
  }
  return false;
}

// Another process that copies gets an error, or what it will not keep; a thread of this one would read freed memory.
void MemoryTransport::await_copies() const {
  const Deadline deadline = Deadline::after(kLongestCopy);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_ || !is_thread_here(peer)) continue;
    for (int channel = 0; channel < shape_.channels; ++channel) {
      const auto& copying = edge(channel, rank_, peer).counts->copying;
      while (copying.load(std::memory_order_seq_cst) != 0 && !deadline.passed()) ::sched_yield();
    }
  }
}

}  // namespace tutti::transport
