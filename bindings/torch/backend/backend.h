// torch.distributed's backend "tutti": every operation of c10d::Backend over a Group.
//
// A call with async_op=False runs on the caller's thread where nothing else of the group is under way; every other
// call is started and waited for through its Work. Which of the core's verbs an operation becomes depends only on what
// all ranks know alike (sizes, types, CPU or GPU), never on how this rank's tensors lie in memory or whether it waits:
// tensors that are not plain runs of elements go through copies.
#pragma once

#include <torch/version.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>
#include <vector>

#include "backend/devices.h"
#include "backend/group.h"
#include "backend/pool.h"
#include "backend/profile.h"
#include "backend/tensors.h"
#include "backend/work.h"

namespace tutti::pytorch {

using C10dWork = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

// From 2.8 on torch.distributed does without a Work of a call that has ended.
inline constexpr bool kWantsAllWorks = TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 8;

class Backend : public c10d::Backend {
 public:
  Backend(const c10::intrusive_ptr<c10d::Store>& store, const GroupOptions& options);
  Backend(std::shared_ptr<Group> group, const std::string& name);
  ~Backend() override;

  const std::string getBackendName() const override { return "tutti"; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions();
  bool supportsSplitting() const { return true; }
  bool supportsCoalescing() const { return true; }

  C10dWork broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  C10dWork allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  C10dWork allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  C10dWork allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  C10dWork reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  C10dWork allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  C10dWork _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  C10dWork allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                               const c10d::AllgatherOptions& options) override;
  C10dWork allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                           const c10d::AllgatherOptions& options) override;
  C10dWork gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  // Newer versions of PyTorch know this one.
  C10dWork gather_into_tensor(at::Tensor& output, at::Tensor& input, const c10d::GatherOptions& options);
  C10dWork scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override;
  C10dWork reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                          const c10d::ReduceScatterOptions& options) override;
  C10dWork _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                const c10d::ReduceScatterOptions& options) override;
  C10dWork reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                           const c10d::ReduceScatterOptions& options) override;
  C10dWork alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                         std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& options) override;
  C10dWork alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  C10dWork barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  C10dWork send(Tensors& tensors, int peer, int tag) override;
  C10dWork recv(Tensors& tensors, int peer, int tag) override;
  C10dWork recvAnysource(Tensors& tensors, int tag) override;
  void startCoalescing() override;
  C10dWork endCoalescing() override;

  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return sequence_.load(); }
  void setTimeout(Milliseconds timeout);
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 7
  c10d::ErrorType getError() { return group_->failed() ? c10d::ErrorType::COMM_ERROR : c10d::ErrorType::SUCCESS; }
#endif
  void waitForPendingWorks() override;
  void enableCollectivesTiming() override {}
  void abort();
  void shutdown();

  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<c10d::Backend::Options>& options);
  c10::intrusive_ptr<c10d::Backend> merge(const c10::intrusive_ptr<c10d::Store>& store,
                                          const c10::intrusive_ptr<c10d::Backend::Options>& options, const int& rank,
                                          const int& size);

  // A backend of the same ranks, whose calls are not mixed with those of this one: collective.
  c10::intrusive_ptr<Backend> duplicate(const std::string& name);
  const std::shared_ptr<Group>& group() const { return group_; }

  // Memory from a pool; the first of all calls is collective.
  std::shared_ptr<Pool> pool();
  bool supportsTensorAlloc(c10::DeviceIndex device);
  at::Tensor allocateTensor(long size, at::TensorOptions options);
  bool tuned() { return group_->tuned(); }
  tutti_mark mark() { return group_->mark(); }
  // A tensor in symmetric memory: collective, the same shape and type on every rank.
  at::Tensor empty_symmetric(at::IntArrayRef shape, at::ScalarType type);

 private:
  // What all calls have.
  struct Manner {
    bool async;
    Milliseconds timeout;
  };
  template <class Options>
  static Manner manner_of(const Options& options) {
    if constexpr (requires { options.asyncOp; }) return {options.asyncOp, options.timeout};
    return {true, options.timeout};
  }
  // The messages and works of an open startCoalescing().
  struct Coalescing {
    std::vector<tutti_message> messages;
    Tensors inputs, outputs, kept;
    std::vector<std::pair<at::Tensor, at::Tensor>> copies;  // from, to
    std::vector<C10dWork> works;
  };

  std::size_t ranks() const { return static_cast<std::size_t>(group_->size()); }
  // checks.cc: what must hold before the core is asked; they throw otherwise.
  void require_root(std::int64_t root, const char* verb) const;
  void require_one(const Tensors& tensors, const char* verb) const;
  // One tensor per rank.
  void require_ranks(const Tensors& tensors, const char* verb) const;
  // `alone` has as many elements as this rank's tensor of the list.
  void require_own_part(const at::Tensor& alone, const Tensors& list, const char* verb, const char* alone_name,
                        const char* list_name) const;
  // `all` has as many elements as one `part` per rank, and the same type.
  void require_times_ranks(const at::Tensor& part, const at::Tensor& all, const char* verb, const char* all_name,
                           const char* part_name) const;
  static void require_pairs(const Tensors& outputs, const Tensors& inputs, const char* verb);
  // The counts of a list of splits along the first dimension; none given: equal ones.
  std::vector<std::size_t> counts_of_splits(const at::Tensor& tensor, const std::vector<std::int64_t>& splits,
                                            const char* verb, const char* name) const;

  // Carries the call out by start(parts), which adds its parts. A blocking call on a version of PyTorch that can do
  // without gives no work.
  template <class Start>
  C10dWork launch(Call& call, const Manner& manner, Start&& start) {
    const bool blocking = !manner.async && !coalescing_ && group_->quiet();
    const std::uint64_t sequence = sequence_.fetch_add(1, std::memory_order_relaxed) + 1;
    const std::optional<c10::Device> gpu = gpu_of(call.inputs, call.outputs);
    if (at::hasCallbacks()) record(call, sequence);
    if (blocking) {
      const auto row = begin_row(call, false);
      group_->enter(manner.timeout, [&](tutti_comm comm) {
        follow_current_stream(comm, gpu);
        Parts parts(*group_, comm, nullptr);
        start(parts);
      });
      if (call.copies) call.copies();
      return kWantsAllWorks ? c10::make_intrusive<EndedWork>(getRank(), call, sequence) : nullptr;
    }
    const WorkPtr work = c10::make_intrusive<Work>(group_, std::move(call), sequence);
    group_->enter(manner.timeout, [&](tutti_comm comm) {
      follow_current_stream(comm, gpu);
      Parts parts(*group_, comm, work.get());
      try {
        start(parts);
      } catch (...) {
        work->follow();  // parts that were started go on
        throw;
      }
      work->follow();
    });
    if (coalescing_) coalescing_->works.push_back(work);
    return work;
  }
  // Lets the call keep sources and targets, and copy the targets to the outputs where they are not the same.
  static void hold(Call& call, at::TensorList targets, at::TensorList outputs, at::TensorList sources);
  C10dWork allgather_lists(const Title& title, const std::vector<Tensors>& outputs, const Tensors& inputs,
                           const Manner& manner);
  C10dWork gather_tensors(const Title& title, const Tensors& outputs, const Tensors& inputs, const Manner& manner);
  C10dWork scatter_sums(const Title& title, const Tensors& outputs, const Tensors& inputs,
                        const c10d::ReduceScatterOptions& options);
  // monitored_barrier.cc
  void collect_arrivals(int tag, Milliseconds limit, bool wait_all_ranks);
  C10dWork send_or_receive(const Title& title, Tensors& tensors, int peer, int tag, bool sends);
  void record(const Call& call, std::uint64_t sequence) const;

  std::shared_ptr<Group> group_;
  std::string name_;
  std::atomic<std::uint64_t> sequence_{0};
  std::atomic<int> monitored_barriers_{0};
  std::optional<Coalescing> coalescing_;
  std::mutex pool_mutex_;  // guards the making of pool_
  std::shared_ptr<Pool> pool_;
};

}  // namespace tutti::pytorch
