// UCX in a build without it: says so.
#include "transport/ucx/ucx.h"
#include "tutti/error.h"

namespace tutti::transport {

void require_ucx() {
  throw Error(ErrorCode::unsupported,
              "UCX was asked for (TUTTI_TRANSPORT=ucx), but this build of Tutti was made without it; set "
              "TUTTI_TRANSPORT=auto, or build Tutti with the headers of UCX (libucx-dev) and TUTTI_UCX=ON");
}

std::shared_ptr<Fabric> make_ucx_fabric(const FabricJob&, std::shared_ptr<Links>, std::function<void()>) {
  require_ucx();
  return nullptr;
}

}  // namespace tutti::transport
