#include "rendezvous/address.h"

#include <charconv>

namespace tutti::rendezvous {
namespace {

constexpr std::string_view kUnix = "unix:@";

}  // namespace

std::optional<Address> parse(const Endpoint& endpoint) {
  Address address;
  if (endpoint.starts_with(kUnix)) {
    address.is_unix = true;
    address.host = endpoint.substr(kUnix.size());
    constexpr std::size_t kLongestName = 100;
    if (address.host.empty() || address.host.size() > kLongestName) return std::nullopt;
    return address;
  }
  const std::size_t colon = endpoint.rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  address.host = endpoint.substr(0, colon);
  const bool bracketed = address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']';
  if (bracketed) address.host = address.host.substr(1, address.host.size() - 2);
  if (!bracketed && address.host.find(':') != std::string::npos) return std::nullopt;
  const char* end = endpoint.data() + endpoint.size();
  const auto [stopped, error] = std::from_chars(endpoint.data() + colon + 1, end, address.port);
  if (error != std::errc() || stopped != end || address.port < 0 || address.port > 65535) return std::nullopt;
  return address;
}

Endpoint endpoint_of(const std::string& host, int port) {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

bool is_unix(const Endpoint& endpoint) { return endpoint.starts_with(kUnix); }

bool is_loopback(const Endpoint& endpoint) {
  const auto address = parse(endpoint);
  return address && !address->is_unix && (address->host.starts_with("127.") || address->host == "::1");
}

}  // namespace tutti::rendezvous
