// The two ends of an edge over UCX: a group's stream of messages with another process (stream.h).
#pragma once

#include "transport/transport.h"
#include "transport/ucx/fabric.h"

namespace tutti::transport {

class UcxSender final : public Sender {
 public:
  UcxSender(UcxFabric& fabric, UcxStream& stream) : fabric_(fabric), stream_(stream) {}

  std::byte* try_begin(std::size_t bytes) override;
  void end(std::uint64_t fingerprint) override;

  bool try_send(std::span<const Piece> pieces, std::size_t bytes, std::uint64_t fingerprint) override;
  bool try_send_labelled(Label label, Piece payload, std::uint64_t fingerprint) override;
  bool try_flush() override { return fabric_.flush(stream_); }
  bool has_credit() override { return fabric_.has_credit(stream_); }

 private:
  UcxFabric& fabric_;
  UcxStream& stream_;
};

class UcxReceiver final : public Receiver {
 public:
  UcxReceiver(UcxFabric& fabric, UcxStream& stream) : fabric_(fabric), stream_(stream) {}

  const std::byte* try_begin(std::size_t bytes, std::uint64_t* fingerprint) override;
  void end() override;

  Arrival try_receive(std::span<const Piece> pieces, std::size_t bytes, std::uint64_t fingerprint) override {
    return fabric_.receive(stream_, pieces, bytes, fingerprint);
  }
  Arrival try_label(Label& label, std::uint64_t fingerprint) override {
    return fabric_.label(stream_, label, fingerprint);
  }
  Arrival try_receive_labelled(Piece payload) override { return fabric_.receive_labelled(stream_, payload); }
  Arrival hear(std::uint64_t fingerprint) override { return fabric_.hear(stream_, fingerprint); }
  bool ready() override { return fabric_.ready(stream_); }

 private:
  UcxFabric& fabric_;
  UcxStream& stream_;
};

}  // namespace tutti::transport
