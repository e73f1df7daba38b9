#include "transport/ucx/edges.h"

#include <array>
#include <string>

#include "tutti/error.h"

namespace tutti::transport {
namespace {

[[noreturn]] void refuse_ucx_slots() {
  throw Error(ErrorCode::unsupported, "ucx: a message has no slot to work in; use try_send and try_receive");
}

}  // namespace

std::byte* UcxSender::try_begin(std::size_t) { refuse_ucx_slots(); }
void UcxSender::end(std::uint64_t) { refuse_ucx_slots(); }

bool UcxSender::try_send(std::span<const Piece> pieces, std::size_t bytes, std::uint64_t fingerprint) {
  if (bytes > UcxFabric::kSlotBytes) {
    throw Error(ErrorCode::invalid_argument, "ucx: a message of " + std::to_string(bytes) + " bytes, more than the " +
                                                 std::to_string(UcxFabric::kSlotBytes) + " offered");
  }
  return fabric_.send(stream_, pieces, bytes, fingerprint);
}

bool UcxSender::try_send_labelled(Label label, Piece payload, std::uint64_t fingerprint) {
  const std::array<Piece, 2> pieces{Piece{label.data(), kLabelBytes}, payload};
  return try_send(pieces, kLabelBytes + payload.bytes, fingerprint);
}

const std::byte* UcxReceiver::try_begin(std::size_t, std::uint64_t*) { refuse_ucx_slots(); }
void UcxReceiver::end() { refuse_ucx_slots(); }

}  // namespace tutti::transport
