// Endpoints taken apart: text only, nothing is looked up.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/network.h"

namespace tutti::rendezvous {

struct Address {
  bool is_unix = false;
  std::string host;  // a name or a numeric address without brackets; of a UNIX socket, its name without the @
  int port = 0;
};

// Nothing where it is none of the three forms of an Endpoint.
std::optional<Address> parse(const Endpoint& endpoint);
// "host:port", with brackets where the host is an IPv6 address.
Endpoint endpoint_of(const std::string& host, int port);
bool is_unix(const Endpoint& endpoint);
// A numeric address that only its own host reaches.
bool is_loopback(const Endpoint& endpoint);

}  // namespace tutti::rendezvous
