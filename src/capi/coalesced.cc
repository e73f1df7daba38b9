// Several tensors in one operation.
#include "tutti/coalesced.h"

#include "capi/errors.h"
#include "capi/handles.h"
#include "capi/operators.h"

using namespace tutti::capi;

extern "C" {

tutti_code tutti_all_reduce_coalesced(tutti_comm comm, void* const* buffers, const size_t* counts, size_t tensors,
                                      tutti_type type, tutti_op op) {
  return guarded([&] {
    constexpr const char* kWhere = "all_reduce_coalesced";
    tutti::Communicator& communicator = communicator_of(comm);
    if (tensors != 0) {
      place(buffers, "all_reduce_coalesced: buffers");
      place(counts, "all_reduce_coalesced: counts");
    }
    const tutti::Element element = element_of(type, kWhere);
    const tutti::Op operation = op_of(op, type, kWhere);
    tutti::all_reduce_coalesced(communicator, {buffers, tensors}, {counts, tensors}, element, operation);
  });
}

}  // extern "C"
