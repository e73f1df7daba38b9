// Network namespaces of this machine, each a host of its own to the ranks that run in it: several hosts with the links
// between them, slow ones if the namespaces have been made so, and one bench that sees all ranks.
#pragma once

#include <string>
#include <vector>

namespace tutti::bench {

struct NetworkNamespace {
  std::string name;       // as `ip netns` has it
  std::string interface;  // the first one that is up and leads elsewhere
  std::string address;    // its IPv4 address
  int free_port = 0;      // that nobody listened at a moment ago

  std::string file() const { return "/run/netns/" + name; }
};

// Throws Error(invalid_argument) with the remedy where one cannot be entered or has no such interface.
std::vector<NetworkNamespace> network_namespaces(const std::vector<std::string>& names);

}  // namespace tutti::bench
