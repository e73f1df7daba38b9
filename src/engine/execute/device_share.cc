#include "engine/execute/device_share.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "choice/device_price.h"
#include "device/kernel_compiler.h"
#include "device/launch.h"
#include "device/peer_access.h"
#include "schedule/verbs.h"

namespace tutti::engine {

using device::SharedAllocations;
using transport::DeviceCard;

namespace {

// Ranges begin at multiples of so many elements: in lines of all devices' memory, and as aligned as the buffers are.
constexpr std::uint64_t kElementsOfLines = 128;

std::uint64_t begin_of(std::uint64_t index, std::uint64_t of, std::uint64_t count) {
  return index == of ? count : count / of * index / kElementsOfLines * kElementsOfLines;
}

bool by_chunks(const Call& call) { return schedule::facts_of(call.verb).cut == schedule::Cut::chunks; }

device::OwnSource own_source_of(const Operator& own) {
  const Element& element = own.element;
  return {.text = own.device_source.text(),
          .type = element.opaque() ? std::nullopt : std::optional(element.dtype()),
          .bytes = element.bytes(),
          .alignment = element.alignment()};
}

// Operands from so many bytes behind their beginnings on.
class Behind {
 public:
  Behind(std::span<void* const> operands, std::uint64_t bytes) : count_(operands.size()) {
    const auto behind = [bytes](void* operand) -> void* { return static_cast<std::byte*>(operand) + bytes; };
    std::ranges::transform(operands, at_.begin(), behind);
  }
  std::span<void* const> all() const { return std::span(at_).first(count_); }

 private:
  std::array<void*, device::kMostOperands> at_{};
  std::size_t count_;
};

}  // namespace

bool DeviceShare::takes(const Call& call, int ranks) {
  const schedule::VerbFacts& facts = schedule::facts_of(call.verb);
  if (call.is_message() || facts.prefix || call.uneven || call.whole || call.row != nullptr) return false;
  if (call.count == 0 || ranks < 2 || ranks > device::kMostOperands) return false;
  if (!facts.reduces) return true;
  if (call.own != nullptr) return own_source_of(*call.own).serves(ranks);
  const Statement statement = call.statement();
  return call.reduce != nullptr && call.scale == nullptr &&
         device::KernelCompiler::has_reduce(static_cast<DType>(statement.type()), static_cast<ReduceOp>(statement.op()),
                                            ranks);
}

void DeviceShare::prepare(const Call& call) {
  call.staging->prepare_launch([&](const device::Driver& driver, const device::UsedDevice& device) {
    open_all(call, driver, device);
    find_kernel(call, driver, device);
  });
}

void DeviceShare::open_all(const Call& call, const device::Driver& driver, const device::UsedDevice& device) {
  auto& allocations = SharedAllocations::of_process();
  for (Buffers* const buffers : {&sources_, &destinations_}) {
    buffers->at.clear();
    buffers->here.clear();
  }
  for (std::size_t rank = 0; rank < cards_.size(); ++rank) {
    const DeviceCard& card = *cards_[rank];
    const bool here = card.device == device.name;
    if (!here) {
      const bool of_process = card.process == allocations.process();
      device::PeerAccess::of_process().require(driver, device, card.device, of_process);
    }
    const auto open = [&](const DevicePlace& place, SharedAllocations::Last& last, Buffers& buffers) {
      if (place.address == 0) return;
      buffers.at.push_back(call.staging->use(allocations.open(driver, device.context, card.process, place, last)));
      buffers.here.push_back(here);
    };
    open(card.input, opened_[rank].input, sources_);
    open(card.output, opened_[rank].output, destinations_);
  }
}

void DeviceShare::find_kernel(const Call& call, const device::Driver& driver, const device::UsedDevice& device) {
  if (kernel_.serves(call, device.context)) return;
  auto& compiler = device::KernelCompiler::of_process();
  const int ranks = static_cast<int>(cards_.size());
  Kernel wanted{.context = device.context, .reduces = schedule::facts_of(call.verb).reduces};
  if (!wanted.reduces) {
    wanted.function = compiler.copy(driver, device.device);
  } else if (call.own == nullptr) {
    const Statement statement = call.statement();
    wanted.type = static_cast<DType>(statement.type());
    wanted.op = static_cast<ReduceOp>(statement.op());
    wanted.function = compiler.reduce(driver, device.device, wanted.type, wanted.op, ranks);
  } else {
    wanted.own = call.own->device_source.text();
    wanted.of_own = call.own->element;
    wanted.function = compiler.reduce(driver, device.device, own_source_of(*call.own), ranks);
  }
  kernel_ = std::move(wanted);
}

bool DeviceShare::Kernel::serves(const Call& call, device::CuContext in) const {
  if (function == nullptr || context != in || reduces != schedule::facts_of(call.verb).reduces) return false;
  if (!reduces) return true;
  if (call.own != nullptr) return own == call.own->device_source.text() && of_own == call.own->element;
  const Statement statement = call.statement();
  return own.empty() && type == static_cast<DType>(statement.type()) && op == static_cast<ReduceOp>(statement.op());
}

bool DeviceShare::start(const Call& call, const DeviceNumber& number) {
  const std::uint64_t begin = begin_of(number.index, number.of, call.count);
  const std::uint64_t end = begin_of(number.index + 1, number.of, call.count);
  const std::vector<bool>& here = schedule::facts_of(call.verb).reduces ? destinations_.here : sources_.here;
  const bool empty = by_chunks(call) ? std::ranges::find(here, true) == here.end() : begin == end;
  if (empty) return false;
  call.staging->start_launch(
      [&](const device::Driver& driver, const device::UsedDevice& device, device::CuStream stream) {
        const Into into{driver, device, stream};
        if (!by_chunks(call)) return launch_range(call, into, begin, end);
        // A launch for those that are neighbours.
        for (std::size_t first = 0; first < here.size();) {
          std::size_t behind = first;
          while (behind < here.size() && here[behind]) ++behind;
          if (behind != first) launch_chunks(call, into, first, behind - first);
          first = behind + 1;
        }
      });
  return true;
}

void DeviceShare::launch_range(const Call& call, const Into& into, std::uint64_t begin, std::uint64_t end) const {
  const Behind sources(sources_.at, begin * call.unit_bytes), destinations(destinations_.at, begin * call.unit_bytes);
  if (schedule::facts_of(call.verb).reduces) {
    return launch_reduce(into.driver, into.device, into.stream, kernel_.function,
                         {.element_bytes = call.unit_bytes,
                          .divisor = call.divisor,
                          .sources = sources.all(),
                          .destinations = destinations.all(),
                          .count = end - begin,
                          .blocks = 1});
  }
  launch_copy(into.driver, into.device, into.stream, kernel_.function,
              {sources.all(), destinations.all(), (end - begin) * call.unit_bytes, 1});
}

void DeviceShare::launch_chunks(const Call& call, const Into& into, std::size_t first, std::size_t count) const {
  const schedule::VerbFacts& facts = schedule::facts_of(call.verb);
  const std::uint64_t bytes = call.count * call.unit_bytes;
  if (facts.reduces) {
    const Behind sources(sources_.at, first * bytes);
    return launch_reduce(into.driver, into.device, into.stream, kernel_.function,
                         {.element_bytes = call.unit_bytes,
                          .divisor = call.divisor,
                          .sources = sources.all(),
                          .destinations = std::span(destinations_.at).subspan(first, count),
                          .count = call.count,
                          .blocks = static_cast<std::uint32_t>(count)});
  }
  const Behind destinations(destinations_.at, first * bytes);
  const bool in_columns = facts.input != schedule::Share::own;
  launch_copy(into.driver, into.device, into.stream, kernel_.function,
              {std::span(sources_.at).subspan(first, count), destinations.all(), bytes,
               in_columns ? static_cast<std::uint32_t>(cards_.size()) : 1});
}

std::uint64_t DeviceShare::bytes_touched(const Call& call) const {
  return choice::bytes_touched(call.verb, call.count * call.unit_bytes, call.moved_bytes, sources_.at.size(),
                               destinations_.at.size());
}

}  // namespace tutti::engine
