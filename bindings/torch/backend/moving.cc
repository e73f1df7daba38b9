// The operations that move chunks between all ranks without reducing them.
#include "backend/backend.h"
#include "backend/titles.h"

namespace tutti::pytorch {
namespace {

using Use = TensorList::Use;

// The layout that all ranks come to which know one of the equal tensors only.
Layout layout_of_equals(const at::Tensor& one, std::size_t ranks) { return layout_of(Tensors(ranks, one)); }

}  // namespace

C10dWork Backend::allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  const Title& title = kAllGather;
  require_one(inputs, title.verb);
  if (outputs.size() != 1) throw_value("all_gather: one list of outputs is needed, not " + c10::str(outputs.size()));
  return allgather_lists(title, outputs, inputs, manner_of(options));
}

C10dWork Backend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                      const c10d::AllgatherOptions& options) {
  const Title& title = kAllGatherCoalesced;
  // PyTorch passes a list of tensors per rank; the core wants a list of ranks per tensor.
  if (outputs.size() != ranks()) {
    throw_value("all_gather_coalesced: one list of outputs per rank is needed, " + c10::str(ranks()) + ", not " +
                c10::str(outputs.size()));
  }
  std::vector<Tensors> by_input(inputs.size());
  for (const Tensors& of_rank : outputs) {
    require_pairs(of_rank, inputs, title.verb);
    for (std::size_t i = 0; i < inputs.size(); ++i) by_input[i].push_back(of_rank[i]);
  }
  return allgather_lists(title, by_input, inputs, manner_of(options));
}

C10dWork Backend::allgather_lists(const Title& title, const std::vector<Tensors>& outputs, const Tensors& inputs,
                                  const Manner& manner) {
  std::vector<TensorList> lists;
  std::vector<std::function<void()>> copies;
  Tensors sources, all_outputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    require_usable(inputs[i], title.verb);
    require_ranks(outputs[i], title.verb);
    require_same_type(inputs[i], outputs[i].front(), title.verb);
    require_own_part(inputs[i], outputs[i], title.verb, "the input", "outputs");
    all_outputs.insert(all_outputs.end(), outputs[i].begin(), outputs[i].end());
  }
  Call call{title, inputs, all_outputs};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TensorList& list = lists.emplace_back(outputs[i], layout_of(outputs[i]), Use::output);
    sources.push_back(plain_input(inputs[i]));
    call.kept.push_back(sources.back());
    call.keep(list.held());
    if (auto copy = list.copies_to(outputs[i])) copies.push_back(std::move(copy));
  }
  if (!copies.empty()) {
    call.copies = [copies = std::move(copies)] {
      for (const auto& copy : copies) copy();
    };
  }
  return launch(call, manner, [&](Parts& parts) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const at::Tensor& source = sources[i];
      const TensorList& list = lists[i];
      parts.add([&](tutti_comm to, tutti_work* handle) {
        const tutti_type type = type_to_move(source);
        if (layout_of(outputs[i]) == Layout::joined)
          return tutti_all_gather(to, source.const_data_ptr(), list.base(), count_of(source), type, handle);
        return tutti_all_gather_v(to, source.const_data_ptr(), count_of(source), list.base(), list.counts(),
                                  list.displacements(), type, handle);
      });
    }
  });
}

C10dWork Backend::_allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  return gather_tensors(kAllGatherTensor, {output}, {input}, manner_of(options));
}

C10dWork Backend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                  const c10d::AllgatherOptions& options) {
  return gather_tensors(kAllGatherTensors, outputs, inputs, manner_of(options));
}

C10dWork Backend::gather_tensors(const Title& title, const Tensors& outputs, const Tensors& inputs,
                                 const Manner& manner) {
  require_pairs(outputs, inputs, title.verb);
  Tensors targets, sources;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    require_times_ranks(inputs[i], outputs[i], title.verb, "the output", "the input");
    targets.push_back(plain_output(outputs[i]));
    sources.push_back(plain_input(inputs[i]));
  }
  Call call{title, inputs, outputs};
  hold(call, targets, outputs, sources);
  return launch(call, manner, [&](Parts& parts) {
    for (std::size_t i = 0; i < targets.size(); ++i) {
      parts.add([&](tutti_comm to, tutti_work* handle) {
        return tutti_all_gather(to, sources[i].const_data_ptr(), targets[i].data_ptr(), count_of(sources[i]),
                                type_to_move(sources[i]), handle);
      });
    }
  });
}

C10dWork Backend::gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  const Title& title = kGather;
  require_one(inputs, title.verb);
  require_root(options.rootRank, title.verb);
  const at::Tensor& input = inputs.front();
  const bool root = options.rootRank == getRank();
  if (root != (outputs.size() == 1)) {
    throw_value(root ? "gather: one list of outputs is needed at the root, not " + c10::str(outputs.size())
                     : std::string("gather: outputs are for the root alone"));
  }
  const Layout layout = layout_of_equals(input, ranks());
  Call call{title, inputs, root ? at::TensorList(outputs.front()) : at::TensorList()};
  std::optional<TensorList> list;
  if (root) {
    require_ranks(outputs.front(), title.verb);
    require_same_type(input, outputs.front().front(), title.verb);
    for (const at::Tensor& output : outputs.front())
      require_own_part(input, Tensors(ranks(), output), title.verb, "the input", "outputs");
    list.emplace(outputs.front(), layout, Use::output);
    call.keep(list->held());
    call.copies = list->copies_to(outputs.front());
  }
  const at::Tensor source = plain_input(input);
  call.kept.push_back(source);
  return launch(call, manner_of(options), [&](Parts& parts) {
    parts.add([&](tutti_comm to, tutti_work* handle) {
      const int at = static_cast<int>(options.rootRank);
      if (layout == Layout::joined) {
        return tutti_gather(to, source.const_data_ptr(), root ? list->base() : nullptr, count_of(source),
                            type_to_move(source), at, handle);
      }
      return tutti_gather_v(to, source.const_data_ptr(), count_of(source), root ? list->base() : nullptr,
                            root ? list->counts() : nullptr, root ? list->displacements() : nullptr,
                            type_to_move(source), at, handle);
    });
  });
}

C10dWork Backend::gather_into_tensor(at::Tensor& output, at::Tensor& input, const c10d::GatherOptions& options) {
  const Title& title = kGather;
  require_usable(input, title.verb);
  require_root(options.rootRank, title.verb);
  const bool root = options.rootRank == getRank();
  if (root) require_times_ranks(input, output, title.verb, "the output", "the input");
  Call call{title, input, root ? at::TensorList(output) : at::TensorList()};
  const at::Tensor source = plain_input(input), target = root ? plain_output(output) : at::Tensor();
  hold(call, root ? at::TensorList(target) : at::TensorList(), call.outputs, source);
  return launch(call, manner_of(options), [&](Parts& parts) {
    parts.add([&](tutti_comm to, tutti_work* handle) {
      return tutti_gather(to, source.const_data_ptr(), root ? target.data_ptr() : nullptr, count_of(source),
                          type_to_move(source), static_cast<int>(options.rootRank), handle);
    });
  });
}

C10dWork Backend::scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) {
  const Title& title = kScatter;
  require_one(outputs, title.verb);
  require_root(options.rootRank, title.verb);
  const at::Tensor& output = outputs.front();
  const bool root = options.rootRank == getRank();
  if (root != (inputs.size() == 1)) {
    throw_value(root ? "scatter: one list of inputs is needed at the root, not " + c10::str(inputs.size())
                     : std::string("scatter: inputs are for the root alone"));
  }
  const Layout layout = layout_of_equals(output, ranks());
  Call call{title, root ? at::TensorList(inputs.front()) : at::TensorList(), outputs};
  std::optional<TensorList> list;
  if (root) {
    require_ranks(inputs.front(), title.verb);
    require_same_type(output, inputs.front().front(), title.verb);
    for (const at::Tensor& input : inputs.front())
      require_own_part(output, Tensors(ranks(), input), title.verb, "the output", "inputs");
    list.emplace(inputs.front(), layout, Use::input);
    call.keep(list->held());
  }
  const at::Tensor target = plain_output(output);
  call.kept.push_back(target);
  if (!target.is_same(output)) call.copies = [=] { copy_back(target, output); };
  return launch(call, manner_of(options), [&](Parts& parts) {
    parts.add([&](tutti_comm to, tutti_work* handle) {
      const int at = static_cast<int>(options.rootRank);
      if (layout == Layout::joined) {
        return tutti_scatter(to, root ? list->base() : nullptr, target.data_ptr(), count_of(target),
                             type_to_move(target), at, handle);
      }
      return tutti_scatter_v(to, root ? list->base() : nullptr, root ? list->counts() : nullptr,
                             root ? list->displacements() : nullptr, target.data_ptr(), count_of(target),
                             type_to_move(target), at, handle);
    });
  });
}

C10dWork Backend::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                                std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& options) {
  const Title& title = kAllToAllSingle;
  require_usable({output, input}, title.verb);
  const bool equal = output_splits.empty() && input_splits.empty();
  const auto sent = counts_of_splits(input, input_splits, title.verb, "input");
  const auto received = counts_of_splits(output, output_splits, title.verb, "output");
  if (equal && input.numel() != output.numel()) {
    throw_value("all_to_all_single: the input has " + c10::str(input.numel()) + " elements and the output " +
                c10::str(output.numel()) + "; without splits they must have the same");
  }
  Call call{title, input, output};
  const at::Tensor source = plain_input(input), target = plain_output(output);
  hold(call, target, output, source);
  return launch(call, manner_of(options), [&](Parts& parts) {
    parts.add([&](tutti_comm to, tutti_work* handle) {
      const tutti_type type = type_to_move(source);
      if (equal) return tutti_all_to_all(to, source.const_data_ptr(), target.data_ptr(), sent.front(), type, handle);
      return tutti_all_to_all_v(to, source.const_data_ptr(), sent.data(), nullptr, target.data_ptr(), received.data(),
                                nullptr, type, handle);
    });
  });
}

C10dWork Backend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  const Title& title = kAllToAll;
  require_ranks(outputs, title.verb);
  require_ranks(inputs, title.verb);
  require_same_type(inputs.front(), outputs.front(), title.verb);
  Call call{title, inputs, outputs};
  const TensorList sent(inputs, Layout::apart, Use::input), received(outputs, Layout::apart, Use::output);
  call.keep(sent.held());
  call.keep(received.held());
  call.copies = received.copies_to(outputs);
  return launch(call, manner_of(options), [&](Parts& parts) {
    parts.add([&](tutti_comm to, tutti_work* handle) {
      return tutti_all_to_all_v(to, sent.base(), sent.counts(), sent.displacements(), received.base(),
                                received.counts(), received.displacements(), type_to_move(inputs.front()), handle);
    });
  });
}

}  // namespace tutti::pytorch
