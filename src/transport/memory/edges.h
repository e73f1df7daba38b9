// The two ends of an edge: a ring of slots in shared memory, filled by the sender and drained by the receiver.
//
// Slot m mod credits carries message m; its sequence number m + 1 says that the payload is there. The receiver counts
// what it is done with; the sender looks at that count only when it seems to have run out of credits.
#pragma once

#include "transport/memory/arena.h"
#include "transport/memory/bells.h"

namespace tutti::transport {

struct EdgeMemory {
  EdgeHeader* header = nullptr;
  std::byte* slots = nullptr;
  std::size_t slot_stride = 0;
  std::uint32_t credits = 1;

  SlotHeader* slot(std::uint64_t message) const {
    return reinterpret_cast<SlotHeader*>(slots + (message % credits) * slot_stride);
  }
  static std::byte* payload(SlotHeader* slot, std::size_t bytes) {
    return bytes <= SlotHeader::kInlineBytes ? slot->inline_payload : reinterpret_cast<std::byte*>(slot + 1);
  }
};

class MemorySender final : public Sender {
 public:
  MemorySender(EdgeMemory edge, Bells* bells, int peer) : edge_(edge), bells_(bells), peer_(peer) {}

  std::byte* try_begin(std::size_t bytes) override {
    return has_credit() ? EdgeMemory::payload(edge_.slot(sent_), bytes) : nullptr;
  }

  bool has_credit() override {
    if (sent_ - consumed_ < edge_.credits) return true;
    consumed_ = edge_.header->consumed.load(std::memory_order_acquire);
    return sent_ - consumed_ < edge_.credits;
  }

  void end(std::uint64_t fingerprint) override {
    SlotHeader* slot = edge_.slot(sent_);
    slot->fingerprint = fingerprint;
    slot->sequence.store(++sent_, std::memory_order_release);
    bells_->ring(peer_);
  }

 private:
  EdgeMemory edge_;
  Bells* bells_;
  int peer_;
  std::uint64_t sent_ = 0;
  std::uint64_t consumed_ = 0;  // as last seen
};

class MemoryReceiver final : public Receiver {
 public:
  MemoryReceiver(EdgeMemory edge, Bells* bells, int peer) : edge_(edge), bells_(bells), peer_(peer) {}

  const std::byte* try_begin(std::size_t bytes, std::uint64_t* fingerprint) override {
    if (!ready()) return nullptr;
    SlotHeader* slot = edge_.slot(received_);
    *fingerprint = slot->fingerprint;
    return EdgeMemory::payload(slot, bytes);
  }

  bool ready() override { return edge_.slot(received_)->sequence.load(std::memory_order_acquire) == received_ + 1; }

  void end() override {
    edge_.header->consumed.store(++received_, std::memory_order_release);
    bells_->ring(peer_);
  }

 private:
  EdgeMemory edge_;
  Bells* bells_;
  int peer_;
  std::uint64_t received_ = 0;
};

}  // namespace tutti::transport
