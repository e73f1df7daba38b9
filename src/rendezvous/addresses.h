// Addresses as the system knows them: names looked up, interfaces, and which way leads where.
#pragma once

#include <sys/socket.h>

#include <optional>
#include <string>
#include <vector>

namespace tutti::rendezvous {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  SocketAddress() = default;
  SocketAddress(const sockaddr* address, socklen_t bytes);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* put() { return reinterpret_cast<sockaddr*>(&storage); }  // for calls that fill it in
  int family() const { return storage.ss_family; }
  std::string host() const;  // numeric, without port
  int port() const;
  bool is_loopback() const;

  // The own end of a socket; throws Error(system).
  static SocketAddress of_own_end(int socket);
};

struct Resolved {
  std::vector<SocketAddress> addresses;  // in the order in which to try them
  std::string trouble;                   // why there is none
};

// May ask name servers, and then takes its time: lookup.h has the one that keeps a deadline.
Resolved look_up(const std::string& host, int port);
// Of an address in figures, without asking anybody.
Resolved numeric(const std::string& host, int port);

// The address of this host from which packets to `to` leave; none is sent. Nothing, and errno, where no way leads
// there.
std::optional<SocketAddress> source_towards(const SocketAddress& to);

// An address of the interface, of the wanted family where it has one (AF_UNSPEC: IPv4 first); never a link-local one,
// which means nothing on other hosts. An empty name stands for any interface that is up, loopback excepted.
std::optional<SocketAddress> find_interface(const std::string& name, int family);

// `words` (TUTTI_INTERFACE) is an address or the name of an interface. Throws Error(invalid_argument) for neither.
std::string address_of_interface(const std::string& words, int family);

}  // namespace tutti::rendezvous
