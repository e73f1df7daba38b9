#include "rendezvous/launch/arrange.h"

#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdint>

#include "rendezvous/address.h"
#include "rendezvous/launch/ancestor.h"
#include "rendezvous/launch/pmix_store.h"
#include "rendezvous/launch/reach.h"
#include "rendezvous/launch/refuge.h"
#include "rendezvous/launch/torch_store.h"
#include "tutti/error.h"

namespace tutti::rendezvous {
namespace {

constexpr unsigned kFirstPort = 20000;
constexpr unsigned kPorts = 8192;

// FNV-1a: the same on every machine and in every build.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

std::string hash_words(std::string_view text) {
  std::array<char, 16> digits{};
  const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), hash_of(text), 16);
  return {digits.data(), result.ptr};
}

std::string job_of(const Launch& launch, unsigned meeting) {
  std::string job = launch.job;
  if (job.empty()) {
    const std::string starter = ancestor("hydra_pmi_proxy");
    if (starter.empty()) {
      throw Error(ErrorCode::system,
                  "the process that started this rank cannot be read from /proc, so the job has no "
                  "name; set TUTTI_JOB to a name that no other job of yours on this host has");
    }
    job = "mpich " + starter;
  }
  // A launcher's lobby knows its job by the name it gave it.
  if (meeting > 0 && !launch.launcher_keeps_lobby) job += " #" + std::to_string(meeting);
  return job;
}

// What rank 0 leaves in the store, a line each.
struct LobbyWords {
  Endpoint lobby;
  std::string loopback;  // loopback_id() of rank 0
  std::string token;     // hexadecimal, or empty where the ranks have it from elsewhere
};

std::string text_of(const LobbyWords& invitation) {
  return invitation.lobby + "\n" + invitation.loopback + "\n" + invitation.token;
}

LobbyWords invitation_of(std::string_view text) {
  const std::size_t first = text.find('\n');
  const std::size_t second = first == std::string_view::npos ? first : text.find('\n', first + 1);
  const auto lobby = parse(Endpoint(text.substr(0, first)));
  const bool place = lobby && !lobby->is_unix && lobby->port > 0;
  if (text.size() > Store::kMostValueBytes || second == std::string_view::npos || !place) {
    throw Error(ErrorCode::system,
                "what the store holds in place of rank 0's address makes no sense; set "
                "TUTTI_RENDEZVOUS=host:port on all ranks, a free port on the host of rank 0");
  }
  return {std::string(text.substr(0, first)), std::string(text.substr(first + 1, second - first - 1)),
          std::string(text.substr(second + 1))};
}

// The address of this host that rank 0 tells the others.
std::string own_address(const Launch& launch, const Environment& environment, const Deadline& deadline) {
  if (const auto words = environment.get("TUTTI_INTERFACE")) return address_of_interface(*words, AF_UNSPEC);
  if (launch.where.empty()) return address_of_this_host(deadline);
  const Address store = parse(launch.where).value();
  return address_towards(store.host, store.port, deadline);
}

std::optional<Token> own_token(TokenSource source, const Environment& environment) {
  if (source == TokenSource::environment) return Token::from_hex(environment.get("TUTTI_TOKEN").value());
  if (source == TokenSource::file) return Token::read_file(environment.get("TUTTI_TOKEN_FILE").value());
  return std::nullopt;
}

// Rank 0's part where the lobby is found through a store: what to publish, once it listens.
void invite(const Launch& launch, const Environment& environment, const Deadline& deadline,
            std::shared_ptr<Store> store, const std::string& key, Rendezvous& result) {
  result.lobby = endpoint_of(own_address(launch, environment, deadline), 0);
  LobbyWords invitation{"", loopback_id(), ""};
  if (!result.token) {
    result.token = Token::random();
    invitation.token = result.token->hex();
  }
  result.publish = [store, key, invitation, deadline](const Endpoint& lobby) mutable {
    invitation.lobby = lobby;
    store->set(key, text_of(invitation), deadline);
  };
  result.withdraw = [store = std::move(store), key] { store->remove(key); };
}

// The others' part.
void follow(const Deadline& deadline, Store& store, const std::string& key, Rendezvous& result) {
  const LobbyWords invitation = invitation_of(store.get(key, deadline));
  if (is_loopback(invitation.lobby) && invitation.loopback != loopback_id()) {
    throw Error(ErrorCode::invalid_argument,
                "rank 0 can be reached at " + invitation.lobby +
                    " only, which is loopback, and this rank is on another host; on the host of rank 0 set "
                    "TUTTI_INTERFACE to an interface that the other hosts reach, or see to it that its name does not "
                    "resolve to loopback",
                0);
  }
  if (result.token.has_value() == !invitation.token.empty()) {
    const bool here = result.token.has_value();
    throw Error(ErrorCode::invalid_argument,
                std::string(here ? "this rank has a token of its own, but rank 0 has none"
                                 : "rank 0 has a token of its own, but this rank has none") +
                    "; set TUTTI_TOKEN_FILE on all hosts, or on none",
                0);
  }
  if (!result.token) result.token = Token::from_hex(invitation.token);
  result.lobby = invitation.lobby;
}

}  // namespace

std::shared_ptr<Store> make_store(const Launch& launch, const Deadline& deadline) {
  if (launch.place == Place::pmix) return make_pmix_store(deadline);
  const Address at = parse(launch.where).value();
  return std::make_shared<TorchStore>(at.host, at.port, deadline);
}

Rendezvous arrange(const Launch& launch, const Environment& environment, unsigned meeting, const Deadline& deadline,
                   const Log& log, const MakeStore& store_of) {
  if (!launch.note.empty()) log.warn(launch.note);
  log.info(describe(launch));
  Rendezvous result;
  if (launch.place == Place::alone) return result;
  result.job = job_of(launch, meeting);
  result.keep_lobby = launch.rank == 0 && !launch.launcher_keeps_lobby;
  result.token_source = token_source(launch, environment);
  result.token = own_token(result.token_source, environment);
  // Once per job is enough for what concerns all ranks alike.
  if (launch.rank == 0) {
    const bool unsafe = result.token_source == TokenSource::torch_store;
    unsafe ? log.warn(describe(result.token_source)) : log.info(describe(result.token_source));
  }

  const std::string hash = hash_words(result.job);
  switch (launch.place) {
    case Place::alone: break;
    case Place::given: result.lobby = launch.where; break;
    case Place::unix_socket:
      result.lobby = "unix:@tutti-" + std::to_string(::geteuid()) + "-" + hash;
      result.refuge = [job = result.job, environment](bool make) { return refuge_of(job, environment, make); };
      break;
    case Place::first_host:
      result.lobby = endpoint_of(launch.where, static_cast<int>(kFirstPort + hash_of(result.job) % kPorts));
      break;
    case Place::torch_store:
    case Place::pmix:
    case Place::own_store: {
      std::shared_ptr<Store> store = store_of(launch, deadline);
      const std::string key = "tutti." + hash + ".lobby";
      if (launch.rank == 0) {
        invite(launch, environment, deadline, std::move(store), key, result);
      } else {
        follow(deadline, *store, key, result);
      }
      break;
    }
  }
  return result;
}

}  // namespace tutti::rendezvous
