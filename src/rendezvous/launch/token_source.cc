#include "rendezvous/launch/token_source.h"

#include <string>

#include "rendezvous/address.h"
#include "tutti/error.h"

namespace tutti::rendezvous {

TokenSource token_source(const Launch& launch, const Environment& environment) {
  if (launch.size == 1) return TokenSource::nobody_to_meet;
  if (environment.get("TUTTI_TOKEN")) return TokenSource::environment;
  if (environment.get("TUTTI_TOKEN_FILE")) return TokenSource::file;
  switch (launch.place) {
    case Place::alone: return TokenSource::nobody_to_meet;
    case Place::unix_socket: return TokenSource::kernel;
    case Place::torch_store: return TokenSource::torch_store;
    case Place::pmix: return TokenSource::pmix;
    case Place::own_store: return TokenSource::own_store;
    case Place::given:
      if (is_unix(launch.where)) return TokenSource::kernel;
      break;
    case Place::first_host: break;
  }
  throw Error(
      ErrorCode::invalid_argument,
      "the ranks meet over TCP at " + launch.where +
          ", but this one has no token, without which anybody could join; make one with `tutti token FILE`, copy "
          "it to all hosts with mode 0600, and set TUTTI_TOKEN_FILE=FILE on all ranks");
}

std::string_view describe(TokenSource source) {
  switch (source) {
    case TokenSource::nobody_to_meet: return "no token: there is nobody to meet";
    case TokenSource::environment: return "token from TUTTI_TOKEN";
    case TokenSource::file: return "token from TUTTI_TOKEN_FILE";
    case TokenSource::kernel: return "no token needed: the kernel vouches for the user at a UNIX socket";
    case TokenSource::torch_store:
      return "the token is agreed through torchrun's store, which is unauthenticated: whoever reaches its port can "
             "read "
             "it and join the job; set TUTTI_TOKEN_FILE on all hosts to rule that out (`tutti token FILE` makes one)";
    case TokenSource::pmix: return "token agreed through PMIx, where the runtime vouches for the processes of this job";
    case TokenSource::own_store:
      return "the token is agreed through the program's store, which whoever reads it could join by; set "
             "TUTTI_TOKEN_FILE on all hosts to rule that out (`tutti token FILE` makes one)";
  }
  return "";
}

}  // namespace tutti::rendezvous
