#include "transport/tcp/tcp_transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>

#include "base/system_error.h"

namespace tutti::transport {
namespace {

constexpr std::size_t kSlotBytes = 256 << 10;
constexpr std::size_t kScratchBytes = 4 << 20;

// A peer whose connection broke has mostly ended or left; the control plane knows which, and has this long to say so.
constexpr std::chrono::milliseconds kGrace{500};

// Zeroed; pages that are never touched cost nothing.
std::shared_ptr<void> map_private(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw_errno("mapping " + std::to_string(bytes) + " bytes");
  return {memory, [bytes](void* mapped) { ::munmap(mapped, bytes); }};
}

// A socket that is closed with unread bytes resets its connection, and with it what the peer has still to read.
void discard_unread(int socket) {
  constexpr int kMostRounds = 256;
  std::byte unread[64 << 10];
  for (int round = 0; round < kMostRounds; ++round) {
    if (::recv(socket, unread, sizeof unread, MSG_DONTWAIT) <= 0) return;
  }
}

Offers offers_of_streams() {
  Offers offers;
  offers.inside.credits = 1;
  offers.inside.slot_bytes = kSlotBytes;
  offers.scratch_bytes = kScratchBytes;
  return offers;
}

}  // namespace

TcpTransport::TcpTransport(TcpLinks links, std::unique_ptr<Control> control, TcpOptions options)
    : links_(std::move(links)),
      options_(std::move(options)),
      offers_(offers_of_streams()),
      bell_(options_.bell ? options_.bell : std::make_shared<SocketBell>()),
      scratch_(map_private(static_cast<std::size_t>(options_.channels) * kScratchBytes)),
      flags_(std::make_unique<Flags[]>(index_of(options_.channels, 0))),
      wires_(std::make_unique<Wire[]>(index_of(options_.channels, 0))),
      senders_(index_of(options_.channels, 0)),
      receivers_(index_of(options_.channels, 0)),
      control_(std::move(control)) {
  take_given();
  if (links_.source) {
    links_.source->attach(
        {[this](int peer, std::uint32_t channel, FileDescriptor socket, std::vector<std::byte> first) {
           link(static_cast<int>(channel), peer, std::move(socket), std::move(first));
           rouse();
         },
         [this](int peer, std::uint32_t channel) {
           wires_[index_of(static_cast<int>(channel), peer)].breakage.note(0);
           rouse();
         }});
  }
  if (!control_) return;
  Control::Hooks hooks;
  hooks.wake = [this] { hear(); };
  hooks.say = [this](std::uint32_t channel) { return said(static_cast<int>(channel)); };
  hooks.channels = static_cast<std::uint32_t>(options_.channels);
  hooks.quiet_for = [this](int peer) { return quiet_for(peer); };
  hooks.readable = options_.wake ? bell_->descriptor() : -1;
  control_->attach(std::move(hooks));
}

TcpTransport::~TcpTransport() {
  if (links_.source) links_.source->attach({});
  if (control_) control_->attach({});
  links_.source.reset();
  control_.reset();  // says goodbye before the connections end
  for (const FileDescriptor& socket : sockets_) discard_unread(socket.get());
}

void TcpTransport::take_given() {
  for (std::size_t peer = 0; peer < links_.data.size(); ++peer) {
    auto& row = links_.data[peer];
    if (row.empty()) continue;
    if (row.size() < static_cast<std::size_t>(options_.channels)) {
      throw Error(ErrorCode::invalid_argument,
                  "tcp: " + std::to_string(row.size()) + " connections to rank " + std::to_string(peer) + " for " +
                      std::to_string(options_.channels) + " channels",
                  static_cast<int>(peer));
    }
    for (int channel = 0; channel < options_.channels; ++channel)
      link(channel, static_cast<int>(peer), std::move(row[static_cast<std::size_t>(channel)]), {});
  }
}

void TcpTransport::link(int channel, int peer, FileDescriptor socket, std::vector<std::byte> first) {
  const int yes = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);  // fails on what is not TCP, as it may
  bell_->watch(socket.get());
  Wire& wire = wires_[index_of(channel, peer)];
  wire.first = std::move(first);
  wire.socket.store(socket.get(), std::memory_order_release);
  const std::lock_guard lock(sockets_mutex_);
  sockets_.push_back(std::move(socket));
}

Wire& TcpTransport::wire_to(int channel, int peer) {
  Wire& wire = wires_[index_of(channel, peer)];
  if (wire.socket.load(std::memory_order_relaxed) >= 0) return wire;
  if (!links_.source || peer == links_.rank) {
    throw Error(ErrorCode::invalid_argument,
                "tcp: rank " + std::to_string(rank()) + " has no connection to rank " + std::to_string(peer), peer);
  }
  links_.source->want(peer, static_cast<std::uint32_t>(channel));
  return wire;
}

Sender& TcpTransport::sender(int channel, int peer) {
  auto& sender = senders_[index_of(channel, peer)];
  if (!sender) sender = std::make_unique<TcpSender>(wire_to(channel, peer), kSlotBytes);
  return *sender;
}

Receiver& TcpTransport::receiver(int channel, int peer) {
  auto& receiver = receivers_[index_of(channel, peer)];
  if (!receiver) receiver = std::make_unique<TcpReceiver>(wire_to(channel, peer), &settling_);
  return *receiver;
}

std::byte* TcpTransport::scratch(int channel, int rank) {
  if (rank != links_.rank) return nullptr;
  return static_cast<std::byte*>(scratch_.get()) + static_cast<std::size_t>(channel) * kScratchBytes;
}

std::shared_ptr<void> TcpTransport::allocate(std::size_t bytes, const Deadline&) {
  return map_private(std::max<std::size_t>(bytes, 1));
}

std::optional<Failure> TcpTransport::failure() {
  if (!control_) return std::nullopt;
  if (auto failure = control_->failure()) return failure;
  for (std::size_t edge = 0; edge < index_of(options_.channels, 0); ++edge) {
    const int peer = static_cast<int>(edge) % links_.size;
    const Breakage& breakage = wires_[edge].breakage;
    if (!breakage.older_than(kGrace) || control_->departed(peer)) continue;
    const Failure failure{peer, -1, true, breakage.loss()};
    control_->lose(peer, failure.loss);  // the others are to know how it was lost
    return failure;
  }
  return std::nullopt;
}

std::chrono::nanoseconds TcpTransport::quiet_for(int peer) const {
  std::chrono::nanoseconds least = std::chrono::nanoseconds::max();
  for (int channel = 0; channel < options_.channels; ++channel) {
    const int socket = wires_[index_of(channel, peer)].socket.load(std::memory_order_relaxed);
    tcp_info info{};
    socklen_t bytes = sizeof info;
    if (socket < 0 || ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) continue;
    least = std::min<std::chrono::nanoseconds>(least, std::chrono::milliseconds(info.tcpi_last_data_recv));
  }
  return least;
}

void TcpTransport::abort(int culprit, ErrorCode cause) {
  if (!control_) return;
  control_->abort(culprit, cause);
  // What was said when another rank's failure was heard may have been the call before.
  for (int channel = 0; channel < options_.channels; ++channel) announce(channel);
  given_up_.store(true, std::memory_order_relaxed);
  rouse();
}

void TcpTransport::announce(int channel) {
  if (control_) control_->announce(static_cast<std::uint32_t>(channel), said(channel));
}

void TcpTransport::arm() {
  settling_.fetch_add(1, std::memory_order_relaxed);
  if (control_ && !armed_.exchange(true, std::memory_order_seq_cst)) control_->arm();
}

void TcpTransport::hear() {
  if (control_->failure()) given_up_.store(true, std::memory_order_relaxed);
  for (int channel = 0; channel < options_.channels; ++channel) {
    for (int peer = 0; peer < links_.size; ++peer) {
      if (peer == links_.rank) continue;
      const Statement news = control_->announced(static_cast<std::uint32_t>(channel), peer);
      Flags& theirs = *flags(channel, peer);
      if (news.sequence != 0 && stated(theirs) != news) state(theirs, news);
    }
  }
  rouse();
}

// Who arms after the store gets a wake of its own; who armed before it has prepared to sleep by now, and is woken here.
void TcpTransport::rouse() {
  if (!options_.wake) return bell_->ring();
  armed_.store(false, std::memory_order_seq_cst);
  bell_->take();
  options_.wake();
}

}  // namespace tutti::transport
