// A connection on which a peer says what it likes where labels of messages and their bytes are expected.
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <bit>
#include <memory>

#include "base/file_descriptor.h"
#include "engine/messages/message.h"
#include "fuzz/target.h"
#include "transport/tcp/edges.h"

using namespace tutti::engine;
using namespace tutti::transport;
using tutti::fuzz::check;

namespace {

constexpr int kSource = 1, kOwnRank = 0;
constexpr std::uint64_t kMostTogether = 64, kMostMemory = 4096;

// Takes messages as a mailbox does, into memory of just their size.
class Reader {
 public:
  explicit Reader(tutti::FileDescriptor socket) { connection_.link(std::move(socket), {}, 0); }

  bool is_broken() const { return connection_.breakage().noted(); }
  // As far as what has come goes; false once the peer has said what no message says.
  bool read() {
    while (true) {
      static_cast<void>(other_.ready());  // another group's thread looks at the same time
      if (!within_ && !listen()) return !refused_;
      const Arrival arrival = together_ ? receiver_.try_receive_labelled({memory_.get(), bytes_})
                                        : receiver_.try_receive(std::array{Piece{memory_.get(), bytes_}}, bytes_, 7);
      if (arrival == Arrival::other) return false;
      if (arrival != Arrival::whole) return true;
      within_ = false;
    }
  }

 private:
  bool listen() {
    Label label;
    const Arrival arrival = receiver_.try_label(label, kLabelMark);
    if (arrival == Arrival::none) return false;
    const auto statement = std::bit_cast<tutti::Statement>(label);
    refused_ = arrival == Arrival::other || !is_sound(statement, kSource, kOwnRank);
    if (refused_) return false;
    const Units units = units_of(statement);
    check(units.bytes != 0 && units.count <= (std::uint64_t{1} << 56) / units.bytes, "bytes that no memory holds");
    bytes_ = units.all_bytes();
    together_ = bytes_ <= kMostTogether;
    refused_ = (!together_ && receiver_.try_receive_labelled({}) != Arrival::whole) || bytes_ > kMostMemory;
    if (refused_) return false;
    memory_ = std::make_unique<std::byte[]>(bytes_);
    return within_ = true;
  }

  const std::atomic<std::uint32_t> nobody_settles_{0};
  SocketBell bell_;
  Connection connection_{bell_};
  TcpReceiver receiver_{connection_, connection_.open(0), &nobody_settles_};
  TcpReceiver other_{connection_, connection_.open(1), &nobody_settles_};
  bool within_ = false, together_ = false, refused_ = false;
  std::uint64_t bytes_ = 0;
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  int ends[2];
  check(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "a pair of sockets");
  const tutti::FileDescriptor far(ends[1]);
  Reader reader{tutti::FileDescriptor(ends[0])};
  tutti::fuzz::Input input(data, size);
  while (!input.empty()) {
    const auto part = input.bytes(input.number());
    if (part.empty()) continue;
    const ssize_t sent = ::send(far.get(), part.data(), part.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    check(sent == static_cast<ssize_t>(part.size()), "sent");
    if (!reader.read() || reader.is_broken()) break;
  }
  return 0;
}
