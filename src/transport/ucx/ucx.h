// Streams over UCX, which finds the best way that two processes have: InfiniBand, RoCE, shared memory, TCP.
//
// This header needs nothing of UCX: it is there in every build. UCX itself is loaded when it is first asked for.
#pragma once

#include <functional>
#include <memory>

#include "base/links.h"
#include "transport/fabric.h"

namespace tutti::transport {

// Throws Error(unsupported), in a sentence, where this build or this machine has no UCX.
void require_ucx();

// A MakeFabric. Throws Error(unsupported) as well, and Error(system) where UCX finds no way to talk.
std::shared_ptr<Fabric> make_ucx_fabric(const FabricJob& job, std::shared_ptr<Links> links,
                                        std::function<void()> elsewhere);

}  // namespace tutti::transport
