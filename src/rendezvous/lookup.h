// A name looked up on a thread of its own, because the system's resolver knows no deadline.
//
// Whoever loses patience drops the Lookup: its thread ends when the resolver does, and what it found goes with it.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "rendezvous/addresses.h"

namespace tutti::rendezvous {

class Lookup {
 public:
  // An address needs no thread and is done at once. Throws Error(system) where the system gives no thread or pipe.
  Lookup(const std::string& host, int port);

  bool done() const { return found_->done.load(std::memory_order_acquire); }
  // Readable once it is done; -1 where it was done at once.
  int descriptor() const { return waiting_.get(); }
  // Once done. That the descriptor is readable says so, but only the flag orders what was found before it is taken.
  Resolved take() {
    found_->done.wait(false, std::memory_order_acquire);
    return std::move(found_->resolved);
  }

 private:
  struct Found {
    Resolved resolved;
    std::atomic<bool> done{false};
  };

  std::shared_ptr<Found> found_ = std::make_shared<Found>();
  FileDescriptor waiting_;  // the reading end of a pipe, whose other end the thread closes
};

// Waits for it. What was not found in time is trouble like any other.
Resolved look_up(const std::string& host, int port, const Deadline& deadline);

}  // namespace tutti::rendezvous
