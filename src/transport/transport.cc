#include "transport/transport.h"

#include <cstring>

namespace tutti::transport {

bool Sender::try_send(std::span<const Piece> pieces, std::size_t bytes, std::uint64_t fingerprint) {
  std::byte* slot = try_begin(bytes);
  if (slot == nullptr) return false;
  for (const Piece& piece : pieces) {
    std::memcpy(slot, piece.data, piece.bytes);
    slot += piece.bytes;
  }
  end(fingerprint);
  return true;
}

Arrival Receiver::try_receive(std::span<const Piece> pieces, std::size_t bytes, std::uint64_t fingerprint) {
  std::uint64_t found = 0;
  const std::byte* slot = try_begin(bytes, &found);
  if (slot == nullptr) return Arrival::none;
  if (found != fingerprint) return Arrival::other;
  for (const Piece& piece : pieces) {
    std::memcpy(piece.data, slot, piece.bytes);
    slot += piece.bytes;
  }
  end();
  return Arrival::whole;
}

Arrival Receiver::hear(std::uint64_t fingerprint) {
  std::uint64_t found = 0;
  if (try_begin(0, &found) == nullptr) return Arrival::none;
  return found == fingerprint ? Arrival::whole : Arrival::other;
}

}  // namespace tutti::transport
