// The verbs on tensors of libtorch, and the two steps that data parallel training in C++ is made of:
//
//   tutti::Communicator comm = tutti::init();
//   tutti::broadcast_parameters(comm, *model);   // once: all ranks begin with rank 0's
//   ...
//   loss.backward();
//   tutti::average_gradients(comm, *model);      // every step
//   optimizer.step();
//
// The quicker way is tutti/train/torch.h: gradients travel while backward runs, and lie where they are reduced.
//
// Header-only and not part of tutti.hpp: it needs libtorch (find_package(Torch)), of any version that compiles as
// C++20. examples/cpp_torch is a whole program.
//
// Tensors are dense and on the CPU. One that does not lie in memory in the order of its elements is copied on the way
// in and, where it is written, on the way out. All element types that the operators know can be reduced; any others
// (8-bit floats, for example) can be moved. Errors are those of the communicator, and Error(invalid_argument) or
// Error(unsupported) for a tensor that cannot be used, thrown before anything moves. Gradients are not recorded.
//
// Chunks are cut along the first dimension, as in PyTorch: all_gather makes {p * n, ...} of {n, ...}. Thread rule as
// for the communicator.
#pragma once

#include <ATen/MemoryOverlap.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/coalesced.h"
#include "tutti/communicator.h"

namespace tutti {

// The element type of a tensor; types that Tutti has no operators for count as bytes.
inline Element element_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kChar: return DType::int8;
    case at::kShort: return DType::int16;
    case at::kInt: return DType::int32;
    case at::kLong: return DType::int64;
    case at::kByte: return DType::uint8;
    case at::kUInt16: return DType::uint16;
    case at::kUInt32: return DType::uint32;
    case at::kUInt64: return DType::uint64;
    case at::kHalf: return DType::float16;
    case at::kBFloat16: return DType::bfloat16;
    case at::kFloat: return DType::float32;
    case at::kDouble: return DType::float64;
    case at::kComplexFloat: return DType::complex64;
    case at::kComplexDouble: return DType::complex128;
    case at::kBool: return DType::boolean;
    default: return Element::of_bytes(tensor.element_size());
  }
}

namespace tensor_memory {

enum class Use { read, written };

[[noreturn]] inline void refuse(ErrorCode code, std::string_view verb, const std::string& words) {
  throw Error(code, std::string(verb) + ": " + words);
}

inline void check(std::string_view verb, const at::Tensor& tensor, Use use) {
  if (!tensor.defined()) refuse(ErrorCode::invalid_argument, verb, "the tensor is undefined; pass one with memory");
  if (!tensor.device().is_cpu()) {
    refuse(ErrorCode::unsupported, verb, "the tensor is on " + tensor.device().str() + "; move it with .cpu() first");
  }
  if (tensor.layout() != at::kStrided || tensor.is_quantized()) {
    refuse(ErrorCode::unsupported, verb, "the tensor is not dense; call .to_dense() or .dequantize() first");
  }
  if (use == Use::written && at::has_internal_overlap(tensor) == at::MemOverlap::Yes) {
    refuse(ErrorCode::invalid_argument, verb,
           "elements of the tensor share memory (expand?); call .contiguous() first");
  }
}

// The memory of a tensor for the time of one call: its own, or a copy in the order of its elements.
class Lent {
 public:
  Lent(std::string_view verb, const at::Tensor& tensor, Use use) : tensor_(tensor) {
    check(verb, tensor, use);
    const at::NoGradGuard quiet;
    // What is to be conjugated or negated when it is looked at lies in memory as it was before.
    memory_ = tensor.detach().resolve_conj().resolve_neg().contiguous();
    if (use == Use::written && !tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
  }

  void* data() const { return memory_.data_ptr(); }
  std::size_t count() const { return static_cast<std::size_t>(memory_.numel()); }
  Element element() const { return element_of(memory_); }
  // After a call that wrote.
  void give_back() const {
    const at::NoGradGuard quiet;
    if (memory_.data_ptr() != tensor_.data_ptr()) tensor_.detach().copy_(memory_);
  }

 private:
  at::Tensor tensor_, memory_;
};

inline void same_type(std::string_view verb, const at::Tensor& input, const at::Tensor& output) {
  if (input.scalar_type() == output.scalar_type()) return;
  refuse(ErrorCode::invalid_argument, verb,
         std::string("input is ") + c10::toString(input.scalar_type()) + " and output is " +
             c10::toString(output.scalar_type()) + "; use one type");
}

// {n, ...} with n replaced; a single number counts as one row.
inline std::vector<std::int64_t> rows_of(const at::Tensor& tensor, std::int64_t rows) {
  std::vector<std::int64_t> shape = tensor.sizes().vec();
  if (shape.empty()) shape.push_back(1);
  shape[0] = rows;
  return shape;
}
inline std::int64_t rows(const at::Tensor& tensor) { return tensor.dim() == 0 ? 1 : tensor.size(0); }

inline std::int64_t chunk_rows(std::string_view verb, const at::Tensor& tensor, int ranks) {
  if (tensor.dim() > 0 && tensor.size(0) % ranks == 0) return tensor.size(0) / ranks;
  refuse(ErrorCode::invalid_argument, verb,
         "the first dimension of the input, " + std::to_string(rows(tensor)) + ", is no multiple of the " +
             std::to_string(ranks) + " ranks");
}

inline void run(Communicator& comm, Verb verb, const at::Tensor& input, const at::Tensor& output,
                const Op& op = ReduceOp::sum, int root = 0) {
  same_type(name_of(verb), input, output);
  const Lent from(name_of(verb), input, Use::read), to(name_of(verb), output, Use::written);
  comm.run({.verb = verb,
            .input = from.data(),
            .output = to.data(),
            .input_count = from.count(),
            .output_count = to.count(),
            .element = from.element(),
            .op = op,
            .root = root});
  to.give_back();
}

inline void run_in_place(Communicator& comm, Verb verb, const at::Tensor& tensor, const Op& op = ReduceOp::sum,
                         int root = 0) {
  const bool writes = verb != Verb::reduce || comm.rank() == root;
  const Lent memory(name_of(verb), tensor, writes ? Use::written : Use::read);
  comm.run({.verb = verb,
            .input = memory.data(),
            .output = memory.data(),
            .input_count = memory.count(),
            .output_count = memory.count(),
            .element = memory.element(),
            .op = op,
            .root = root});
  if (writes) memory.give_back();
}

}  // namespace tensor_memory

// ---- In place.

inline void all_reduce(Communicator& comm, const at::Tensor& tensor, const Op& op = ReduceOp::sum) {
  tensor_memory::run_in_place(comm, Verb::all_reduce, tensor, op);
}
// At the root; elsewhere the tensor is left alone.
inline void reduce(Communicator& comm, const at::Tensor& tensor, int root, const Op& op = ReduceOp::sum) {
  tensor_memory::run_in_place(comm, Verb::reduce, tensor, op, root);
}
inline void broadcast(Communicator& comm, const at::Tensor& tensor, int root) {
  tensor_memory::run_in_place(comm, Verb::broadcast, tensor, ReduceOp::sum, root);
}

// ---- From one tensor to another: into one of the caller's, whose number of elements must fit, or into a new one.

inline void all_gather(Communicator& comm, const at::Tensor& input, const at::Tensor& output) {
  tensor_memory::run(comm, Verb::all_gather, input, output);
}
inline at::Tensor all_gather(Communicator& comm, const at::Tensor& input) {
  tensor_memory::check("all_gather", input, tensor_memory::Use::read);
  at::Tensor output =
      at::empty(tensor_memory::rows_of(input, comm.size() * tensor_memory::rows(input)), input.options());
  all_gather(comm, input, output);
  return output;
}

inline void reduce_scatter(Communicator& comm, const at::Tensor& input, const at::Tensor& output,
                           const Op& op = ReduceOp::sum) {
  tensor_memory::run(comm, Verb::reduce_scatter, input, output, op);
}
inline at::Tensor reduce_scatter(Communicator& comm, const at::Tensor& input, const Op& op = ReduceOp::sum) {
  tensor_memory::check("reduce_scatter", input, tensor_memory::Use::read);
  const std::int64_t rows = tensor_memory::chunk_rows("reduce_scatter", input, comm.size());
  at::Tensor output = at::empty(tensor_memory::rows_of(input, rows), input.options());
  reduce_scatter(comm, input, output, op);
  return output;
}

// At the root all ranks' inputs, one behind the other; an undefined tensor elsewhere.
inline at::Tensor gather(Communicator& comm, const at::Tensor& input, int root) {
  tensor_memory::check("gather", input, tensor_memory::Use::read);
  const bool collects = comm.rank() == root;
  const std::int64_t rows = collects ? comm.size() * tensor_memory::rows(input) : 0;
  at::Tensor output = at::empty(tensor_memory::rows_of(input, rows), input.options());
  const tensor_memory::Lent from("gather", input, tensor_memory::Use::read);
  comm.run({.verb = Verb::gather,
            .input = from.data(),
            .output = output.data_ptr(),
            .input_count = from.count(),
            .output_count = static_cast<std::size_t>(output.numel()),
            .element = from.element(),
            .root = root});
  return collects ? output : at::Tensor();
}

// `output` becomes this rank's chunk of root's input, which is not looked at elsewhere and may be undefined there.
inline void scatter(Communicator& comm, const at::Tensor& input, const at::Tensor& output, int root) {
  if (comm.rank() == root) {
    tensor_memory::run(comm, Verb::scatter, input, output, ReduceOp::sum, root);
    return;
  }
  const tensor_memory::Lent to("scatter", output, tensor_memory::Use::written);
  comm.run(
      {.verb = Verb::scatter, .output = to.data(), .output_count = to.count(), .element = to.element(), .root = root});
  to.give_back();
}

// Chunk r of the output is this rank's chunk of rank r's input.
inline void all_to_all(Communicator& comm, const at::Tensor& input, const at::Tensor& output) {
  tensor_memory::run(comm, Verb::all_to_all, input, output);
}
inline at::Tensor all_to_all(Communicator& comm, const at::Tensor& input) {
  tensor_memory::check("all_to_all", input, tensor_memory::Use::read);
  tensor_memory::chunk_rows("all_to_all", input, comm.size());
  at::Tensor output = at::empty(input.sizes(), input.options());
  all_to_all(comm, input, output);
  return output;
}
// Chunks of different numbers of rows, one per rank: what rank a sends to b must be what b expects from a.
inline at::Tensor all_to_all(Communicator& comm, const at::Tensor& input, const std::vector<std::int64_t>& sent_rows,
                             const std::vector<std::int64_t>& received_rows) {
  const tensor_memory::Lent from("all_to_all", input, tensor_memory::Use::read);
  const std::int64_t width = input.numel() / std::max<std::int64_t>(1, tensor_memory::rows(input));
  std::int64_t arriving = 0;
  const auto counts = [&](const std::vector<std::int64_t>& of_rows) {
    std::vector<std::size_t> elements;
    for (const std::int64_t rows : of_rows) elements.push_back(static_cast<std::size_t>(rows * width));
    return elements;
  };
  for (const std::int64_t rows : received_rows) arriving += rows;
  const std::vector<std::size_t> sent = counts(sent_rows), received = counts(received_rows);
  at::Tensor output = at::empty(tensor_memory::rows_of(input, arriving), input.options());
  comm.run({.verb = Verb::all_to_all,
            .input = from.data(),
            .output = output.data_ptr(),
            .input_count = from.count(),
            .output_count = static_cast<std::size_t>(output.numel()),
            .element = from.element(),
            .uneven = true,
            .input_parts = {.counts = sent},
            .output_parts = {.counts = received}});
  return output;
}

// ---- Messages: number of elements and type must agree.

inline void send(Communicator& comm, const at::Tensor& tensor, int peer, int tag = 0) {
  const tensor_memory::Lent from("send", tensor, tensor_memory::Use::read);
  comm.run({.verb = Verb::send_recv,
            .input = from.data(),
            .input_count = from.count(),
            .element = from.element(),
            .direction = Direction::send,
            .peer = peer,
            .tag = tag});
}
inline Received recv(Communicator& comm, const at::Tensor& tensor, int source, int tag = 0) {
  const tensor_memory::Lent to("recv", tensor, tensor_memory::Use::written);
  const Received received = comm.run({.verb = Verb::send_recv,
                                      .output = to.data(),
                                      .output_count = to.count(),
                                      .element = to.element(),
                                      .direction = Direction::receive,
                                      .peer = source,
                                      .tag = tag});
  to.give_back();
  return received;
}

// ---- Modules.

// Which of a module's parameters and buffers are meant, by name; without one, all.
using NameFilter = std::function<bool(const std::string& name)>;

namespace tensor_memory {

constexpr std::size_t kFlatBytes = 25 << 20;  // what travels as one

using Named = std::vector<std::pair<std::string, at::Tensor>>;

// FNV-1a: the same on every host, unlike std::hash.
class TextHash {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) hash_ = (hash_ ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  }
  // The first rank whose hash is not that of rank 0.
  std::optional<int> other_rank(Communicator& comm) const {
    std::vector<std::uint64_t> all(static_cast<std::size_t>(comm.size()));
    comm.all_gather(one(hash_), all);
    for (int rank = 0; rank < comm.size(); ++rank)
      if (all[static_cast<std::size_t>(rank)] != all[0]) return rank;
    return {};
  }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325;
};

// Throws Error(mismatch) that names a rank whose tensors have other names, shapes or types.
inline void check_alike(Communicator& comm, const Named& tensors, std::string_view what) {
  TextHash hash;
  for (const auto& [name, tensor] : tensors) {
    hash.add(name);
    hash.add(c10::toString(tensor.scalar_type()));
    for (const std::int64_t length : tensor.sizes()) hash.add(std::to_string(length) + ",");
  }
  if (const std::optional<int> rank = hash.other_rank(comm)) {
    throw Error(ErrorCode::mismatch,
                std::string(what) + ": the model of rank " + std::to_string(*rank) +
                    " has parameters of other names, shapes or types than that of rank 0; build the same on all ranks",
                *rank);
  }
}
// The same of the values of one, which lies in one piece.
inline void check_same_bits(Communicator& comm, const std::string& name, const at::Tensor& values) {
  TextHash hash;
  hash.add({static_cast<const char*>(values.data_ptr()), values.nbytes()});
  if (const std::optional<int> rank = hash.other_rank(comm)) {
    throw Error(ErrorCode::mismatch,
                "rank " + std::to_string(*rank) + " has other values of \"" + name +
                    "\" than rank 0, which all ranks of this axis hold alike; look for what it computes in another way",
                *rank);
  }
}

// Runs of tensors of one type, none much larger than kFlatBytes: f(run) each.
template <class F>
void by_type(const Named& tensors, F&& f) {
  std::map<at::ScalarType, std::vector<at::Tensor>> runs;
  std::map<at::ScalarType, std::size_t> bytes;
  for (const auto& [name, tensor] : tensors) {
    std::vector<at::Tensor>& run = runs[tensor.scalar_type()];
    run.push_back(tensor);
    if ((bytes[tensor.scalar_type()] += tensor.nbytes()) < kFlatBytes) continue;
    f(run);
    run.clear();
    bytes[tensor.scalar_type()] = 0;
  }
  for (auto& [type, run] : runs)
    if (!run.empty()) f(run);
}

inline Named parameters_and_buffers(const torch::nn::Module& module, const NameFilter& takes) {
  Named tensors;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    if (!takes || takes(name)) tensors.emplace_back(name, tensor);
  };
  for (const auto& parameter : module.named_parameters()) add(parameter.key(), parameter.value());
  for (const auto& buffer : module.named_buffers()) add(buffer.key(), buffer.value());
  return tensors;
}

// The gradients that any rank has; a rank that lacks one gets zeros, as its part of the mean. All ranks pass the same
// parameters.
inline Named shared_gradients(Communicator& comm, const torch::nn::Module& module) {
  Named parameters, gradients;
  std::vector<std::uint8_t> used;
  for (const auto& parameter : module.named_parameters()) {
    if (!parameter.value().requires_grad()) continue;
    parameters.emplace_back(parameter.key(), parameter.value());
    used.push_back(parameter.value().grad().defined() ? 1 : 0);
    if (used.back() != 0) check("average_gradients of " + parameter.key(), parameter.value().grad(), Use::written);
  }
  comm.all_reduce(used, ReduceOp::maximum);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, parameter] = parameters[i];
    if (used[i] == 0) continue;
    if (!parameter.grad().defined()) parameter.mutable_grad() = at::zeros_like(parameter);
    gradients.emplace_back(name, parameter.grad());
  }
  return gradients;
}

}  // namespace tensor_memory

// Parameters and buffers of all ranks become root's, bit for bit. Error(mismatch) where a rank has another model.
inline void broadcast_parameters(Communicator& comm, const torch::nn::Module& module, int root = 0,
                                 const NameFilter& takes = {}) {
  const at::NoGradGuard quiet;
  const tensor_memory::Named tensors = tensor_memory::parameters_and_buffers(module, takes);
  tensor_memory::check_alike(comm, tensors, "broadcast_parameters");
  tensor_memory::by_type(tensors, [&](const std::vector<at::Tensor>& run) {
    std::vector<at::Tensor> flat;
    std::vector<std::int64_t> lengths;
    for (const at::Tensor& tensor : run) {
      tensor_memory::check("broadcast_parameters", tensor, tensor_memory::Use::written);
      flat.push_back(tensor.detach().reshape({-1}));
      lengths.push_back(tensor.numel());
    }
    const at::Tensor packed = at::cat(flat);
    broadcast(comm, packed, root);
    if (comm.rank() == root) return;
    const std::vector<at::Tensor> parts = packed.split_with_sizes(lengths);
    for (std::size_t i = 0; i < run.size(); ++i) run[i].detach().copy_(parts[i].view(run[i].sizes()));
  });
}

// Every gradient of the module's parameters becomes the mean of all ranks', in few operations, once backward is done. A
// parameter that no rank has a gradient of keeps none. For optimizers of libtorch; tutti/train/torch.h is faster, with
// its own.
inline void average_gradients(Communicator& comm, const torch::nn::Module& module) {
  tensor_memory::by_type(tensor_memory::shared_gradients(comm, module), [&](const std::vector<at::Tensor>& run) {
    std::vector<tensor_memory::Lent> lent;
    std::vector<void*> data;
    std::vector<std::size_t> counts;
    lent.reserve(run.size());
    for (const at::Tensor& gradient : run) {
      lent.emplace_back("average_gradients", gradient, tensor_memory::Use::written);
      data.push_back(lent.back().data());
      counts.push_back(lent.back().count());
    }
    all_reduce_coalesced(comm, data, counts, lent.front().element(), ReduceOp::average);
    for (const tensor_memory::Lent& memory : lent) memory.give_back();
  });
}

}  // namespace tutti
