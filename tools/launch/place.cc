#include "tools/launch/place.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>

#include "base/deadline.h"
#include "base/environment.h"
#include "base/file_descriptor.h"
#include "base/log.h"
#include "base/system_error.h"
#include "rendezvous/address.h"
#include "rendezvous/sockets.h"
#include "rendezvous/token.h"

namespace tutti::tools {

using rendezvous::Token;

MeetingPlace meeting_place(const std::string& text, int hosts) {
  const auto parts = rendezvous::parse(text);
  if (!parts || parts->is_unix || parts->port == 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--rendezvous is '{}'; it must be host:port, as in node0:29400 or [fd00::1]:29400, with a "
                            "host that runs --node-rank 0 and a port that is free there",
                            text));
  }
  const rendezvous::Resolved found = rendezvous::resolve(text, Deadline::after(std::chrono::seconds(30)));
  if (found.addresses.empty()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--rendezvous: {}; check the name, or give an address", found.trouble));
  }
  const bool loopback = std::all_of(found.addresses.begin(), found.addresses.end(), [](const auto& address) {
    return rendezvous::is_loopback(rendezvous::endpoint_of(address));
  });
  if (hosts > 1 && loopback && !rendezvous::is_loopback(text)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the host '{}' of --rendezvous resolves to a loopback address here, where other hosts "
                            "cannot reach it; give an address that they can (`ip address` lists them), or 127.0.0.1 if "
                            "all nodes are this very machine",
                            parts->host));
  }
  return {parts->host, parts->port};
}

std::unique_ptr<rendezvous::LobbyServer> open_lobby(const Job& job) {
  if (job.host != 0) return nullptr;
  const Token token = job.token_file.empty() ? Token::from_hex(job.token) : Token::read_file(job.token_file);
  const Log log(Log::level_of(Environment::of_process().get("TUTTI_LOG").value_or("warn")), -1);
  return std::make_unique<rendezvous::LobbyServer>(job.rendezvous, job.size(), job.name, token, Deadline(), log);
}

int free_port() {
  const FileDescriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  auto* place = reinterpret_cast<sockaddr*>(&address);
  if (!probe.valid() || ::bind(probe.get(), place, bytes) != 0 || ::getsockname(probe.get(), place, &bytes) != 0) {
    throw_errno("cannot find a free port for MASTER_PORT; name one with --master-port");
  }
  return ntohs(address.sin_port);
}

}  // namespace tutti::tools
