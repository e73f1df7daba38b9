// Names to addresses, and which of this host's addresses its peers can reach.
#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

#include "base/deadline.h"

namespace tutti::rendezvous {

// One answer of the resolver.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  std::string host() const;  // numeric, without port
  bool is_loopback() const;
};

// At least one address, TCP, in the resolver's order. Throws Error that names the host.
std::vector<SocketAddress> resolve(const std::string& host, int port, const Deadline& deadline);

// The address of this host that a connection to `host` would come from; no packet is sent.
std::string address_towards(const std::string& host, int port, const Deadline& deadline);

// An address of this host that others can probably reach: what its name resolves to, else the one of the default route,
// else that of any interface that is up; loopback where there is nothing else.
std::string address_of_this_host(const Deadline& deadline);

// `words` is an address or the name of an interface. Throws Error(invalid_argument) for neither.
std::string address_of_interface(const std::string& words);

// Equal for processes that reach each other over loopback: the boot and the network namespace.
std::string loopback_id();

}  // namespace tutti::rendezvous
