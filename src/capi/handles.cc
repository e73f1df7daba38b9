#include "capi/handles.h"

#include <deque>
#include <mutex>

#include "capi/errors.h"

namespace tutti::capi {
namespace {

tutti_comm new_record() {
  static std::mutex mutex;
  static auto* const kRecords = new std::deque<tutti_comm_s>;  // outlives every caller, those at exit included
  const std::lock_guard lock(mutex);
  return &kRecords->emplace_back();
}

}  // namespace

Group& group_of(tutti_comm comm) {
  if (comm == nullptr) reject("the communicator is NULL: tutti_init failed, or a split left this rank out");
  if (comm->group == nullptr) reject("this communicator is no more: tutti_comm_free was called for it");
  return *comm->group;
}

Communicator& communicator_of(tutti_comm comm) { return group_of(comm).communicator; }

tutti_comm handle_of(Communicator communicator) {
  if (!communicator.valid()) return nullptr;
  auto group = std::make_shared<Group>(Group{{}, {}, {}, std::move(communicator)});
  const tutti_comm comm = new_record();
  comm->group = std::move(group);
  return comm;
}

void carry_out(tutti_comm comm, const Request& request, tutti_work* work) {
  Communicator& communicator = communicator_of(comm);
  if (work == nullptr) {
    communicator.run(request);
    return;
  }
  auto record = std::make_unique<tutti_work_s>();
  record->group = comm->group;
  record->work = communicator.submit(request);
  *work = record.release();
}

tutti_received to_c(const Received& received) { return {received.source, received.tag, received.count}; }

}  // namespace tutti::capi
