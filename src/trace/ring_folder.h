// The folder of the rings of one job, and who may use it: rings of ranks that still record are nobody else's to remove.
#pragma once

#include <cstdint>
#include <string>

#include "base/file_descriptor.h"

namespace tutti::trace {

// Whether a rank, of this job or another one, still records to a ring there.
bool is_in_use(const std::string& folder);

// A job's claim to a folder, from when it is found free until a ring of the job's is there. Of jobs that begin at once
// one has it.
class FolderClaim {
 public:
  // Makes the folder, and takes rings out of it that nobody records to any more. Never throws: where the folder cannot
  // be made, whoever makes a ring there will say so.
  explicit FolderClaim(const std::string& folder);

  // False: the folder is another job's.
  bool holds() const { return holds_; }

 private:
  FileDescriptor folder_;  // locked
  bool holds_ = true;
};

// A rank's hold on its job's folder, from before it says that it has ended until its part is merged: nobody claims the
// folder in between. Never throws, and does not wait for long.
class FolderHold {
 public:
  explicit FolderHold(const std::string& folder);

 private:
  FileDescriptor folder_;  // locked, beside others
};

// Where a job's trace goes that finds `file` taken: run.json becomes run.9f3c.json.
std::string file_beside(const std::string& file, std::uint64_t job);

}  // namespace tutti::trace
