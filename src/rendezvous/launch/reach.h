// Which of this host's addresses its peers can reach, for a launch that leaves the meeting place to us.
#pragma once

#include <string>
#include <vector>

#include "base/deadline.h"
#include "rendezvous/addresses.h"

namespace tutti::rendezvous {

// At least one address, TCP, in the resolver's order. Throws Error that names the host.
std::vector<SocketAddress> resolve(const std::string& host, int port, const Deadline& deadline);

// The address of this host that a connection to `host` would come from; no packet is sent.
std::string address_towards(const std::string& host, int port, const Deadline& deadline);

// An address of this host that others can probably reach: what its name resolves to, else the one of the default route,
// else that of any interface that is up; loopback where there is nothing else.
std::string address_of_this_host(const Deadline& deadline);

// Equal for processes that reach each other over loopback: the boot and the network namespace.
std::string loopback_id();

}  // namespace tutti::rendezvous
