#include "tutti/communicator.h"

#include "engine/engine.h"
#include "kernels/kernels.h"

namespace tutti {

using engine::Call;

namespace {

[[noreturn]] void reject(const std::string& message) { throw Error(ErrorCode::invalid_argument, message); }

void require_buffer(const void* buffer, std::size_t count, DType type, const char* what) {
  if (count == 0) return;
  if (buffer == nullptr)
    reject(std::string(what) + " is null but " + std::to_string(count) + " elements are asked for");
  const std::size_t alignment = type == DType::complex64 ? 4 : type == DType::complex128 ? 8 : size_of(type);
  if ((reinterpret_cast<std::uintptr_t>(buffer) & (alignment - 1)) != 0) {
    reject(std::string(what) + " is not aligned to " + std::to_string(alignment) + " bytes, as " +
           std::string(name_of(type)) + " needs");
  }
}

void require_disjoint(const void* input, const void* output, std::size_t bytes) {
  const auto a = reinterpret_cast<std::uintptr_t>(input);
  const auto b = reinterpret_cast<std::uintptr_t>(output);
  if (a != b && a < b + bytes && b < a + bytes)
    reject("input and output overlap; pass the same address for in-place, or disjoint buffers");
}

void require_rank(int rank, int size, const char* what) {
  if (rank < 0 || rank >= size)
    reject(std::string(what) + " " + std::to_string(rank) + " is not a rank of this group of " + std::to_string(size));
}

// premul_sum scales the input into the output, and then sums in place.
Call all_reduce_call(const engine::Engine& engine, const void* input, void* output, std::size_t count, DType type,
                     ReduceOp op, double factor) {
  const kernels::ReduceFunction reduce = engine.reduce_for(type, op);
  if (reduce == nullptr) {
    throw Error(ErrorCode::unsupported, std::string(name_of(type)) + " has no operator " + std::string(name_of(op)));
  }
  require_buffer(input, count, type, "input");
  require_buffer(output, count, type, "output");
  require_disjoint(input, output, count * size_of(type));
  if (op == ReduceOp::premul_sum) {
    kernels::find_scale(type)(output, input, count, factor);
    input = output;
    op = ReduceOp::sum;
  }
  return {Verb::all_reduce,
          static_cast<const std::byte*>(input),
          static_cast<std::byte*>(output),
          count,
          type,
          op,
          0,
          -1,
          reduce};
}

Call broadcast_call(void* buffer, std::size_t count, DType type, int root, int size) {
  require_rank(root, size, "root");
  require_buffer(buffer, count, type, "buffer");
  auto* bytes = static_cast<std::byte*>(buffer);
  return {Verb::broadcast, bytes, bytes, count, type, ReduceOp::sum, root, -1, nullptr};
}

Call message_call(const void* input, void* output, std::size_t count, DType type, int sender, int peer, int rank,
                  int size) {
  require_rank(peer, size, "peer");
  if (peer == rank) reject("send and recv need another rank than one's own");
  require_buffer(input != nullptr ? input : output, count, type, "buffer");
  return {Verb::send_recv,
          static_cast<const std::byte*>(input),
          static_cast<std::byte*>(output),
          count,
          type,
          ReduceOp::sum,
          sender,
          peer,
          nullptr};
}

}  // namespace

Work::Work(std::shared_ptr<engine::Pending> pending) : pending_(std::move(pending)) {}

Work& Work::operator=(Work&& other) noexcept {
  std::swap(pending_, other.pending_);
  return *this;
}

Work::~Work() {
  if (!pending_ || pending_->ended()) return;
  try {
    wait();
  } catch (const Error&) {
    // The communicator is aborted now and says so at its next call.
  }
}

bool Work::test() { return !pending_ || pending_->engine->test(*pending_); }

void Work::wait() {
  if (pending_) pending_->engine->wait(*pending_, pending_->engine->timeout());
}

void Work::wait(std::chrono::milliseconds timeout) {
  if (pending_) pending_->engine->wait(*pending_, timeout);
}

Communicator::Communicator(std::unique_ptr<engine::Engine> engine) : engine_(std::move(engine)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

int Communicator::rank() const { return engine_->rank(); }
int Communicator::size() const { return engine_->size(); }
std::string_view Communicator::last_algorithm() const { return engine_->last_algorithm(); }

void Communicator::all_reduce(const void* input, void* output, std::size_t count, DType type, ReduceOp op,
                              double factor) {
  engine_->run(all_reduce_call(*engine_, input, output, count, type, op, factor));
}
Work Communicator::all_reduce_async(const void* input, void* output, std::size_t count, DType type, ReduceOp op,
                                    double factor) {
  return Work(engine_->submit(all_reduce_call(*engine_, input, output, count, type, op, factor)));
}

void Communicator::broadcast(void* buffer, std::size_t count, DType type, int root) {
  engine_->run(broadcast_call(buffer, count, type, root, size()));
}
Work Communicator::broadcast_async(void* buffer, std::size_t count, DType type, int root) {
  return Work(engine_->submit(broadcast_call(buffer, count, type, root, size())));
}

void Communicator::send(const void* buffer, std::size_t count, DType type, int peer) {
  engine_->run(message_call(buffer, nullptr, count, type, rank(), peer, rank(), size()));
}
Work Communicator::send_async(const void* buffer, std::size_t count, DType type, int peer) {
  return Work(engine_->submit(message_call(buffer, nullptr, count, type, rank(), peer, rank(), size())));
}
void Communicator::recv(void* buffer, std::size_t count, DType type, int peer) {
  engine_->run(message_call(nullptr, buffer, count, type, peer, peer, rank(), size()));
}
Work Communicator::recv_async(void* buffer, std::size_t count, DType type, int peer) {
  return Work(engine_->submit(message_call(nullptr, buffer, count, type, peer, peer, rank(), size())));
}

std::shared_ptr<void> Communicator::allocate_bytes(std::size_t bytes) { return engine_->allocate(bytes); }

void Communicator::require_same_size(std::size_t input, std::size_t output) {
  if (input != output) reject("input has " + std::to_string(input) + " elements and output " + std::to_string(output));
}

}  // namespace tutti
