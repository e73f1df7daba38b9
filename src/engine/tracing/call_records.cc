#include "engine/tracing/call_records.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "engine/execute/call_part.h"
#include "engine/execute/track.h"
#include "schedule/verbs.h"

namespace tutti::engine {

using trace::TraceEvent;

CallRecords::Known& CallRecords::find(const trace::GroupRecorder& group, const DoneBy& by, bool across) {
  for (const auto& known : all_)
    if (is_it(*known, group, by, across)) return *known;
  auto made = std::make_unique<Known>();
  made->by = by;
  made->recorder = group.recorder->id();
  made->across = across;
  made->name = group.recorder->name(by.name);
  made->seconds.fill(-1);
  return *all_.emplace_back(std::move(made));
}

double CallRecords::seconds_of(Known& known, const Asked& asked, bool message, int size_class) {
  float& seconds = known.seconds[static_cast<std::size_t>(size_class)];
  if (seconds >= 0) return seconds;
  const std::uint64_t bytes = std::uint64_t{1} << size_class;
  const double price = !message        ? chooser_->price_of(*known.by.row, bytes)
                       : asked.to_self ? chooser_->price_of_message_to_self(*known.by.row, bytes)
                                       : chooser_->price_of_message(*known.by.row, bytes, known.across);
  seconds = static_cast<float>(price);
  return seconds;
}

double CallRecords::price_of(Known& known, const Asked& asked, bool message) {
  if (known.by.row == nullptr) {
    return choice::price_of_launch(chooser_->device_rates(),
                                   choice::bytes_touched(asked.verb, transport_->size(), asked.bytes, asked.in_place));
  }
  const std::uint64_t bytes = std::max<std::uint64_t>(asked.bytes, 1);
  const int size_class = 63 - std::countl_zero(bytes);
  const std::uint64_t least = std::uint64_t{1} << size_class;
  double seconds = seconds_of(known, asked, message, size_class);
  if (bytes != least) {
    const double part = static_cast<double>(bytes - least) / static_cast<double>(least);
    seconds += part * (seconds_of(known, asked, message, size_class + 1) - seconds);
  }
  if (asked.kept != 0) seconds += chooser_->price_of_copy(asked.kept);
  if (asked.staged != choice::StagedBytes())
    seconds += choice::price_of_staging(chooser_->device_rates(), asked.staged);
  if (asked.checked && !message && transport_->size() > 1) {
    if (check_s_ < 0) check_s_ = chooser_->price_of(Track::check(), 1);
    seconds += check_s_;
  }
  return seconds;
}

std::optional<CallRecords::Asked> CallRecords::asked_of(const Known& known, const Call& call) const {
  // Of v-variants not every rank knows all counts.
  if (call.uneven || call.moved_bytes >> 48 != 0) return std::nullopt;
  const topology::DeviceRates& device = chooser_->device_rates();
  if (known.by.row == nullptr) {
    if (!device.launches() || known.by.name != kOneLaunch) return std::nullopt;
    return Asked{.bytes = call.moved_bytes, .verb = call.verb, .in_place = call.in_place};
  }
  Asked asked{.bytes = bytes_of_part(call.moved_bytes, parts_of(*transport_, call, *known.by.row)),
              .kept = keeps_input(call, *known.by.row) ? call.input_bytes : 0,
              .checked = checks_ || (call.scale != nullptr && call.verb == Verb::all_reduce),
              .to_self = call.is_message() && call.peer == transport_->rank()};
  if (call.staging == nullptr) [[likely]]
    return asked;
  if (!device.known()) return std::nullopt;
  if (call.staging->input_memory() != nullptr) asked.staged.input = call.input_bytes;
  if (call.staging->output_memory() != nullptr) asked.staged.output = call.output_bytes;
  return asked;
}

std::uint32_t CallRecords::predicted_ns(Known& known, const Call& call) {
  const std::optional<Asked> asked = asked_of(known, call);
  if (!asked) return TraceEvent::kUnknown_ns;
  if (known.asked != asked) [[unlikely]] {
    known.asked = asked;
    known.predicted_ns = static_cast<std::uint32_t>(std::min(price_of(known, *asked, call.is_message()) * 1e9, 4e9));
  }
  return known.predicted_ns;
}

void CallRecords::look_up(const trace::GroupRecorder& group, const Call& call, const DoneBy& by, bool async) {
  const bool message = call.is_message();
  const bool across = message && !transport_->offers().hosts.share(transport_->rank(), call.peer);
  Known& known = this->known(group, by, across);
  TraceEvent event;
  event.kind = trace::EventKind::call;
  event.what = static_cast<std::uint8_t>(call.verb);
  if (async) event.flags |= TraceEvent::kAsync;
  if (message && call.sends) event.flags |= TraceEvent::kSends;
  event.communicator = group.communicator;
  event.name = known.name;
  event.amount = call.counted_bytes();
  event.other = TraceEvent::peer_and_prediction(message ? call.peer : call.root, predicted_ns(known, call));
  latest_ = {.group = Latest::is_plain(call) ? &group : nullptr,
             .row = by.row,
             .moved_bytes = call.moved_bytes,
             .input_bytes = call.input_bytes,
             .root = call.root,
             .peer = call.peer,
             .verb = call.verb,
             .sends = call.sends,
             .in_place = call.in_place,
             .scales = call.scale != nullptr,
             .async = async,
             .words = trace::words_of(event)};
}

void CallRecords::record(const trace::GroupRecorder& group, const Call& call, const DoneBy& by, CallTimes times,
                         bool async) {
  const std::uint64_t ended = times.ended != 0 ? times.ended : group.recorder->now();
  if (!latest_.is_like(group, call, by.row, async)) [[unlikely]]
    look_up(group, call, by, async);
  trace::EventWords words = latest_.words;
  words[trace::kSequenceWord] = call.sequence;
  words[trace::kBeginWord] = times.entered;
  words[trace::kEndWord] = ended;
  words[trace::kMiddleWord] = times.taken_up;
  if (async) {
    group.recorder->record(words);
  } else {
    group.recorder->record_of_thread(words);
  }
}

void CallRecords::record_message(const trace::GroupRecorder& group, const Call& call, CallTimes times, bool async) {
  const bool across = !transport_->offers().hosts.share(transport_->rank(), call.peer);
  const schedule::Algorithm& row = *chooser_->choose(call.question(across));
  record(group, call, {&row, row.name}, times, async);
}

}  // namespace tutti::engine
