#include "transport/tcp/edges.h"

#include <array>
#include <string>

#include "tutti/error.h"

namespace tutti::transport {
namespace {

[[noreturn]] void refuse_slots() {
  throw Error(ErrorCode::unsupported, "tcp: a message has no slot to work in; use try_send and try_receive");
}

}  // namespace

std::byte* TcpSender::try_begin(std::size_t) { refuse_slots(); }
void TcpSender::end(std::uint64_t) { refuse_slots(); }

bool TcpSender::try_send(std::span<const Piece> pieces, std::size_t bytes, std::uint64_t fingerprint) {
  if (bytes > slot_bytes_) {
    throw Error(ErrorCode::invalid_argument, "tcp: a message of " + std::to_string(bytes) + " bytes, more than the " +
                                                 std::to_string(slot_bytes_) + " offered");
  }
  return connection_.send(stream_, pieces, bytes, fingerprint);
}

bool TcpSender::try_send_labelled(Label label, Piece payload, std::uint64_t fingerprint) {
  const std::array<Piece, 2> pieces{Piece{label.data(), kLabelBytes}, payload};
  return try_send(pieces, kLabelBytes + payload.bytes, fingerprint);
}

const std::byte* TcpReceiver::try_begin(std::size_t, std::uint64_t*) { refuse_slots(); }
void TcpReceiver::end() { refuse_slots(); }

}  // namespace tutti::transport
