#include "rendezvous/launch/reach.h"

#include "rendezvous/host.h"
#include "rendezvous/lookup.h"
#include "rendezvous/roster.h"
#include "tutti/error.h"

namespace tutti::rendezvous {
std::vector<SocketAddress> resolve(const std::string& host, int port, const Deadline& deadline) {
  Resolved resolved = look_up(host, port, deadline);
  if (!resolved.addresses.empty()) return std::move(resolved.addresses);
  throw Error(deadline.passed() ? ErrorCode::timeout : ErrorCode::invalid_argument,
              resolved.trouble + "; check the name, or set TUTTI_RENDEZVOUS to an address");
}

std::string address_towards(const std::string& host, int port, const Deadline& deadline) {
  for (const SocketAddress& to : resolve(host, port, deadline)) {
    if (const auto from = source_towards(to)) return from->host();
  }
  throw Error(ErrorCode::system,
              "no address of this host leads to '" + host + "'; set TUTTI_INTERFACE to the interface that does");
}

std::string address_of_this_host(const Deadline& deadline) {
  try {
    for (const SocketAddress& address : resolve(host_name(), 0, deadline)) {
      // The name may be another host's: an address counts only if this host has it.
      const auto from = source_towards(address);
      if (!address.is_loopback() && from && from->host() == address.host()) return address.host();
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::timeout) throw;
  }
  for (const char* far_away : {"192.0.2.1", "2001:db8::1"}) {
    const auto from = source_towards(numeric(far_away, 9).addresses.front());
    if (from && !from->is_loopback()) return from->host();
  }
  const auto any = find_interface("", AF_UNSPEC);
  return any ? any->host() : "127.0.0.1";
}

std::string loopback_id() { return network_of(host_id()); }

}  // namespace tutti::rendezvous
