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
      breakages_(index_of(options_.channels, 0)),
      senders_(index_of(options_.channels, 0)),
      receivers_(index_of(options_.channels, 0)),
      control_(std::move(control)) {
  links_.data.resize(static_cast<std::size_t>(links_.size));
  prepare_sockets();
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
  if (control_) {
    control_->attach({});
    control_.reset();  // says goodbye before the connections end
  }
  for (const auto& row : links_.data) {
    for (const FileDescriptor& socket : row) discard_unread(socket.get());
  }
}

void TcpTransport::prepare_sockets() {
  for (std::size_t peer = 0; peer < links_.data.size(); ++peer) {
    auto& row = links_.data[peer];
    if (row.empty()) continue;
    if (row.size() < static_cast<std::size_t>(options_.channels)) {
      throw Error(ErrorCode::invalid_argument,
                  "tcp: " + std::to_string(row.size()) + " connections to rank " + std::to_string(peer) + " for " +
                      std::to_string(options_.channels) + " channels",
                  static_cast<int>(peer));
    }
    for (const FileDescriptor& socket : row) {
      const int yes = 1;
      ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);  // fails on what is not TCP, as it may
      bell_->watch(socket.get());
    }
  }
}

int TcpTransport::socket_to(int channel, int peer) const {
  const auto& row = links_.data[static_cast<std::size_t>(peer)];
  if (row.empty()) {
    throw Error(ErrorCode::invalid_argument,
                "tcp: rank " + std::to_string(rank()) + " has no connection to rank " + std::to_string(peer), peer);
  }
  return row[static_cast<std::size_t>(channel)].get();
}

Sender& TcpTransport::sender(int channel, int peer) {
  auto& sender = senders_[index_of(channel, peer)];
  if (!sender) {
    Breakage* breakage = &breakages_[index_of(channel, peer)];
    sender = std::make_unique<TcpSender>(socket_to(channel, peer), kSlotBytes, breakage);
  }
  return *sender;
}

Receiver& TcpTransport::receiver(int channel, int peer) {
  auto& receiver = receivers_[index_of(channel, peer)];
  if (!receiver) {
    Breakage* breakage = &breakages_[index_of(channel, peer)];
    receiver = std::make_unique<TcpReceiver>(socket_to(channel, peer), breakage, &settling_);
  }
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
  for (std::size_t edge = 0; edge < breakages_.size(); ++edge) {
    const int peer = static_cast<int>(edge) % links_.size;
    if (!breakages_[edge].older_than(kGrace) || control_->departed(peer)) continue;
    const Failure failure{peer, -1, true, breakages_[edge].loss()};
    control_->lose(peer, failure.loss);  // the others are to know how it was lost
    return failure;
  }
  return std::nullopt;
}

std::chrono::nanoseconds TcpTransport::quiet_for(int peer) const {
  std::chrono::nanoseconds least = std::chrono::nanoseconds::max();
  for (const FileDescriptor& socket : links_.data[static_cast<std::size_t>(peer)]) {
    tcp_info info{};
    socklen_t bytes = sizeof info;
    if (::getsockopt(socket.get(), IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) continue;
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
