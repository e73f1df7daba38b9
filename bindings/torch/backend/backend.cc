#include "backend/backend.h"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>
#include <utility>

namespace tutti::pytorch {
namespace {

// Address space; memory is used where tensors are written.
constexpr std::size_t kPoolBytes = std::size_t{1} << 30;

at::Tensor tensor_in(const std::shared_ptr<void>& memory, at::IntArrayRef shape, at::ScalarType type) {
  return at::from_blob(
      memory.get(), shape, [held = std::shared_ptr<void>(memory)](void*) mutable { held.reset(); },
      at::TensorOptions().dtype(type));
}

// What older versions of PyTorch do not have.
template <class Base>
std::string uid_of(const Base& backend, const std::string& name) {
  if constexpr (requires { backend.getGroupUid(); }) {
    return backend.getGroupUid();
  } else {
    return name;
  }
}

template <class Options>
std::string name_of(const Options* options, const std::string& otherwise) {
  if constexpr (requires { options->group_name; }) {
    if (options != nullptr && !options->group_name.empty()) return options->group_name;
  }
  return otherwise;
}

template <class Store>
c10::intrusive_ptr<Store> another(const c10::intrusive_ptr<Store>& store) {
  if constexpr (requires { store->clone(); }) {
    return store->clone();
  } else {
    return store;
  }
}

}  // namespace

Backend::Backend(const c10::intrusive_ptr<c10d::Store>& store, const GroupOptions& options)
    : c10d::Backend(options.rank, options.size), group_(Group::meet(store, options)), name_(options.name) {}

Backend::Backend(std::shared_ptr<Group> group, const std::string& name)
    : c10d::Backend(group->rank(), group->size()), group_(std::move(group)), name_(name) {}

Backend::~Backend() { shutdown(); }

c10::intrusive_ptr<c10d::Backend::Options> Backend::getBackendOptions() { return group_->options(); }

// For profilers that count bytes: a row of its own, with what went in and out.
void Backend::record(const Call& call, std::uint64_t sequence) const {
  const auto total = [](at::TensorList tensors) {
    std::int64_t count = 0;
    for (const at::Tensor& tensor : tensors) count += tensor.numel();
    return count;
  };
  const auto type = !call.inputs.empty()    ? call.inputs.front().scalar_type()
                    : !call.outputs.empty() ? call.outputs.front().scalar_type()
                                            : at::kByte;
  const Tensors inputs = call.inputs.vec(), outputs = call.outputs.vec();
  RECORD_PARAM_COMMS_DATA(std::make_tuple(static_cast<std::int64_t>(sequence), false),
                          std::make_tuple(uid_of<c10d::Backend>(*this, name_), getGroupDesc()), inputs, outputs,
                          getRank(), call.title.verb, total(inputs), total(outputs), type, std::vector<std::int64_t>(),
                          std::vector<std::int64_t>(), -1, -1, getSize());
}

void Backend::hold(Call& call, at::TensorList targets, at::TensorList outputs, at::TensorList sources) {
  call.keep(sources);
  call.keep(targets);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i].is_same(outputs[i])) continue;
    call.copies = [from = targets.vec(), to = outputs.vec()] {
      for (std::size_t j = 0; j < from.size(); ++j) copy_back(from[j], to[j]);
    };
    return;
  }
}

void Backend::setTimeout(Milliseconds timeout) { group_->set_timeout(timeout); }

void Backend::waitForPendingWorks() { group_->await_all(); }

void Backend::abort() { group_->abort(); }

void Backend::shutdown() { group_->leave(false); }

c10::intrusive_ptr<c10d::Backend> Backend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                 const std::vector<int>& ranks,
                                                 const c10::intrusive_ptr<c10d::Backend::Options>& options) {
  const auto mine = std::find(ranks.begin(), ranks.end(), getRank());
  if (mine == ranks.end()) return nullptr;
  GroupOptions child;
  child.rank = static_cast<int>(mine - ranks.begin());
  child.size = static_cast<int>(ranks.size());
  child.name = name_of(options.get(), name_ + " split");
  child.timeout = options != nullptr ? options->timeout : group_->timeout();
  return c10::make_intrusive<Backend>(another(store), child);
}

c10::intrusive_ptr<c10d::Backend> Backend::merge(const c10::intrusive_ptr<c10d::Store>& store,
                                                 const c10::intrusive_ptr<c10d::Backend::Options>& options,
                                                 const int& rank, const int& size) {
  GroupOptions merged;
  merged.rank = rank;
  merged.size = size;
  merged.name = name_of(options.get(), "merged");
  merged.timeout = options != nullptr ? options->timeout : group_->timeout();
  return c10::make_intrusive<Backend>(another(store), merged);
}

c10::intrusive_ptr<Backend> Backend::duplicate(const std::string& name) {
  return c10::make_intrusive<Backend>(group_->duplicate(name), name);
}

at::Tensor Backend::empty_symmetric(at::IntArrayRef shape, at::ScalarType type) {
  for (const std::int64_t length : shape) {
    if (length < 0) throw_value("empty: a length is negative, " + std::to_string(length));
  }
  const auto count = static_cast<std::size_t>(c10::multiply_integers(shape));
  // An empty tensor takes part, too, so that the ranks stay in step.
  return tensor_in(group_->allocate(std::max<std::size_t>(count * c10::elementSize(type), 1)), shape, type);
}

std::shared_ptr<Pool> Backend::pool() {
  const std::lock_guard lock(pool_mutex_);
  if (!pool_) pool_ = std::make_shared<Pool>(group_->allocate(kPoolBytes), kPoolBytes);
  return pool_;
}

bool Backend::supportsTensorAlloc(c10::DeviceIndex /*device*/) { return true; }

at::Tensor Backend::allocateTensor(long size, at::TensorOptions options) {
  if (options.device().type() != c10::DeviceType::CPU) return at::empty({size}, options);  // all of it serves
  const at::ScalarType type = c10::typeMetaToScalarType(options.dtype());
  const auto memory = pool()->take(static_cast<std::size_t>(size) * c10::elementSize(type));
  return memory ? tensor_in(memory, {size}, type) : at::empty({size}, options);
}

}  // namespace tutti::pytorch
