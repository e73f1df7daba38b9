// The two ends of an edge over TCP: a group's stream of messages on a connection (connection.h).
//
// A sender writes straight from the caller's memory, but for small messages, which are gathered first. A receiver
// looks at the frame before a byte of payload goes anywhere, and then lets the payload land where the caller wants it;
// only the beginning of a message, which comes together with its frame, passes through a buffer.
#pragma once

#include "transport/tcp/connection.h"
#include "transport/transport.h"

namespace tutti::transport {

class TcpSender final : public Sender {
 public:
  TcpSender(Connection& connection, Stream& stream, std::size_t slot_bytes)
      : connection_(connection), stream_(stream), slot_bytes_(slot_bytes) {}

  std::byte* try_begin(std::size_t bytes) override;
  void end(std::uint64_t fingerprint) override;

  bool try_send(std::span<const Piece> pieces, std::size_t bytes, std::uint64_t fingerprint) override;
  bool try_send_labelled(Label label, Piece payload, std::uint64_t fingerprint) override;
  bool try_flush() override { return connection_.flush(stream_); }
  bool has_credit() override { return connection_.has_credit(stream_); }

 private:
  Connection& connection_;
  Stream& stream_;
  std::size_t slot_bytes_;
};

class TcpReceiver final : public Receiver {
 public:
  // `settling`: as Pace wants it.
  TcpReceiver(Connection& connection, Stream& stream, const std::atomic<std::uint32_t>* settling)
      : connection_(connection), stream_(stream), pace_(settling) {}

  const std::byte* try_begin(std::size_t bytes, std::uint64_t* fingerprint) override;
  void end() override;

  Arrival try_receive(std::span<const Piece> pieces, std::size_t bytes, std::uint64_t fingerprint) override {
    return connection_.receive(stream_, pace_, pieces, bytes, fingerprint);
  }
  Arrival try_label(Label& label, std::uint64_t fingerprint) override {
    return connection_.label(stream_, pace_, label, fingerprint);
  }
  Arrival try_receive_labelled(Piece payload) override { return connection_.receive_labelled(stream_, pace_, payload); }
  Arrival hear(std::uint64_t fingerprint) override { return connection_.hear(stream_, pace_, fingerprint); }
  bool ready() override { return connection_.ready(stream_, pace_); }

 private:
  Connection& connection_;
  Stream& stream_;
  Pace pace_;
};

}  // namespace tutti::transport
