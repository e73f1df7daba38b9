// The operations of the whole group.
#include <algorithm>

#include "backend/backend.h"
#include "backend/titles.h"

namespace tutti::pytorch {
namespace {

// Coalesced tensors of at least this size are reduced where they lie; smaller ones are gathered first.
constexpr std::size_t kAlone = 256 << 10;

// Those that are reduced together: tensors of one type, in their order.
struct Bundle {
  Tensors tensors;
  at::Tensor buffer;
};

std::vector<Bundle> bundles_of(const Tensors& tensors) {
  std::vector<Bundle> bundles;
  for (const at::Tensor& tensor : tensors) {
    if (bytes_of(tensor) >= kAlone) continue;
    const auto same = std::find_if(bundles.begin(), bundles.end(), [&](const Bundle& bundle) {
      return bundle.tensors.front().scalar_type() == tensor.scalar_type();
    });
    (same == bundles.end() ? bundles.emplace_back() : *same).tensors.push_back(tensor);
  }
  for (const at::Tensor& tensor : tensors) {
    if (bytes_of(tensor) >= kAlone) bundles.push_back({{tensor}, {}});
  }
  for (Bundle& bundle : bundles) {
    const bool alone = bundle.tensors.size() == 1;
    bundle.buffer = alone ? plain_input(bundle.tensors.front()) : gathered_copy(bundle.tensors);
  }
  return bundles;
}

}  // namespace

C10dWork Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const Title& title = kBroadcast;
  require_one(tensors, title.verb);
  require_root(options.rootRank, title.verb);
  const at::Tensor& tensor = tensors.front();
  const bool root = options.rootRank == getRank();
  Call call{title, tensors, tensors};
  const at::Tensor buffer = root ? plain_input(tensor) : plain_output(tensor);
  if (!root && !buffer.is_same(tensor)) call.copies = [=] { copy_back(buffer, tensor); };
  call.kept.push_back(buffer);
  return launch(call, manner_of(options), [&](Parts& parts) {
    parts.add([&](tutti_comm to, tutti_work* handle) {
      return tutti_broadcast(to, buffer.const_data_ptr(), buffer.data_ptr(), count_of(buffer), type_to_move(buffer),
                             static_cast<int>(options.rootRank), handle);
    });
  });
}

C10dWork Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const Title& title = kAllReduce;
  if (tensors.size() == 1 && tensors.front().is_sparse()) return allreduce_sparse(tensors, options);
  require_one(tensors, title.verb);
  const at::Tensor& tensor = tensors.front();
  const tutti_type type = type_to_reduce(tensor, title.verb);
  const Operator op(options.reduceOp);
  Call call{title, tensors, tensors};
  const at::Tensor buffer = plain_input(tensor);
  if (!buffer.is_same(tensor)) call.copies = [=] { copy_back(buffer, tensor); };
  call.kept.push_back(buffer);
  return launch(call, manner_of(options), [&](Parts& parts) {
    parts.add([&](tutti_comm to, tutti_work* handle) {
      return tutti_all_reduce(to, buffer.const_data_ptr(), buffer.data_ptr(), count_of(buffer), type, op.get(), handle);
    });
  });
}

C10dWork Backend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  const Title& title = kAllReduceCoalesced;
  for (const at::Tensor& tensor : tensors) {
    require_usable(tensor, title.verb);
    static_cast<void>(type_to_reduce(tensor, title.verb));
  }
  const Operator op(options.reduceOp);
  Call call{title, tensors, tensors};
  std::vector<Bundle> bundles = bundles_of(tensors);
  for (const Bundle& bundle : bundles) call.kept.push_back(bundle.buffer);
  const bool copies = std::any_of(bundles.begin(), bundles.end(), [](const Bundle& bundle) {
    return bundle.tensors.size() > 1 || !bundle.buffer.is_same(bundle.tensors.front());
  });
  if (copies) {
    call.copies = [bundles] {
      for (const Bundle& bundle : bundles) {
        if (bundle.tensors.size() > 1) {
          scatter_back(bundle.buffer, bundle.tensors);
        } else {
          copy_back(bundle.buffer, bundle.tensors.front());
        }
      }
    };
  }
  return launch(call, manner_of(options), [&](Parts& parts) {
    for (const Bundle& bundle : bundles) {
      const at::Tensor& buffer = bundle.buffer;
      parts.add([&](tutti_comm to, tutti_work* handle) {
        return tutti_all_reduce(to, buffer.const_data_ptr(), buffer.data_ptr(), count_of(buffer),
                                type_to_reduce(buffer, title.verb), op.get(), handle);
      });
    }
  });
}

C10dWork Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const Title& title = kReduce;
  require_one(tensors, title.verb);
  require_root(options.rootRank, title.verb);
  const at::Tensor& tensor = tensors.front();
  const tutti_type type = type_to_reduce(tensor, title.verb);
  const Operator op(options.reduceOp);
  Call call{title, tensors, tensors};
  const at::Tensor buffer = plain_input(tensor);
  const bool root = options.rootRank == getRank();
  if (root && !buffer.is_same(tensor)) call.copies = [=] { copy_back(buffer, tensor); };
  call.kept.push_back(buffer);
  return launch(call, manner_of(options), [&](Parts& parts) {
    parts.add([&](tutti_comm to, tutti_work* handle) {
      return tutti_reduce(to, buffer.const_data_ptr(), root ? buffer.data_ptr() : nullptr, count_of(buffer), type,
                          op.get(), static_cast<int>(options.rootRank), handle);
    });
  });
}

C10dWork Backend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                 const c10d::ReduceScatterOptions& options) {
  const Title& title = kReduceScatter;
  require_one(outputs, title.verb);
  if (inputs.size() != 1) throw_value("reduce_scatter: one list of inputs is needed, not " + c10::str(inputs.size()));
  const Tensors& chunks = inputs.front();
  require_ranks(chunks, title.verb);
  const at::Tensor& output = outputs.front();
  require_same_type(output, chunks.front(), title.verb);
  require_own_part(output, chunks, title.verb, "the output", "inputs");
  const tutti_type type = type_to_reduce(output, title.verb);
  const Operator op(options.reduceOp);
  Call call{title, chunks, outputs};
  const at::Tensor target = plain_output(output);
  if (!target.is_same(output)) call.copies = [=] { copy_back(target, output); };
  const Layout layout = layout_of(chunks);
  const TensorList list(chunks, layout, TensorList::Use::input);
  call.keep(list.held());
  call.kept.push_back(target);
  return launch(call, manner_of(options), [&](Parts& parts) {
    parts.add([&](tutti_comm to, tutti_work* handle) {
      if (layout == Layout::joined) {
        return tutti_reduce_scatter(to, list.base(), target.data_ptr(), count_of(target), type, op.get(), handle);
      }
      return tutti_reduce_scatter_v(to, list.base(), list.counts(), list.displacements(), target.data_ptr(), type,
                                    op.get(), handle);
    });
  });
}

C10dWork Backend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                       const c10d::ReduceScatterOptions& options) {
  Tensors outputs{output}, inputs{input};
  return scatter_sums(kReduceScatterTensor, outputs, inputs, options);
}

C10dWork Backend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                  const c10d::ReduceScatterOptions& options) {
  return scatter_sums(kReduceScatterCoalesced, outputs, inputs, options);
}

C10dWork Backend::scatter_sums(const Title& title, const Tensors& outputs, const Tensors& inputs,
                               const c10d::ReduceScatterOptions& options) {
  require_pairs(outputs, inputs, title.verb);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    require_times_ranks(outputs[i], inputs[i], title.verb, "the input", "the output");
    static_cast<void>(type_to_reduce(outputs[i], title.verb));
  }
  const Operator op(options.reduceOp);
  Call call{title, inputs, outputs};
  Tensors targets, sources;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    targets.push_back(plain_output(outputs[i]));
    sources.push_back(plain_input(inputs[i]));
  }
  hold(call, targets, outputs, sources);
  return launch(call, manner_of(options), [&](Parts& parts) {
    for (std::size_t i = 0; i < targets.size(); ++i) {
      parts.add([&](tutti_comm to, tutti_work* handle) {
        return tutti_reduce_scatter(to, sources[i].const_data_ptr(), targets[i].data_ptr(), count_of(targets[i]),
                                    type_to_reduce(targets[i], title.verb), op.get(), handle);
      });
    }
  });
}

C10dWork Backend::barrier(const c10d::BarrierOptions& options) {
  Call call{kBarrier, {}, {}};
  return launch(call, manner_of(options), [&](Parts& parts) {
    parts.add([&](tutti_comm to, tutti_work* handle) { return tutti_barrier(to, handle); });
  });
}

}  // namespace tutti::pytorch
