// Connections of which a test holds the other end, and says there what it likes.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>
#include <utility>

#include "transport/tcp/edges.h"

namespace tutti::testing {

using transport::Connection;
using transport::SocketBell;
using transport::StreamHeader;
using transport::TcpReceiver;
using transport::TcpSender;

inline const std::atomic<std::uint32_t> nobody_settles{0};

inline std::string framed(const std::string& text, std::uint64_t fingerprint, std::uint64_t group = 0) {
  const StreamHeader frame{static_cast<std::uint32_t>(text.size()), StreamHeader::Kind::message, group, fingerprint};
  return std::string(reinterpret_cast<const char*>(&frame), sizeof frame) + text;
}

inline std::string said(StreamHeader::Kind kind, std::uint64_t group, std::uint64_t number = 0) {
  const StreamHeader frame{0, kind, group, number};
  return std::string(reinterpret_cast<const char*>(&frame), sizeof frame);
}

inline void put(const FileDescriptor& socket, const std::string& bytes) {
  ASSERT_EQ(::send(socket.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
}

// What has come, all of it frames without payload but the messages' own.
inline std::string take(const FileDescriptor& socket) {
  std::string bytes(1 << 20, '-');
  const ssize_t got = ::recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  return bytes.substr(0, got > 0 ? static_cast<std::size_t>(got) : 0);
}

// A connection whose bytes are there at once when they have been written.
inline std::pair<FileDescriptor, FileDescriptor> connect_local() {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

// One end of a connection, as a process has it.
struct End {
  End() = default;
  explicit End(FileDescriptor socket) { connection.link(std::move(socket), {}, 0); }

  TcpReceiver receiver(std::uint64_t group = 0) { return {connection, connection.open(group), &nobody_settles}; }
  TcpSender sender(std::size_t slot_bytes, std::uint64_t group = 0) {
    return {connection, connection.open(group), slot_bytes};
  }

  SocketBell bell;
  Connection connection{bell};
};

}  // namespace tutti::testing
