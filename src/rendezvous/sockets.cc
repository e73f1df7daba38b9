#include "rendezvous/sockets.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/un.h>

#include <cstddef>
#include <memory>

#include "base/system_error.h"
#include "rendezvous/address.h"

namespace tutti::rendezvous {
namespace {

constexpr int kBacklog = 4096;

SocketAddress unix_address(const std::string& name) {
  SocketAddress address;
  auto* place = reinterpret_cast<sockaddr_un*>(&address.storage);
  place->sun_family = AF_UNIX;
  // A leading zero byte makes the name abstract: it lives as long as the socket and is in no folder.
  name.copy(place->sun_path + 1, sizeof place->sun_path - 1);
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

SocketAddress local_name(int socket) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0)
    throw_errno("asking for the address of a socket");
  return address;
}

std::string host_of(const SocketAddress& address) {
  char host[NI_MAXHOST] = "?";
  ::getnameinfo(address.get(), address.length, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return host;
}

int port_of(const SocketAddress& address) {
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
  return ntohs(address.family() == AF_INET6 ? v6->sin6_port : v4->sin_port);
}

[[noreturn]] void throw_listen(const Endpoint& endpoint, int number) {
  const std::string where = "listening at " + endpoint;
  std::string remedy = std::string(": ") + std::strerror(number);
  if (number == EADDRINUSE && is_unix(endpoint)) remedy = ": the name is in use; choose another TUTTI_RENDEZVOUS";
  if (number == EADDRINUSE && !is_unix(endpoint)) {
    const auto address = parse(endpoint);
    remedy = ": port " + std::to_string(address ? address->port : 0) +
             " is in use; name another one with TUTTI_RENDEZVOUS=host:port (or --rendezvous host:port)";
  }
  if (number == EADDRNOTAVAIL)
    remedy = ": this is no address of this host; set TUTTI_RENDEZVOUS to an address of the host that keeps the lobby";
  if (number == EMFILE || number == ENFILE) remedy = ": " + descriptors_in_words();
  throw Error(ErrorCode::system, where + remedy);
}

// 0, or the number of the error.
int try_listen(const SocketAddress& address, FileDescriptor& socket) {
  socket = FileDescriptor(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return errno;
  const int on = 1;
  if (address.family() != AF_UNIX) ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.family() == AF_INET6) ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (::bind(socket.get(), address.get(), address.length) != 0) return errno;
  return ::listen(socket.get(), kBacklog) == 0 ? 0 : errno;
}

// The address of an interface, of the wanted family where it has one.
std::string address_of_interface(const std::string& name, int family) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) throw_errno("listing network interfaces");
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(all, ::freeifaddrs);
  std::string found, second;
  for (const ifaddrs* entry = all; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || name != entry->ifa_name) continue;
    const int its = entry->ifa_addr->sa_family;
    if (its != AF_INET && its != AF_INET6) continue;
    SocketAddress address;
    address.length = its == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&address.storage, entry->ifa_addr, address.length);
    // A link-local address means nothing without the interface, which other hosts name differently.
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    if (its == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) continue;
    std::string& place = its == family ? found : second;
    if (place.empty()) place = host_of(address);
  }
  if (found.empty() && second.empty()) {
    throw Error(ErrorCode::invalid_argument, "TUTTI_INTERFACE is '" + name + "', but this host has no such address " +
                                                 "and no such interface with an address (see `ip address`)");
  }
  return found.empty() ? second : found;
}

bool is_numeric(const std::string& host) {
  in6_addr bytes;
  return ::inet_pton(AF_INET, host.c_str(), &bytes) == 1 || ::inet_pton(AF_INET6, host.c_str(), &bytes) == 1;
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  if (DIR* folder = ::opendir("/proc/self/fd")) {
    while (::readdir(folder) != nullptr) ++count;
    ::closedir(folder);
  }
  return count;
}

}  // namespace

Resolved resolve(const Endpoint& endpoint) {
  const auto address = parse(endpoint);
  if (!address) return {{}, "'" + endpoint + "' is neither host:port, [v6]:port nor unix:@name"};
  if (address->is_unix) return {{unix_address(address->host)}, ""};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(address->host.c_str(), std::to_string(address->port).c_str(), &hints, &found);
  if (error != 0) return {{}, "the host '" + address->host + "' cannot be found: " + ::gai_strerror(error)};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  Resolved resolved;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    SocketAddress one;
    one.length = entry->ai_addrlen;
    std::memcpy(&one.storage, entry->ai_addr, entry->ai_addrlen);
    resolved.addresses.push_back(one);
  }
  return resolved;
}

Endpoint endpoint_of(const SocketAddress& address) { return endpoint_of(host_of(address), port_of(address)); }

Listener listen_at(const Endpoint& endpoint) {
  const Resolved resolved = resolve(endpoint);
  if (resolved.addresses.empty()) throw Error(ErrorCode::invalid_argument, "listening: " + resolved.trouble);
  int number = 0;
  for (const SocketAddress& address : resolved.addresses) {
    Listener listener;
    number = try_listen(address, listener.socket);
    if (number != 0) continue;
    listener.endpoint = address.family() == AF_UNIX ? endpoint : endpoint_of(local_name(listener.socket.get()));
    return listener;
  }
  throw_listen(endpoint, number);
}

std::string own_address(const std::string& interface, const Endpoint& lobby) {
  if (is_numeric(interface)) return interface;
  const bool local = is_unix(lobby);
  if (local) return interface.empty() ? "127.0.0.1" : address_of_interface(interface, AF_INET);
  const Resolved resolved = resolve(lobby);
  const int family = resolved.addresses.empty() ? AF_INET : resolved.addresses.front().family();
  if (!interface.empty()) return address_of_interface(interface, family);
  // Connecting a datagram socket sends nothing but picks the way.
  std::string trouble = resolved.trouble;
  for (const SocketAddress& address : resolved.addresses) {
    const FileDescriptor socket(::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (socket.valid() && ::connect(socket.get(), address.get(), address.length) == 0)
      return host_of(local_name(socket.get()));
    trouble = std::strerror(errno);
  }
  throw Error(ErrorCode::system, "no way leads to the lobby at " + lobby + ": " + trouble +
                                     "; see whether the name is right and the network up, or set TUTTI_RENDEZVOUS or "
                                     "TUTTI_INTERFACE");
}

bool is_same_user(int socket, int* pid) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return false;
  *pid = peer.pid;
  return peer.uid == ::geteuid();
}

bool is_own_echo(int socket) {
  SocketAddress own, other;
  own.length = other.length = sizeof own.storage;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&own.storage), &own.length) != 0) return false;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&other.storage), &other.length) != 0) return false;
  return own.family() != AF_UNIX && endpoint_of(own) == endpoint_of(other);
}

void set_no_delay(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void set_control(int socket, Time silence) {
  if (silence <= Time(0)) return;
  const auto silence_ms = std::chrono::duration_cast<std::chrono::milliseconds>(silence).count();
  const unsigned timeout_ms = static_cast<unsigned>(std::min<long long>(silence_ms, 1'000'000'000));
  const int on = 1, seconds = static_cast<int>(std::max<long long>(1, std::min<long long>(silence_ms / 1000, 3600)));
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
}

void allow_descriptors(std::size_t more) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) throw_errno("asking for the limit of descriptors");
  const rlim_t needed = open_descriptors() + more;
  if (limit.rlim_cur == RLIM_INFINITY || needed <= limit.rlim_cur) return;
  const rlim_t wanted = limit.rlim_max == RLIM_INFINITY ? needed : std::min<rlim_t>(needed, limit.rlim_max);
  limit.rlim_cur = wanted;
  if (wanted == needed && ::setrlimit(RLIMIT_NOFILE, &limit) == 0) return;
  throw Error(ErrorCode::system, "this process needs " + std::to_string(needed) +
                                     " descriptors for its links, but may " + "open only " +
                                     std::to_string(limit.rlim_max) + "; raise the limit (`ulimit -n " +
                                     std::to_string(needed) + "`, or LimitNOFILE of the service that starts it)");
}

std::string descriptors_in_words() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return "this process may open only " + std::to_string(limit.rlim_cur) +
         " descriptors and has used them up; raise the limit with `ulimit -n`";
}

}  // namespace tutti::rendezvous
