// Several tensors in one operation.
#include "capi/errors.h"
#include "capi/handles.h"
#include "capi/operators.h"
#include "tutti/fusion.h"

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
    const tutti::Op operation = op_of(op, kWhere);
    size_t bytes = 0;
    for (size_t i = 0; i < tensors; ++i) {
      size_t tensor = 0;
      if (__builtin_mul_overflow(counts[i], element.bytes(), &tensor) || __builtin_add_overflow(bytes, tensor, &bytes))
        reject("all_reduce_coalesced: the tensors are larger than memory can be");
      if (tensor != 0 && buffers[i] == nullptr)
        reject("all_reduce_coalesced: tensor " + std::to_string(i) + " is NULL but has " + std::to_string(counts[i]) +
               " elements");
    }
    if (bytes == 0) return;
    if (bytes > ~size_t{0} / 2) reject("all_reduce_coalesced: the tensors are larger than memory can be");
    tutti::Fusion fusion(communicator, 2 * bytes);  // a half holds them all
    for (size_t i = 0; i < tensors; ++i) fusion.add(buffers[i], counts[i], element, operation);
    fusion.wait();
  });
}

}  // extern "C"
