#include "train/gathered_units.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace tutti::train {
namespace {

// No step gathers so often: whoever does, only evaluates, and nobody asks for its times.
constexpr std::size_t kMostWaits = 1 << 16;

}  // namespace

GatheredUnits::GatheredUnits(Communicator& communicator, const strategy::BucketLayout& layout,
                             const BucketMemory& shards, std::vector<std::vector<std::size_t>> buckets_of,
                             std::size_t limit)
    : comm_(communicator),
      layout_(layout),
      shards_(shards),
      buckets_of_(std::move(buckets_of)),
      unit_of_(layout.buckets.size()),
      offsets_(layout.buckets.size()),
      limit_(limit),
      window_(buckets_of_.size(), limit),
      held_(buckets_of_.size()),
      last_gathers_(buckets_of_.size()) {
  std::size_t largest = 0;
  for (std::size_t unit = 0; unit < buckets_of_.size(); ++unit) {
    std::size_t bytes = 0;
    for (const std::size_t bucket : buckets_of_[unit]) {
      unit_of_[bucket] = unit;
      offsets_[bucket] = bytes;
      bytes += layout.buckets[bucket].bytes();
    }
    largest = std::max(largest, bytes);
  }
  bytes_ = std::min(limit, buckets_of_.size()) * largest;
  for (std::size_t i = 0; i < std::min(limit, buckets_of_.size()); ++i) {
    buffers_.push_back(comm_.allocate_bytes(largest));
    allocated_bytes_ += largest;
  }
}

GatheredUnits::~GatheredUnits() {
  const auto under_way = [](const ValuesGather& gather) { return gather.work.valid() && !gather.work.ended(); };
  const auto is_open = [&](const UnitHeld& unit) { return std::ranges::any_of(unit.gathers, under_way); };
  if (std::ranges::none_of(held_, is_open)) return;
  if (std::uncaught_exceptions() > 0) {
    comm_.abort();
    return;
  }
  // What was gathered ahead the others gather as well, and cannot without this rank.
  try {
    for (UnitHeld& unit : held_)
      for (ValuesGather& gather : unit.gathers) gather.work.wait();
  } catch (const Error&) {
    comm_.abort();  // somebody else is gone
  }
}

void GatheredUnits::start(std::size_t unit) {
  UnitHeld& held = held_[unit];
  // There is one for every unit that the window allows.
  held.memory = *std::ranges::find_if(buffers_, [](const auto& buffer) { return buffer.use_count() == 1; });
  for (const std::size_t bucket : buckets_of_[unit]) {
    ValuesGather& gather = held.gathers.emplace_back();
    gather.bucket = bucket;
    gather.start = StepClock::now();
    gather.work = comm_.submit({.verb = Verb::all_gather,
                                .input = shards_.own_values(bucket),
                                .output = static_cast<std::byte*>(held.memory.get()) + offsets_[bucket],
                                .input_count = shards_.own_count(bucket),
                                .output_count = layout_.buckets[bucket].elements,
                                .element = layout_.buckets[bucket].type,
                                .mark = static_cast<std::uint32_t>(unit + 1)});
    gather.end = note_end(gather.work);
  }
}

void GatheredUnits::await(std::size_t unit) {
  if (times_.waits.size() > kMostWaits) times_ = {};
  for (ValuesGather& gather : held_[unit].gathers) {
    gather.waited = span_of([&] { gather.work.wait(); });
    gather.work = {};
    times_.waits.push_back(gather.waited);
  }
  for (ValuesGather& gather : held_[unit].gathers) times_.gathers.push_back(std::move(gather));
  held_[unit].gathers.clear();
}

void GatheredUnits::drop(std::size_t unit) {
  await(unit);
  held_[unit] = {};
}

void GatheredUnits::gather(std::size_t unit) {
  const std::scoped_lock lock(mutex_);
  for (const strategy::UnitMove& move : window_.use(unit)) {
    if (move.kind == strategy::UnitMove::Kind::drop) {
      drop(move.unit);
    } else {
      start(move.unit);
    }
  }
  await(unit);
}

void GatheredUnits::release(std::size_t unit) {
  const std::scoped_lock lock(mutex_);
  window_.done(unit);
}

void GatheredUnits::begin_pass() {
  const std::scoped_lock lock(mutex_);
  window_.begin_pass();
  times_.gathers.clear();
}

bool GatheredUnits::is_begun() const {
  const std::scoped_lock lock(mutex_);
  return !window_.events().empty();
}

void GatheredUnits::repeat_pass() {
  const std::vector<strategy::UnitEvent> events = last_events_;
  for (const strategy::UnitEvent& event : events) {
    if (event.used) {
      gather(event.unit);
    } else {
      release(event.unit);
    }
  }
}

std::size_t GatheredUnits::first_in_use() const {
  const std::scoped_lock lock(mutex_);
  std::size_t unit = 0;
  while (unit < size() && !window_.in_use(unit)) ++unit;
  return unit;
}

void GatheredUnits::forget() {
  const std::scoped_lock lock(mutex_);
  for (std::size_t unit = 0; unit < size(); ++unit) drop(unit);
  window_.forget();
}

void GatheredUnits::end_step() {
  const std::scoped_lock lock(mutex_);
  for (std::size_t unit = 0; unit < size(); ++unit) drop(unit);
  last_events_.assign(window_.events().begin(), window_.events().end());
  last_gathers_ = strategy::gathers_of(last_events_, size(), limit_);
  window_.end_step();
}

void GatheredUnits::leave() {
  const std::scoped_lock lock(mutex_);
  comm_.abort();
  for (UnitHeld& unit : held_) unit.gathers.clear();
  comm_.close();
}

GatheredUnits::Times GatheredUnits::take_times() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(times_, {});
}

std::byte* GatheredUnits::values(std::size_t bucket) const {
  const std::scoped_lock lock(mutex_);
  const std::size_t unit = unit_of_[bucket];
  if (!window_.in_use(unit)) return nullptr;
  return static_cast<std::byte*>(held_[unit].memory.get()) + offsets_[bucket];
}

std::vector<std::size_t> GatheredUnits::gathers() const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::size_t> by_bucket;
  for (const std::size_t unit : unit_of_) by_bucket.push_back(last_gathers_[unit]);
  return by_bucket;
}

}  // namespace tutti::train
