#include "tools/bench/namespaces.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "base/file_descriptor.h"
#include "tutti/error.h"

namespace tutti::bench {
namespace {

int free_port_at(in_addr where) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr = where;
  socklen_t length = sizeof address;
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return 0;
  }
  return ntohs(address.sin_port);
}

// Why not, or nothing. To be called by a thread that does nothing else: it stays in the namespace.
std::string look_around(NetworkNamespace& here) {
  const FileDescriptor file(::open(here.file().c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return std::strerror(errno);
  if (::setns(file.get(), CLONE_NEWNET) != 0) return std::string(std::strerror(errno)) + " (entering needs root)";
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return std::strerror(errno);
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owned(all, &::freeifaddrs);
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    const bool leads_on = (each->ifa_flags & IFF_UP) != 0 && (each->ifa_flags & IFF_LOOPBACK) == 0;
    if (!leads_on || each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    const in_addr address = reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr;
    char text[INET_ADDRSTRLEN];
    ::inet_ntop(AF_INET, &address, text, sizeof text);
    here.interface = each->ifa_name;
    here.address = text;
    here.free_port = free_port_at(address);
    return "";
  }
  return "it has no interface that is up, has an IPv4 address and leads elsewhere";
}

}  // namespace

std::vector<NetworkNamespace> network_namespaces(const std::vector<std::string>& names) {
  std::vector<NetworkNamespace> all;
  for (const std::string& name : names) {
    NetworkNamespace one;
    one.name = name;
    std::string refusal;
    std::thread([&] { refusal = look_around(one); }).join();
    if (!refusal.empty()) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("network namespace '{}': {}; `ip netns` lists those that there are", name, refusal));
    }
    all.push_back(one);
  }
  return all;
}

}  // namespace tutti::bench
