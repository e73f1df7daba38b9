#include "tutti/fusion.h"

#include <exception>
#include <new>

#include "base/mix.h"
#include "device/copy.h"

namespace tutti {
namespace {

constexpr std::size_t kAlignment = 64;  // of symmetric memory

// `mark` stands for the lengths of the tensors in there, which all ranks must have alike.
Request all_reduce_of(void* data, std::size_t count, Element element, const Op& op, std::uint32_t mark = 0) {
  return {.verb = Verb::all_reduce,
          .input = data,
          .output = data,
          .input_count = count,
          .output_count = count,
          .element = element,
          .op = op,
          .mark = mark};
}

// From what all ranks have alike: an operator that one rank makes anew for every tensor and another keeps is the same.
bool same(const Op& a, const Op& b) {
  const Operator *one = a.own().get(), *other = b.own().get();
  if (one != nullptr && other != nullptr)
    return one == other || (!one->name.empty() && one->name == other->name && one->commutative == other->commutative);
  return one == other && a.builtin() == b.builtin() && a.factor() == b.factor();
}

std::size_t bytes_of(const char* verb, const void* tensor, std::size_t count, Element element) {
  const auto refuse = [&](const std::string& why) { throw Error(ErrorCode::invalid_argument, verb + why); };
  if (tensor == nullptr && count != 0) refuse(": a tensor of " + std::to_string(count) + " elements is null");
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, element.bytes(), &bytes))
    refuse(": " + std::to_string(count) + " elements are more than memory can hold");
  return bytes;
}

}  // namespace

struct Fusion::State {
  struct Part {
    void* tensor = nullptr;
    std::size_t bytes = 0;
  };
  // Empty, being filled, or under way.
  struct Half {
    std::byte* base = nullptr;
    std::size_t filled = 0;
    std::vector<Part> parts;
    bool under_way = false;
    Work work;
  };

  State(Communicator& group, std::size_t bytes) : communicator(&group) {
    if (half_bytes = bytes / 2 / kAlignment * kAlignment; half_bytes == 0) return;
    memory = group.allocate_bytes(2 * half_bytes);
    halves[0].base = static_cast<std::byte*>(memory.get());
    halves[1].base = halves[0].base + half_bytes;
  }

  ~State() {
    // The other ranks need not be on their way here while an exception passes on this one.
    if (std::uncaught_exceptions() > exceptions) drop_unstarted();
    try {
      wait();
    } catch (...) {
      // The communicator says so at its next call.
    }
  }

  void add(void* tensor, std::size_t count, Element type, const Op& with);
  void start(Half& half);
  void retire(Half& half);
  void flush();
  void wait();
  void drop_unstarted() {
    if (!halves[filling].under_way) clear(halves[filling]);
  }
  static void clear(Half& half) {
    half.parts.clear();
    half.filled = 0;
    half.under_way = false;
  }

  Communicator* communicator;
  const int exceptions = std::uncaught_exceptions();
  std::shared_ptr<void> memory;  // outlives the Works below
  std::size_t half_bytes = 0;
  Half halves[2];
  int filling = 0;  // the half that takes the next tensor
  Element element = DType::uint8;
  Op op = ReduceOp::sum;
  std::vector<Work> in_place;
  std::size_t operations = 0;
};

void Fusion::State::add(void* tensor, std::size_t count, Element type, const Op& with) {
  const std::size_t bytes = bytes_of("fusion", tensor, count, type);
  if (bytes == 0) return;
  if (bytes > half_bytes || type.alignment() > kAlignment) {
    in_place.push_back(communicator->submit(all_reduce_of(tensor, count, type, with)));
    ++operations;
    return;
  }
  const Half& current = halves[filling];
  const bool fits = type == element && same(op, with) && bytes <= half_bytes - current.filled;
  if (!current.under_way && !current.parts.empty() && !fits) flush();
  Half& half = halves[filling];
  if (half.under_way) retire(half);
  if (half.parts.empty()) {
    element = type;
    op = with;
  }
  half.parts.push_back({tensor, bytes});
  device::copy_anywhere(half.base + half.filled, tensor, bytes);
  half.filled += bytes;
}

void Fusion::State::start(Half& half) {
  try {
    std::uint64_t lengths = 0;
    for (const auto& part : half.parts) lengths = mix(lengths, part.bytes);
    half.work = communicator->submit(
        all_reduce_of(half.base, half.filled / element.bytes(), element, op, static_cast<std::uint32_t>(lengths)));
  } catch (...) {
    clear(half);
    throw;
  }
  half.under_way = true;
  ++operations;
}

void Fusion::State::flush() {
  Half& half = halves[filling];
  if (half.under_way || half.parts.empty()) return;
  start(half);
  filling = 1 - filling;
}

void Fusion::State::retire(Half& half) {
  try {
    half.work.wait();
  } catch (...) {
    clear(half);
    throw;
  }
  const std::byte* from = half.base;
  for (const Part& part : half.parts) {
    device::copy_anywhere(part.tensor, from, part.bytes);
    from += part.bytes;
  }
  clear(half);
}

void Fusion::State::wait() {
  std::exception_ptr first;
  const auto attempt = [&](auto&& step) {
    try {
      step();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  };
  attempt([&] { flush(); });
  // After a flush the next half to fill is the older one.
  for (Half* half : {&halves[filling], &halves[1 - filling]}) {
    if (half->under_way) attempt([&] { retire(*half); });
  }
  attempt([&] { wait_all(in_place); });
  in_place.clear();
  if (first) std::rethrow_exception(first);
}

Fusion::Fusion(Communicator& communicator, std::size_t bytes) : state_(std::make_unique<State>(communicator, bytes)) {}
Fusion::Fusion(Fusion&&) noexcept = default;
Fusion& Fusion::operator=(Fusion&&) noexcept = default;
Fusion::~Fusion() = default;

void Fusion::add(void* tensor, std::size_t count, Element element, const Op& op) {
  state_->add(tensor, count, element, op);
}
void Fusion::flush() { state_->flush(); }
void Fusion::wait() { state_->wait(); }
std::size_t Fusion::operations() const { return state_->operations; }

void all_reduce_coalesced(Communicator& communicator, std::span<void* const> tensors,
                          std::span<const std::size_t> counts, Element element, const Op& op) {
  constexpr const char* kVerb = "all_reduce_coalesced";
  if (tensors.size() != counts.size()) {
    throw Error(ErrorCode::invalid_argument, std::string(kVerb) + ": " + std::to_string(tensors.size()) +
                                                 " tensors need as many counts, not " + std::to_string(counts.size()));
  }
  std::size_t bytes = 0, filled = 0, last = 0;  // tensors that hold anything, and the last of them
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::size_t more = bytes_of(kVerb, tensors[i], counts[i], element);
    if (__builtin_add_overflow(bytes, more, &bytes))
      throw Error(ErrorCode::invalid_argument, std::string(kVerb) + ": the tensors are more than memory can hold");
    if (more == 0) continue;
    ++filled;
    last = i;
  }
  if (filled <= 1) {
    communicator.run(filled == 0 ? all_reduce_of(nullptr, 0, element, op)
                                 : all_reduce_of(tensors[last], counts[last], element, op));
    return;
  }
  const auto alignment = static_cast<std::align_val_t>(std::max(kAlignment, element.alignment()));
  const auto release = [&](std::byte* packed) { ::operator delete(packed, alignment); };
  const std::unique_ptr<std::byte, decltype(release)> packed(static_cast<std::byte*>(::operator new(bytes, alignment)),
                                                             release);
  std::byte* to = packed.get();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (counts[i] == 0) continue;
    device::copy_anywhere(to, tensors[i], counts[i] * element.bytes());
    to += counts[i] * element.bytes();
  }
  std::uint64_t lengths = 0;
  for (const std::size_t count : counts) lengths = mix(lengths, count);
  communicator.run(
      all_reduce_of(packed.get(), bytes / element.bytes(), element, op, static_cast<std::uint32_t>(lengths)));
  const std::byte* from = packed.get();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (counts[i] == 0) continue;
    device::copy_anywhere(tensors[i], from, counts[i] * element.bytes());
    from += counts[i] * element.bytes();
  }
}

}  // namespace tutti
