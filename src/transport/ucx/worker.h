// A context and a worker of UCX, and their descriptors, as the fabric uses them. Nothing here has a lock: one thread at
// a time, and what UCX has to say it says to the Listener, on the thread that calls.
#pragma once

#include <ucp/api/ucp.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "transport/ucx/stream.h"

namespace tutti::transport {

class UcxWorker {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    // Whether `data` is kept, to be fetched or released later.
    virtual bool arrive(const UcxHeader& header, void* data, std::size_t bytes, bool rendezvous) = 0;
    // It has left, or come, or neither.
    virtual void end(Parcel& parcel, bool good) = 0;
    virtual void flushed(UcxPeer& peer, bool good) = 0;
    // UCX has given the endpoint up.
    virtual void broken(UcxPeer& peer, int number) = 0;
  };

  // Throws Error.
  UcxWorker(Listener& listener, int ranks);
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  // For endpoints of others.
  std::vector<std::byte> address() const;
  // Readable when something happens after arm() was true.
  int descriptor() const { return descriptor_; }
  bool arm() { return arm_status() == UCS_OK; }
  // Whether there was something to do.
  bool progress();

  // nullptr where UCX cannot make it.
  ucp_ep_h connect(std::span<const std::byte> address, UcxPeer& peer);
  // The listener hears of their end, maybe before they return.
  void send(ucp_ep_h endpoint, Parcel& parcel, bool rendezvous);
  void fetch(void* data, Parcel& parcel);
  void flush(ucp_ep_h endpoint, UcxPeer& peer);
  void release(void* data);
  // It is left as it is for the rest of the process, with the memory that it may still use: UCX aborts where an
  // endpoint ends with something under way.
  void abandon(std::unique_ptr<Parcels> parcels);
  // With nothing under way. `broken`: those that UCX has given up. Whether all are closed before the time is over.
  bool close(std::span<const ucp_ep_h> good, std::span<const ucp_ep_h> broken, std::chrono::nanoseconds at_most);

 private:
  ucs_status_t arm_status();
  static ucs_status_t take_message(void* self, const void* header, std::size_t header_bytes, void* data,
                                   std::size_t bytes, const ucp_am_recv_param_t* param);

  Listener& listener_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int descriptor_ = -1;
  bool abandoned_ = false;
};

}  // namespace tutti::transport
