// What the handles of tutti.h point at.
//
// A communicator's record is never freed nor used again, so that a copy of its handle can be told from a live one for
// as long as the process lives; all else goes with tutti_comm_free, or with the last call that is under way then. A
// work's record goes when it was waited for.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "tutti/communicator.h"
#include "tutti/tutti.h"

namespace tutti::capi {

struct Group {
  std::map<void*, std::shared_ptr<void>> memory;  // symmetric; calls under way end before it goes
  std::string last_algorithm;                     // as it was last asked for
  std::string trace_file;                         // likewise
  Communicator communicator;
};

// Throws where the handle is NULL or was freed.
Communicator& communicator_of(tutti_comm comm);
Group& group_of(tutti_comm comm);
// NULL where the communicator is not valid: this rank is in no group then.
tutti_comm handle_of(Communicator communicator);

// Runs the request, or starts it where a handle is wanted.
void carry_out(tutti_comm comm, const Request& request, tutti_work* work);
tutti_received to_c(const Received& received);
tutti_verb_counters to_c(const VerbCounters& counters);

}  // namespace tutti::capi

struct tutti_comm_s {
  std::shared_ptr<tutti::capi::Group> group;
};

struct tutti_memory_s {
  std::shared_ptr<void> memory;
};

struct tutti_work_s {
  std::shared_ptr<tutti::capi::Group> group;  // whose memory it may work in
  tutti::Work work;
  tutti_received* received = nullptr;  // filled in when the wait has ended
};
