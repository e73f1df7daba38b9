#include "tutti/communicator.h"

#include "engine/engine.h"
#include "kernels/kernels.h"

namespace tutti {

using engine::Call;

namespace {

[[noreturn]] void reject(const std::string& message) { throw Error(ErrorCode::invalid_argument, message); }

void require_buffer(const void* buffer, std::size_t count, DType type, const char* what) {
  if (count == 0) return;
  constexpr std::size_t kMostBytes = std::size_t{1} << 56;  // more than any machine has, and safe to add up
  if (count > kMostBytes / size_of(type)) reject(std::to_string(count) + " elements are more than memory can hold");
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

Call all_reduce_call(engine::Engine& engine, const void* input, void* output, std::size_t count, DType type,
                     ReduceOp op, double factor) {
  const kernels::ReduceFunction reduce = engine.reduce_for(type, op);
  if (reduce == nullptr) {
    throw Error(ErrorCode::unsupported, std::string(name_of(type)) + " has no operator " + std::string(name_of(op)));
  }
  require_buffer(input, count, type, "input");
  require_buffer(output, count, type, "output");
  require_disjoint(input, output, count * size_of(type));
  Call call{Verb::all_reduce,
            static_cast<const std::byte*>(input),
            static_cast<std::byte*>(output),
            count,
            type,
            op,
            0,
            -1,
            reduce};
  if (op == ReduceOp::premul_sum) {
    call.scale = kernels::find_scale(type);
    call.factor = factor;
  }
  return call;
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
  const Work old(std::move(pending_));  // waits for what this one held
  pending_ = std::move(other.pending_);
  return *this;
}

Work::~Work() {
  if (!pending_ || pending_->ended()) return;
  try {
    wait();
  } catch (...) {
    // The communicator is aborted now and says so at its next call.
  }
}

namespace {

// An ended call no longer needs its engine, which may be gone.
void rethrow_error(const engine::Pending& pending) {
  if (pending.state.load(std::memory_order_acquire) != engine::Pending::State::failed) return;
  pending.told->store(true);
  std::rethrow_exception(pending.error);
}

}  // namespace

bool Work::test() {
  if (!pending_) return true;
  const bool ended = pending_->ended() || pending_->engine->test(*pending_);
  rethrow_error(*pending_);
  return ended;
}

void Work::wait() {
  if (!pending_) return;
  if (!pending_->ended()) pending_->engine->wait(*pending_);
  rethrow_error(*pending_);
}

void Work::wait(std::chrono::milliseconds timeout) {
  if (!pending_) return;
  if (!pending_->ended()) {
    pending_->engine->wait_until(*pending_, Deadline::after(timeout));
  }
  rethrow_error(*pending_);
}

Communicator::Communicator(std::unique_ptr<engine::Engine> engine) : engine_(std::move(engine)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

int Communicator::rank() const { return engine_->rank(); }
int Communicator::size() const { return engine_->size(); }
void Communicator::set_timeout(std::chrono::milliseconds timeout) { engine_->set_timeout(timeout); }
std::chrono::milliseconds Communicator::timeout() const { return engine_->timeout(); }
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
