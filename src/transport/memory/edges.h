// The two ends of an edge: a ring of headers and a ring of payload in shared memory, filled by the sender, drained by
// the receiver.
//
// Header m mod kHeaders tells of message m; its sequence number m + 1 says that the payload is there: in the header
// itself where it fits, else in the next bytes of the payload ring that lie in one piece. So a sender of small messages
// may run far ahead, and large ones need no more memory than a few of them take. The receiver counts what it is done
// with; the sender looks at that only when it seems to have run out of room.
#pragma once

#include <algorithm>
#include <cstring>

#include "transport/memory/arena.h"
#include "transport/memory/bells.h"

namespace tutti::transport {

struct EdgeMemory {
  EdgeCounts* counts = nullptr;
  MessageHeader* headers = nullptr;
  std::byte* payload = nullptr;
  std::uint64_t payload_bytes = 0;

  MessageHeader* header(std::uint64_t message) const { return headers + message % kHeaders; }
  // Where the payload begins that ends at a position of the ring.
  std::byte* payload_before(std::uint64_t end, std::size_t bytes) const {
    return payload + (end - rounded(bytes)) % payload_bytes;
  }
  // Where a payload ends that goes behind what was placed so far.
  std::uint64_t end_behind(std::uint64_t placed, std::size_t bytes) const {
    const std::uint64_t left = payload_bytes - placed % payload_bytes;
    return placed + rounded(bytes) + (left < bytes ? left : 0);
  }
  static std::uint64_t rounded(std::uint64_t bytes) { return (bytes + 63) / 64 * 64; }
};

// Where the payload lies in the header behind its label: in the same line, or alone in the second one.
inline std::size_t behind_label(std::size_t bytes) { return bytes <= 8 ? kLabelBytes : kLabelBytes + 8; }
inline bool fits_behind_label(std::size_t bytes) { return behind_label(bytes) + bytes <= MessageHeader::kInlineBytes; }

class MemorySender final : public Sender {
 public:
  // `bell`: the receiver's.
  MemorySender(EdgeMemory edge, Bells* bells, int bell) : edge_(edge), bells_(bells), bell_(bell) {}

  std::byte* try_begin(std::size_t bytes) override {
    MessageHeader* header = edge_.header(sent_);
    if (bytes <= MessageHeader::kInlineBytes) {
      end_ = placed_;
      return has_header() ? header->inline_payload : nullptr;
    }
    end_ = edge_.end_behind(placed_, bytes);
    return has_header() && has_room() ? edge_.payload_before(end_, bytes) : nullptr;
  }

  bool try_expose(std::span<const Piece> pieces, std::size_t bytes, std::uint64_t fingerprint,
                  const Located& within) override {
    if (bytes <= MessageHeader::kInlineBytes) return try_send(pieces, bytes, fingerprint);
    if (!has_header()) return false;
    edge_.header(sent_)->exposed = Exposed::of(pieces, within);
    end_ = placed_;
    end(fingerprint);
    exposed_ = sent_;
    return true;
  }

  bool try_send_labelled(Label label, Piece payload, std::uint64_t fingerprint) override {
    if (!has_header()) return false;
    MessageHeader* header = edge_.header(sent_);
    const bool inside = fits_behind_label(payload.bytes);
    end_ = inside ? placed_ : edge_.end_behind(placed_, payload.bytes);
    if (!has_room()) return false;
    std::byte* const to =
        inside ? header->inline_payload + behind_label(payload.bytes) : edge_.payload_before(end_, payload.bytes);
    if (payload.bytes != 0) std::memcpy(to, payload.data, payload.bytes);
    // Last, all that goes into the first line: the receiver looks at it all the time, and takes it away again.
    std::memcpy(header->inline_payload, label.data(), kLabelBytes);
    end(fingerprint);
    return true;
  }

  bool try_flush() override {
    if (taken_ < exposed_) taken_ = edge_.counts->taken.load(std::memory_order_acquire);
    return taken_ >= exposed_;
  }

  // For the message that try_begin() last asked about.
  bool has_credit() override { return has_header() && has_room(); }

  void end(std::uint64_t fingerprint) override {
    MessageHeader* header = edge_.header(sent_);
    header->fingerprint = fingerprint;
    header->payload_end = placed_ = end_;
    header->sequence.store(++sent_, std::memory_order_release);
    __builtin_prefetch(edge_.header(sent_ + 2), 1);  // the receiver had it last, and looks at those before
    bells_->ring(bell_);
  }

 private:
  bool has_header() {
    if (sent_ - taken_ < kHeaders) return true;
    taken_ = edge_.counts->taken.load(std::memory_order_acquire);
    return sent_ - taken_ < kHeaders;
  }
  bool has_room() {
    if (end_ - freed_ <= edge_.payload_bytes) return true;
    freed_ = edge_.counts->freed.load(std::memory_order_acquire);
    return end_ - freed_ <= edge_.payload_bytes;
  }

  EdgeMemory edge_;
  Bells* bells_;
  int bell_;
  std::uint64_t sent_ = 0;
  std::uint64_t placed_ = 0;             // bytes of the payload ring, those skipped included
  std::uint64_t end_ = 0;                // placed_, once the message at hand is sent
  std::uint64_t exposed_ = 0;            // messages up to the last one that was exposed
  std::uint64_t taken_ = 0, freed_ = 0;  // as last seen
};

class MemoryReceiver final : public Receiver {
 public:
  // `bell`: the sender's.
  MemoryReceiver(EdgeMemory edge, Bells* bells, int bell, Reach reach)
      : edge_(edge), bells_(bells), bell_(bell), reach_(reach) {}

  const std::byte* try_begin(std::size_t bytes, std::uint64_t* fingerprint) override {
    if (!ready()) return nullptr;
    MessageHeader* header = edge_.header(received_);
    *fingerprint = header->fingerprint;
    return bytes <= MessageHeader::kInlineBytes ? header->inline_payload
                                                : edge_.payload_before(header->payload_end, bytes);
  }

  Arrival try_label(Label& label, std::uint64_t fingerprint) override {
    if (!ready()) return Arrival::none;
    const MessageHeader& header = *edge_.header(received_);
    if (header.fingerprint != fingerprint) return Arrival::other;
    __builtin_prefetch(header.inline_payload + kLabelBytes + 8);  // the second line, which comes while this one is read
    std::memcpy(label.data(), header.inline_payload, kLabelBytes);
    return Arrival::whole;
  }

  Arrival try_receive_labelled(Piece payload) override {
    const MessageHeader& header = *edge_.header(received_);
    const std::byte* const from = fits_behind_label(payload.bytes)
                                      ? header.inline_payload + behind_label(payload.bytes)
                                      : edge_.payload_before(header.payload_end, payload.bytes);
    if (payload.bytes != 0) std::memcpy(payload.data, from, payload.bytes);
    end();
    return Arrival::whole;
  }

  bool ready() override { return edge_.header(received_)->sequence.load(std::memory_order_acquire) == received_ + 1; }

  Arrival try_pull(std::span<const Piece> pieces, std::size_t bytes, std::uint64_t fingerprint) override {
    if (bytes <= MessageHeader::kInlineBytes) return try_receive(pieces, bytes, fingerprint);
    if (!ready()) return Arrival::none;
    const MessageHeader& header = *edge_.header(received_);
    if (header.fingerprint != fingerprint) return Arrival::other;
    // A sender that gives up says so before its caller may change what was exposed.
    const Arrival arrival = reach_.copy(pieces, header.exposed, edge_.counts->copying);
    if (arrival == Arrival::whole) end();
    return arrival;
  }

  void end() override {
    const std::uint64_t freed = edge_.header(received_)->payload_end;
    edge_.counts->freed.store(freed, std::memory_order_release);
    edge_.counts->taken.store(++received_, std::memory_order_release);
    __builtin_prefetch(edge_.header(received_ + 1));  // there already, if the sender runs ahead
    bells_->ring(bell_);
  }

 private:
  EdgeMemory edge_;
  Bells* bells_;
  int bell_;
  Reach reach_;
  std::uint64_t received_ = 0;
};

}  // namespace tutti::transport
