// The PMIx store of a build that found no pmix.h: says so.
#include "rendezvous/launch/pmix_store.h"
#include "tutti/error.h"

namespace tutti::rendezvous {

std::unique_ptr<Store> make_pmix_store(const Deadline&) {
  throw Error(
      ErrorCode::unsupported,
      "this build of Tutti cannot use PMIx, because pmix.h was not found; set TUTTI_RENDEZVOUS=host:port on all "
      "ranks, a free port on the host of rank 0, or build Tutti with the PMIx headers");
}

}  // namespace tutti::rendezvous
