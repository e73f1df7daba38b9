#include "engine/execute/call_part.h"

#include <algorithm>

#include "schedule/layout.h"
#include "schedule/verbs.h"

namespace tutti::engine {
namespace {

// Whole lines, so that parts share none.
std::uint64_t elements_of_part(std::uint64_t count, std::uint32_t element_bytes, std::uint64_t parts) {
  const std::uint64_t line = schedule::Layout::line_elements(element_bytes);
  return ((count + parts - 1) / parts + line - 1) / line * line;
}

}  // namespace

// A row that the caller names is one program and no more: who times it wants to know what one thread takes. An operator
// of the caller's may not bear several threads at once.
int parts_of(const transport::Transport& transport, const Call& call) {
  const auto most = static_cast<std::uint64_t>(transport.parts());
  if (most == 1 || call.moved_bytes < 2 * kFewestBytesOfPart) return 1;
  if (call.uneven || call.whole || call.own != nullptr || call.row != nullptr || call.is_message()) return 1;
  const std::uint64_t parts = std::min(most, call.moved_bytes / kFewestBytesOfPart);
  const std::uint64_t elements = elements_of_part(call.count, call.unit_bytes, parts);
  return static_cast<int>((call.count + elements - 1) / elements);
}

PartThreads make_part_threads() {
  PartThreads threads;
  for (auto& of_a_part : threads)
    of_a_part = std::make_shared<runtime::ProgressThreads>(runtime::ProgressThread::kBesideCallers);
  return threads;
}

// ---- CallPart

void CallPart::start(const Plan& plan, const Binding& whole, std::uint64_t first, std::uint64_t count) {
  if (!thread_ && !alone_) {
    try {
      runtime::Driven& part = *this;
      thread_ = std::make_unique<runtime::ProgressThread::Place>(threads_.of(transport_), part, transport_);
    } catch (const Error&) {
      alone_ = true;
    }
  }
  first_ = first;
  {
    const std::lock_guard lock(mutex_);
    binding_ = whole;
    binding_.count = count;
    binding_.recorder = nullptr;  // steps of the first part stand for all
    if (binding_.input != nullptr) binding_.input += first * whole.element_bytes;
    if (binding_.output != nullptr) binding_.output += first * whole.element_bytes;
    operation_.start(plan, binding_);
    elements_done_.store(0, std::memory_order_relaxed);
    state_.store(State::running, std::memory_order_relaxed);
  }
  if (thread_) thread_->want();
}

runtime::Driven::Progress CallPart::drive() {
  State became = State::running;
  {
    const std::lock_guard lock(mutex_);
    if (state_.load(std::memory_order_relaxed) != State::running) return Progress::idle;
    try {
      const Advance advance = operation_.advance();
      if (advance == Advance::stuck) return Progress::stuck;
      if (advance == Advance::finished) became = State::finished;
      elements_done_.store(operation_.elements_done(), std::memory_order_release);
    } catch (...) {
      thrown_ = std::current_exception();
      became = State::failed;
    }
    moves_.fetch_add(1, std::memory_order_relaxed);
    state_.store(became, std::memory_order_release);
  }
  if (became == State::running) return Progress::moved;
  transport_.notify_self();  // who waits for it may sleep
  return Progress::idle;
}

Advance CallPart::look() {
  if (alone_) drive();
  switch (state_.load(std::memory_order_acquire)) {
    case State::finished: return Advance::finished;
    case State::failed: std::rethrow_exception(thrown_);
    default: break;
  }
  const std::uint64_t moves = moves_.load(std::memory_order_relaxed);
  return std::exchange(seen_moves_, moves) == moves ? Advance::stuck : Advance::moved;
}

void CallPart::withdraw() {
  const std::lock_guard lock(mutex_);
  state_.store(State::idle, std::memory_order_relaxed);
}

Blocked CallPart::blocked() {
  const std::lock_guard lock(mutex_);
  return state_.load(std::memory_order_relaxed) == State::running ? operation_.blocked() : Blocked();
}

int CallPart::mismatched_peer() {
  const std::lock_guard lock(mutex_);
  return operation_.mismatched_peer();
}

bool CallPart::touched_output() {
  const std::lock_guard lock(mutex_);
  return operation_.touched_output();
}

// ---- OtherParts

OtherParts::OtherParts(transport::Transport& transport, int channel, const PartThreads& threads)
    : transport_(transport), channel_(channel) {
  for (int part = 1; part < transport.parts(); ++part)
    parts_.push_back(std::make_unique<CallPart>(transport, *threads[static_cast<std::size_t>(part - 1)]));
}

void OtherParts::start(int parts, Plans& plans, const Call& call, const schedule::Algorithm& row, Binding& whole) {
  if (schedule::facts_of(call.verb).cut == schedule::Cut::chunks) whole.stride = whole.count;
  const std::uint64_t elements = elements_of_part(whole.count, whole.element_bytes, static_cast<std::uint64_t>(parts));
  for (int part = 1; part < parts; ++part) {
    const std::uint64_t first = static_cast<std::uint64_t>(part) * elements;
    parts_[count_++]->start(plans.get(call, row, channel_, part), whole, first,
                            std::min(elements, whole.count - first));
  }
  whole.count = elements;
}

Advance OtherParts::look() {
  bool moved = false, finished = true;
  for (std::size_t i = 0; i < count_; ++i) {
    const Advance advance = parts_[i]->look();
    moved = moved || advance == Advance::moved;
    finished = finished && advance == Advance::finished;
  }
  return finished ? Advance::finished : moved ? Advance::moved : Advance::stuck;
}

void OtherParts::withdraw() {
  for (std::size_t i = 0; i < count_; ++i) parts_[i]->withdraw();
}

std::size_t OtherParts::first_open() const {
  std::size_t part = 0;
  while (part < count_ && parts_[part]->ended()) ++part;
  return part;
}

Blocked OtherParts::blocked() const {
  const std::size_t part = first_open();
  return part == count_ ? Blocked() : parts_[part]->blocked();
}

int OtherParts::mismatched_peer() const {
  for (std::size_t i = 0; i < count_; ++i) {
    if (const int peer = parts_[i]->mismatched_peer(); peer >= 0) return peer;
  }
  return -1;
}

bool OtherParts::touched_output() const {
  return std::any_of(parts_.begin(), parts_.begin() + static_cast<std::ptrdiff_t>(count_),
                     [](const auto& part) { return part->touched_output(); });
}

}  // namespace tutti::engine
