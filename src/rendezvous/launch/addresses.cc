#include "rendezvous/launch/addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>

#include "base/file_descriptor.h"
#include "base/system_error.h"
#include "rendezvous/launch/bounded_call.h"
#include "tutti/error.h"

namespace tutti::rendezvous {
namespace {

std::vector<SocketAddress> look_up(const std::string& host, int port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); error != 0) {
    throw Error(ErrorCode::invalid_argument, "the host '" + host + "' cannot be resolved: " + ::gai_strerror(error) +
                                                 "; check the name, or set TUTTI_RENDEZVOUS to an address");
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    SocketAddress address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.bytes = entry->ai_addrlen;
    addresses.push_back(address);
  }
  return addresses;
}

// Connecting a datagram socket asks the routing table, and nobody else.
std::optional<SocketAddress> source_towards(const SocketAddress& to) {
  const FileDescriptor socket(::socket(to.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid() || ::connect(socket.get(), to.get(), to.bytes) != 0) return std::nullopt;
  SocketAddress from;
  from.bytes = sizeof from.storage;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&from.storage), &from.bytes) != 0) return std::nullopt;
  return from;
}

// Of the interface `name`, or of any that is up where it is empty; IPv4 first, link-local never.
std::optional<SocketAddress> address_of_any(const std::string& name) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return std::nullopt;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != family) continue;
      if (!name.empty() ? name != entry->ifa_name : (entry->ifa_flags & (IFF_UP | IFF_LOOPBACK)) != IFF_UP) continue;
      SocketAddress address;
      address.bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      std::memcpy(&address.storage, entry->ifa_addr, address.bytes);
      const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
      if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) continue;
      return address;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string SocketAddress::host() const {
  std::array<char, NI_MAXHOST> text{};
  const int error = ::getnameinfo(get(), bytes, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? std::string(text.data()) : std::string("?");
}

bool SocketAddress::is_loopback() const {
  if (storage.ss_family == AF_INET) {
    return ntohl(reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr.s_addr) >> 24 == 127;
  }
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr);
}

std::vector<SocketAddress> resolve(const std::string& host, int port, const Deadline& deadline) {
  return within<std::vector<SocketAddress>>(deadline,
                                            "the host '" + host +
                                                "' was not resolved in time; check the name service, or " +
                                                "set TUTTI_RENDEZVOUS to an address",
                                            [host, port] { return look_up(host, port, 0); });
}

std::string address_towards(const std::string& host, int port, const Deadline& deadline) {
  for (const SocketAddress& to : resolve(host, port, deadline)) {
    if (const auto from = source_towards(to)) return from->host();
  }
  throw Error(ErrorCode::system,
              "no address of this host leads to '" + host + "'; set TUTTI_INTERFACE to the interface that does");
}

std::string address_of_this_host(const Deadline& deadline) {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) throw_errno("gethostname");
  try {
    for (const SocketAddress& address : resolve(name.data(), 0, deadline)) {
      // The name may be another host's: an address counts only if this host has it.
      const auto from = source_towards(address);
      if (!address.is_loopback() && from && from->host() == address.host()) return address.host();
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::timeout) throw;
  }
  for (const char* far_away : {"192.0.2.1", "2001:db8::1"}) {
    const auto from = source_towards(look_up(far_away, 9, AI_NUMERICHOST).front());
    if (from && !from->is_loopback()) return from->host();
  }
  const auto any = address_of_any("");
  return any ? any->host() : "127.0.0.1";
}

std::string address_of_interface(const std::string& words) {
  if (const auto address = address_of_any(words)) return address->host();
  try {
    return look_up(words, 0, AI_NUMERICHOST).front().host();
  } catch (const Error&) {
    throw Error(ErrorCode::invalid_argument, "TUTTI_INTERFACE is '" + words +
                                                 "', which is neither an interface of this host that has an address " +
                                                 "nor an address; `ip address` lists them");
  }
}

std::string loopback_id() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::array<char, 64> space{};
  const ssize_t length = ::readlink("/proc/self/ns/net", space.data(), space.size());
  return boot + "/" + std::string(space.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
}

}  // namespace tutti::rendezvous
