// What the operations are called, by people, by profiles and by PyTorch.
#pragma once

#include "backend/work.h"

namespace tutti::pytorch {

// Newer versions of PyTorch have names of their own for these; older ones call them like the plain operation.
template <class Type>
struct CoalescedTypes {
  static constexpr Type all_gather() {
    if constexpr (requires { Type::ALLGATHER_INTO_TENSOR_COALESCED; }) return Type::ALLGATHER_INTO_TENSOR_COALESCED;
    return Type::_ALLGATHER_BASE;
  }
  static constexpr Type reduce_scatter() {
    if constexpr (requires { Type::REDUCE_SCATTER_TENSOR_COALESCED; }) return Type::REDUCE_SCATTER_TENSOR_COALESCED;
    return Type::_REDUCE_SCATTER_BASE;
  }
};

using c10d::OpType;

inline constexpr Title kAllGather{OpType::ALLGATHER, "all_gather", "tutti:all_gather"};
inline constexpr Title kAllGatherTensor{OpType::_ALLGATHER_BASE, "all_gather_into_tensor",
                                        "tutti:all_gather_into_tensor"};
inline constexpr Title kAllGatherCoalesced{OpType::ALLGATHER_COALESCED, "all_gather_coalesced",
                                           "tutti:all_gather_coalesced"};
inline constexpr Title kAllGatherTensors{CoalescedTypes<OpType>::all_gather(), "all_gather_into_tensor_coalesced",
                                         "tutti:all_gather_into_tensor_coalesced"};
inline constexpr Title kAllReduce{OpType::ALLREDUCE, "all_reduce", "tutti:all_reduce"};
inline constexpr Title kAllReduceCoalesced{OpType::ALLREDUCE_COALESCED, "all_reduce_coalesced",
                                           "tutti:all_reduce_coalesced"};
inline constexpr Title kAllReduceSparse{OpType::_ALLREDUCE_SPARSE, "all_reduce", "tutti:all_reduce_sparse"};
inline constexpr Title kAllToAll{OpType::ALLTOALL, "all_to_all", "tutti:all_to_all"};
inline constexpr Title kAllToAllSingle{OpType::ALLTOALL_BASE, "all_to_all_single", "tutti:all_to_all_single"};
inline constexpr Title kBarrier{OpType::BARRIER, "barrier", "tutti:barrier"};
inline constexpr Title kBatch{OpType::COALESCED, "batch_isend_irecv", "tutti:batch_isend_irecv"};
inline constexpr Title kBroadcast{OpType::BROADCAST, "broadcast", "tutti:broadcast"};
inline constexpr Title kGather{OpType::GATHER, "gather", "tutti:gather"};
inline constexpr Title kReceive{OpType::RECV, "recv", "tutti:recv"};
inline constexpr Title kReceiveAny{OpType::RECVANYSOURCE, "recv", "tutti:recv_any_source"};
inline constexpr Title kReduce{OpType::REDUCE, "reduce", "tutti:reduce"};
inline constexpr Title kReduceScatter{OpType::REDUCE_SCATTER, "reduce_scatter", "tutti:reduce_scatter"};
inline constexpr Title kReduceScatterCoalesced{CoalescedTypes<OpType>::reduce_scatter(),
                                               "reduce_scatter_tensor_coalesced",
                                               "tutti:reduce_scatter_tensor_coalesced"};
inline constexpr Title kReduceScatterTensor{OpType::_REDUCE_SCATTER_BASE, "reduce_scatter_tensor",
                                            "tutti:reduce_scatter_tensor"};
inline constexpr Title kScatter{OpType::SCATTER, "scatter", "tutti:scatter"};
inline constexpr Title kSend{OpType::SEND, "send", "tutti:send"};

}  // namespace tutti::pytorch
