#include "tutti/trace.h"

#include "engine/engine.h"
#include "engine/tracing/tracer.h"

namespace tutti {

using engine::LiveTraces;
using engine::RankTrace;

Span::Span(std::string_view name) : recorder_(nullptr) {
  RankTrace* const trace = LiveTraces::of_process().current();
  if (trace == nullptr) [[likely]]
    return;
  recorder_ = &trace->recorder();
  name_ = trace->recorder().name(name);
  begin_ = trace->recorder().now();
}

Span::~Span() {
  if (recorder_ == nullptr) [[likely]]
    return;
  RankTrace* const trace = LiveTraces::of_process().current();
  if (trace == nullptr || &trace->recorder() != recorder_) return;  // it has ended meanwhile
  trace::TraceEvent event;
  event.kind = trace::EventKind::span;
  event.name = name_;
  event.begin = begin_;
  event.end = trace->recorder().now();
  trace->recorder().record_of_thread(event);
}

void Trace::start(const std::string& file, std::size_t events) {
  engine_->require_own_process();
  engine::start_trace(*engine_, {file, events});
}

void Trace::stop() {
  engine_->require_own_process();
  engine::stop_trace(*engine_);
}

bool Trace::on() const { return engine_->tracer().recorder() != nullptr; }

std::string Trace::where() const {
  const RankTrace* const trace = engine_->tracer().current();
  return trace == nullptr ? "" : trace->file();
}

namespace trace {

bool on() { return LiveTraces::of_process().current() != nullptr; }

void train_step(std::int64_t step, Moment begin, Moment end) {
  RankTrace* const current = LiveTraces::of_process().current();
  if (current == nullptr) return;
  Recorder& recorder = current->recorder();
  TraceEvent event;
  event.kind = EventKind::train_step;
  event.sequence = static_cast<std::uint64_t>(step);
  event.begin = recorder.at(begin);
  event.end = recorder.at(end);
  recorder.record_of_thread(event);
}

Held held_up() {
  RankTrace* const current = LiveTraces::of_process().current();
  if (current == nullptr) return {};
  Recorder& recorder = current->recorder();
  return {recorder.id(), recorder.now(), recorder.thread()};
}

void go_on(const Held& held) {
  if (held.recorder == 0) return;
  const std::shared_ptr<RankTrace> trace = LiveTraces::of_process().find(held.recorder);
  if (trace == nullptr) return;  // it has ended meanwhile
  TraceEvent event;
  event.kind = EventKind::wait;
  event.what = static_cast<std::uint8_t>(WaitedOn::work);
  event.thread = static_cast<std::uint8_t>(held.thread);
  event.sequence = TraceEvent::kUnnumbered;
  event.begin = held.since;
  event.end = trace->recorder().now();
  event.other = static_cast<std::uint32_t>(-1);
  trace->recorder().record(event);
}

void bucket(const Bucket& bucket) {
  RankTrace* const current = LiveTraces::of_process().current();
  if (current == nullptr) return;
  Recorder& recorder = current->recorder();
  TraceEvent event;
  event.kind = EventKind::bucket;
  event.sequence = static_cast<std::uint64_t>(bucket.step);
  event.begin = recorder.at(bucket.ready);
  event.middle = recorder.at(bucket.start);
  event.end = recorder.at(bucket.end);
  event.amount = bucket.bytes;
  event.other = bucket.bucket;
  recorder.record(event);
}

}  // namespace trace
}  // namespace tutti
