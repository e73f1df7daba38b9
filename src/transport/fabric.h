// What carries streams of messages between the processes of a job that do not all share memory. A process makes one,
// once; the transports of all its groups are made of it, and share what it has: connections, or endpoints.
//
// Whoever adds one has the engine, and the conformance suite, make it through a MakeFabric and nothing else.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/control.h"
#include "base/hosts.h"
#include "base/links.h"
#include "transport/transport.h"

namespace tutti::transport {

struct FabricJob {
  int rank = 0;
  int ranks = 1;
  int channels = 1;  // of an edge, all of them
};

// A group of ranks of the job, of which this is the one at `rank`.
struct StreamGroup {
  int rank = 0;
  std::vector<int> ranks;  // of the job, by those of the group
  std::uint64_t number = 0;

  int size() const { return static_cast<int>(ranks.size()); }
};

struct StreamOptions {
  int channels = 1;
  int per_channel = 1;  // channels of an edge for one program: channel + n * channels, for n < per_channel
  Hosts hosts = {};     // which ranks share one, though they share no memory
  bool oversubscribed = false;
  // Where this rank's flags are elsewhere: what they say of its call on a channel.
  std::function<Statement(int)> said = {};
};

class StreamTransport : public Transport {
 public:
  // For those who sleep elsewhere instead of calling prepare_sleep() and sleep(): asks for a ring there as soon as
  // something has happened that none has followed yet.
  virtual void arm() = 0;
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
