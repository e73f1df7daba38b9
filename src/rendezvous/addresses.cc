#include "rendezvous/addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cstring>
#include <memory>

#include "base/file_descriptor.h"
#include "base/system_error.h"

namespace tutti::rendezvous {
namespace {

Resolved ask(const std::string& host, int port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) return {{}, "the host '" + host + "' cannot be resolved: " + ::gai_strerror(error)};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  Resolved resolved;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    resolved.addresses.emplace_back(entry->ai_addr, entry->ai_addrlen);
  }
  return resolved;
}

}  // namespace

SocketAddress::SocketAddress(const sockaddr* address, socklen_t bytes) : length(bytes) {
  std::memcpy(&storage, address, bytes);
}

SocketAddress SocketAddress::of_own_end(int socket) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (::getsockname(socket, address.put(), &address.length) != 0) throw_errno("asking for the address of a socket");
  return address;
}

std::string SocketAddress::host() const {
  char text[NI_MAXHOST] = "?";
  ::getnameinfo(get(), length, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

int SocketAddress::port() const {
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage);
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage);
  return ntohs(family() == AF_INET6 ? v6->sin6_port : v4->sin_port);
}

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET) {
    return ntohl(reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  }
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr);
}

Resolved look_up(const std::string& host, int port) { return ask(host, port, 0); }

Resolved numeric(const std::string& host, int port) { return ask(host, port, AI_NUMERICHOST); }

// Connecting a datagram socket asks the routing table, and nobody else.
std::optional<SocketAddress> source_towards(const SocketAddress& to) {
  const FileDescriptor socket(::socket(to.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid() || ::connect(socket.get(), to.get(), to.length) != 0) return std::nullopt;
  return SocketAddress::of_own_end(socket.get());
}

std::optional<SocketAddress> find_interface(const std::string& name, int family) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) throw_errno("listing network interfaces");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  const int second = family == AF_INET6 ? AF_INET : AF_INET6;
  for (const int wanted : {family == AF_INET6 ? AF_INET6 : AF_INET, second}) {
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != wanted) continue;
      const bool up = (entry->ifa_flags & (IFF_UP | IFF_LOOPBACK)) == IFF_UP;
      if (name.empty() ? !up : name != entry->ifa_name) continue;
      const SocketAddress address(entry->ifa_addr, wanted == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
      const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
      if (wanted == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) continue;
      return address;
    }
  }
  return std::nullopt;
}

std::string address_of_interface(const std::string& words, int family) {
  in6_addr bytes;
  if (::inet_pton(AF_INET, words.c_str(), &bytes) == 1 || ::inet_pton(AF_INET6, words.c_str(), &bytes) == 1) {
    const SocketAddress address = numeric(words, 0).addresses.at(0);
    const FileDescriptor probe(::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (::bind(probe.get(), address.get(), address.length) == 0 || errno != EADDRNOTAVAIL) return words;
  }
  if (const auto address = find_interface(words, family)) return address->host();
  throw Error(ErrorCode::invalid_argument, "TUTTI_INTERFACE is '" + words +
                                               "', which is neither an interface of this host that has an address " +
                                               "nor an address of this host; `ip address` lists them");
}

}  // namespace tutti::rendezvous
