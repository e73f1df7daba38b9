// What carries streams of messages between the processes of a job that do not all share memory. A process makes one,
// once; the transports of all its groups are made of it, and share what it has: connections, or endpoints.
//
// Whoever adds one has the engine, and the conformance suite, make it through a MakeFabric and nothing else.
#pragma once

#include <functional>
#include <memory>

#include "base/control.h"
#include "base/links.h"
#include "transport/stream_transport.h"

namespace tutti::transport {

struct FabricJob {
  int rank = 0;
  int ranks = 1;
  int channels = 1;  // of an edge, all of them
};

class Fabric {
 public:
  virtual ~Fabric() = default;
  // Of a group that this rank is in; it keeps the fabric. `control` may be nullptr. Throws Error(system).
  virtual std::unique_ptr<StreamTransport> make_transport(StreamGroup group, std::unique_ptr<Control> control,
                                                          StreamOptions options) = 0;
};

// `elsewhere`: rings where this rank's threads sleep, if not in the transport. Throws Error.
using MakeFabric = std::shared_ptr<Fabric> (*)(const FabricJob& job, std::shared_ptr<Links> links,
                                               std::function<void()> elsewhere);

}  // namespace tutti::transport
