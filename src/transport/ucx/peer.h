// Another process of the job, as the fabric knows it. The lock of the fabric guards it, but for `breakage`.
#pragma once

#include <ucp/api/ucp.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "transport/breakage.h"
#include "transport/ucx/link.h"
#include "transport/ucx/stream.h"
#include "transport/ucx/worker.h"

namespace tutti::transport {

struct UcxPeer {
  UcxWorker::Listener* listener = nullptr;
  int rank = 0;
  bool wanted = false;  // a link was asked for, or is there
  UcxLink link;
  Breakage breakage;

  // What its hello has said, once `opened`.
  bool opened = false;
  std::uint64_t told = 0;
  std::uint64_t their_key = 0;
  std::uint64_t our_key = 0;  // what it was told
  ucp_ep_h endpoint = nullptr;
  std::vector<Parcel*> early;  // sent before there was an endpoint

  std::map<std::uint64_t, std::unique_ptr<UcxStreams>> groups;
  std::chrono::steady_clock::time_point heard{};

  // For the end: messages of all groups. UCX does not bear the end of an endpoint that is still being made, at either
  // end: it is made once it was flushed.
  bool settled = false, flushing = false;
  bool lost = false;            // UCX has given it up
  std::uint32_t under_way = 0;  // parcels that UCX has, for it or from it
  std::uint64_t sent = 0, arrivals = 0;
  std::optional<std::uint64_t> last_sent;  // it ends, and has sent so many
  bool confirmed = false;                  // it has all that was sent to it, and its endpoint is settled

  bool usable() const { return endpoint != nullptr && !breakage.noted(); }
};

}  // namespace tutti::transport
