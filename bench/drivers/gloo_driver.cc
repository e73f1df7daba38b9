// gloo_driver: Gloo's collectives over its TCP transport as ranks that `tutti bench` measures.
//
// Options are made once per cell and copy of the buffers, as Gloo would have it in a loop; each call only runs.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <functional>
#include <map>

#include "tools/bench/driver/serve.h"

namespace tutti::bench {
namespace {

using Reduce = void (*)(void*, const void*, const void*, std::size_t);

template <class T>
Reduce reduce_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return &gloo::sum<T>;
    case ReduceOp::product: return &gloo::product<T>;
    case ReduceOp::minimum: return &gloo::min<T>;
    case ReduceOp::maximum: return &gloo::max<T>;
    default: return nullptr;
  }
}

// Calls with_type of the C++ type that Gloo reduces for `type`; false where it has none.
template <class WithType>
bool for_type(DType type, WithType&& with_type) {
  switch (type) {
    case DType::int8: with_type(std::int8_t()); return true;
    case DType::int32: with_type(std::int32_t()); return true;
    case DType::int64: with_type(std::int64_t()); return true;
    case DType::uint8: with_type(std::uint8_t()); return true;
    case DType::uint64: with_type(std::uint64_t()); return true;
    case DType::float32: with_type(float()); return true;
    case DType::float64: with_type(double()); return true;
    default: return false;
  }
}

std::shared_ptr<gloo::Context> meet(int rank, int ranks) {
  gloo::transport::tcp::attr attributes;
  attributes.iface = variable(kInterfaceVariable);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  gloo::rendezvous::FileStore store(variable(kDirectoryVariable));
  std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attributes);
  context->connectFullMesh(store, device);
  return context;
}

class Gloo {
 public:
  Gloo(int rank, int ranks) : rank_(rank), ranks_(ranks), context_(meet(rank, ranks)) {}

  static std::string about() { return "Gloo over TCP"; }

  std::string prepare(const Seat& seat) {
    seat_ = seat;
    calls_.clear();
    const Cell& cell = seat.cell;
    if (cell.symmetric) return "has no symmetric memory";
    if (!cell.algorithm.empty()) return "its algorithms have other names";
    switch (cell.verb) {
      case Verb::reduce_scatter:
      case Verb::scan:
      case Verb::exclusive_scan: return "Gloo has no such verb";
      case Verb::all_to_all:
      case Verb::all_gather:
      case Verb::gather:
      case Verb::scatter:
        if (cell.in_place) return "not in place";
        break;
      default: break;
    }
    bool has_op = true;
    const bool has_type = for_type(cell.type, [&](auto type) {
      using T = decltype(type);
      has_op = !is_reduction(cell.verb) || reduce_of<T>(cell.op) != nullptr;
    });
    return !has_type ? "Gloo has no such type" : !has_op ? "Gloo has no such operator" : "";
  }

  std::byte* memory(const Seat&, std::size_t, std::uint64_t bytes) {
    calls_.clear();
    return memory_.at_least(bytes);
  }

  void call(const Buffers& at) {
    std::function<void()>& run = calls_[{at.input, at.output}];
    if (!run) {
      for_type(seat_.cell.type, [&](auto type) { run = make_call<decltype(type)>(at); });
    }
    run();
  }

  void barrier() {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }
  static std::string algorithm() { return "-"; }

 private:
  template <class Options>
  static std::function<void()> calling(std::shared_ptr<Options> options, void (*verb)(Options&)) {
    return [options, verb] { verb(*options); };
  }

  template <class T>
  std::function<void()> make_call(const Buffers& at) {
    T *const input = reinterpret_cast<T*>(at.input), *const output = reinterpret_cast<T*>(at.output);
    const std::size_t count = seat_.cell.count, all = seat_.all();
    const int root = seat_.cell.root;
    const bool at_root = seat_.is_root();
    switch (seat_.cell.verb) {
      case Verb::all_reduce: {
        auto options = std::make_shared<gloo::AllreduceOptions>(context_);
        if (!seat_.cell.in_place) options->setInput(input, count);
        options->setOutput(output, count);
        options->setReduceFunction(reduce_of<T>(seat_.cell.op));
        return [options] { gloo::allreduce(*options); };
      }
      case Verb::reduce: {
        auto options = std::make_shared<gloo::ReduceOptions>(context_);
        spare_.resize(at_root ? 0 : count * sizeof(T));  // Gloo wants an output everywhere
        if (!seat_.cell.in_place) options->setInput(input, count);
        if (seat_.cell.in_place && !at_root) std::memcpy(spare_.data(), input, spare_.size());
        options->setOutput(at_root ? output : reinterpret_cast<T*>(spare_.data()), count);
        options->setRoot(root);
        options->setReduceFunction(reduce_of<T>(seat_.cell.op));
        return calling(options, &gloo::reduce);
      }
      case Verb::broadcast: {
        auto options = std::make_shared<gloo::BroadcastOptions>(context_);
        if (at_root && !seat_.cell.in_place) options->setInput(input, count);
        options->setOutput(output, count);
        options->setRoot(root);
        return calling(options, &gloo::broadcast);
      }
      case Verb::scatter: {
        auto options = std::make_shared<gloo::ScatterOptions>(context_);
        std::vector<T*> chunks;
        for (int rank = 0; at_root && rank < ranks_; ++rank)
          chunks.push_back(input + static_cast<std::size_t>(rank) * count);
        if (at_root) options->setInputs(chunks, count);
        options->setOutput(output, count);
        options->setRoot(root);
        return calling(options, &gloo::scatter);
      }
      case Verb::gather: {
        auto options = std::make_shared<gloo::GatherOptions>(context_);
        options->setInput(input, count);
        if (at_root) options->setOutput(output, all);
        options->setRoot(root);
        return calling(options, &gloo::gather);
      }
      case Verb::all_gather: {
        auto options = std::make_shared<gloo::AllgatherOptions>(context_);
        options->setInput(input, count);
        options->setOutput(output, all);
        return calling(options, &gloo::allgather);
      }
      case Verb::all_to_all: {
        auto options = std::make_shared<gloo::AlltoallOptions>(context_);
        options->setInput(input, all);
        options->setOutput(output, all);
        return calling(options, &gloo::alltoall);
      }
      case Verb::send_recv: return exchange(input, output, count * sizeof(T));
      default: return calling(std::make_shared<gloo::BarrierOptions>(context_), &gloo::barrier);
    }
  }

  std::function<void()> exchange(void* input, void* output, std::size_t bytes) {
    const std::shared_ptr<gloo::transport::UnboundBuffer> out = context_->createUnboundBuffer(input, bytes);
    const std::shared_ptr<gloo::transport::UnboundBuffer> in = context_->createUnboundBuffer(output, bytes);
    const int right = (rank_ + 1) % ranks_, left = (rank_ + ranks_ - 1) % ranks_;
    constexpr std::uint64_t kSlot = 1 << 20;
    return [=] {
      out->send(right, kSlot);
      in->recv(left, kSlot);
      out->waitSend();
      in->waitRecv();
    };
  }

  int rank_, ranks_;
  std::shared_ptr<gloo::Context> context_;
  Seat seat_;
  OwnMemory memory_;
  std::vector<std::byte> spare_;
  std::map<std::pair<std::byte*, std::byte*>, std::function<void()>> calls_;
};

}  // namespace
}  // namespace tutti::bench

int main() {
  try {
    const int rank = tutti::bench::number_in(tutti::bench::kRankVariable);
    const int ranks = tutti::bench::number_in(tutti::bench::kRanksVariable);
    tutti::bench::take_place(rank);
    tutti::bench::Gloo gloo(rank, ranks);
    return tutti::bench::serve(gloo, rank, ranks);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
