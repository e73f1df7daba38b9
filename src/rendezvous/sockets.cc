#include "rendezvous/sockets.h"

#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/un.h>

#include <cstddef>

#include "base/system_error.h"
#include "rendezvous/address.h"
#include "rendezvous/lookup.h"

namespace tutti::rendezvous {
namespace {

constexpr int kBacklog = 4096;

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

std::size_t open_descriptors() {
  std::size_t count = 0;
  if (DIR* folder = ::opendir("/proc/self/fd")) {
    while (::readdir(folder) != nullptr) ++count;
    ::closedir(folder);
  }
  return count;
}

}  // namespace

SocketAddress unix_address(const std::string& name) {
  SocketAddress address;
  auto* place = reinterpret_cast<sockaddr_un*>(&address.storage);
  place->sun_family = AF_UNIX;
  // A leading zero byte makes the name abstract: it lives as long as the socket and is in no folder.
  name.copy(place->sun_path + 1, sizeof place->sun_path - 1);
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

Resolved resolve(const Endpoint& endpoint, const Deadline& deadline) {
  const auto address = parse(endpoint);
  if (!address) return {{}, "'" + endpoint + "' is neither host:port, [v6]:port nor unix:@name"};
  if (address->is_unix) return {{unix_address(address->host)}, ""};
  return look_up(address->host, address->port, deadline);
}

Endpoint endpoint_of(const SocketAddress& address) { return endpoint_of(address.host(), address.port()); }

Listener listen_at(const Endpoint& endpoint, const Deadline& deadline) {
  const Resolved resolved = resolve(endpoint, deadline);
  if (resolved.addresses.empty()) {
    throw Error(deadline.passed() ? ErrorCode::timeout : ErrorCode::invalid_argument,
                "listening: " + resolved.trouble + "; set TUTTI_RENDEZVOUS to an address of this host");
  }
  int number = 0;
  for (const SocketAddress& address : resolved.addresses) {
    Listener listener;
    number = try_listen(address, listener.socket);
    if (number != 0) continue;
    listener.endpoint =
        address.family() == AF_UNIX ? endpoint : endpoint_of(SocketAddress::of_own_end(listener.socket.get()));
    return listener;
  }
  throw_listen(endpoint, number);
}

std::string own_address(const std::string& interface, const Endpoint& lobby, const Deadline& deadline) {
  const Resolved resolved = is_unix(lobby) ? Resolved{} : resolve(lobby, deadline);
  const int family = resolved.addresses.empty() ? AF_INET : resolved.addresses.front().family();
  if (!interface.empty()) return address_of_interface(interface, family);
  if (is_unix(lobby)) return "127.0.0.1";
  std::string trouble = resolved.trouble;
  for (const SocketAddress& address : resolved.addresses) {
    if (const auto own = source_towards(address)) return own->host();
    trouble = std::strerror(errno);
  }
  throw Error(deadline.passed() ? ErrorCode::timeout : ErrorCode::system,
              "no way leads to the lobby at " + lobby + ": " + trouble +
                  "; see whether the name is right and the network up, or set TUTTI_RENDEZVOUS or TUTTI_INTERFACE");
}

bool is_same_user(int socket, int* pid) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return false;
  *pid = peer.pid;
  return peer.uid == ::geteuid();
}

bool is_squatted(const Endpoint& endpoint) {
  const auto address = parse(endpoint);
  if (!address || !address->is_unix) return false;
  const SocketAddress place = unix_address(address->host);
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int pid = 0;
  return ::connect(socket.get(), place.get(), place.length) != 0 || !is_same_user(socket.get(), &pid);
}

bool is_own_echo(int socket) {
  const SocketAddress own = SocketAddress::of_own_end(socket);
  SocketAddress other;
  other.length = sizeof other.storage;
  if (::getpeername(socket, other.put(), &other.length) != 0) return false;
  return own.family() != AF_UNIX && endpoint_of(own) == endpoint_of(other);
}

void set_no_delay(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void set_control(int socket, Time silence) {
  using std::chrono::milliseconds;
  const int interactive = 6;  // a class of linux/pkt_sched.h: the first band of the usual queues
  ::setsockopt(socket, SOL_SOCKET, SO_PRIORITY, &interactive, sizeof interactive);
  if (silence <= Time(0)) return;
  // Otherwise the pause between two attempts doubles, and a link that comes back after 6 s is found at 12 s.
  constexpr int kRtoMaxMs = 44;  // TCP_RTO_MAX_MS of Linux 6.15
  const int second_ms = 1000;
  ::setsockopt(socket, IPPROTO_TCP, kRtoMaxMs, &second_ms, sizeof second_ms);
  const auto patience = std::max<Time>(std::chrono::minutes(1), 2 * silence);
  const unsigned patience_ms = static_cast<unsigned>(
      std::min(std::chrono::duration_cast<milliseconds>(patience), milliseconds(2'000'000'000)).count());
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms, sizeof patience_ms);
}

namespace {

// What is wanted for the links, and what the limit is; raised on the way where that helps.
std::pair<rlim_t, rlimit> raise_limit(std::size_t more, std::size_t less) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) throw_errno("asking for the limit of descriptors");
  const std::size_t open = open_descriptors();
  const rlim_t needed = open - std::min(open, less) + more;
  if (limit.rlim_cur == RLIM_INFINITY || needed <= limit.rlim_cur) return {needed, limit};
  // As far as it goes, at once: other threads of this process may be counting at the same time.
  constexpr rlim_t kPlenty = 1 << 20;
  const rlim_t enough = std::max(needed, kPlenty);
  rlimit raised = limit;
  raised.rlim_cur = limit.rlim_max == RLIM_INFINITY ? enough : std::min(enough, limit.rlim_max);
  return {needed, ::setrlimit(RLIMIT_NOFILE, &raised) == 0 ? raised : limit};
}

}  // namespace

bool try_descriptors(std::size_t more, std::size_t less) {
  const auto [needed, limit] = raise_limit(more, less);
  return needed <= limit.rlim_cur;
}

void allow_descriptors(std::size_t more, std::size_t less) {
  const auto [needed, limit] = raise_limit(more, less);
  if (needed <= limit.rlim_cur) return;
  throw Error(ErrorCode::system, "this process needs " + std::to_string(needed) +
                                     " descriptors for its links, but may open only " + std::to_string(limit.rlim_max) +
                                     "; raise the limit (`ulimit -n " + std::to_string(needed) +
                                     "`, or LimitNOFILE of the service that starts it)");
}

std::string descriptors_in_words() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return "this process may open only " + std::to_string(limit.rlim_cur) +
         " descriptors and has used them up; raise the limit with `ulimit -n`";
}

}  // namespace tutti::rendezvous
