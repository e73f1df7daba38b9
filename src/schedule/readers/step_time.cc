#include "schedule/readers/step_time.h"

#include <algorithm>

namespace tutti::schedule {

using topology::LinkRates, topology::Rates;

// A step, and what has been found out about it.
struct StepTime::Work {
  std::uint64_t bytes = 0;
  double fixed = 0;                           // seconds
  double per_byte = 0;                        // seconds, for all its bytes
  std::size_t sources = 0, destinations = 0;  // that are memory of this host
  std::size_t of_callers = 0, operands = 0;
};

namespace {

bool is_of_caller(const Operand& operand) { return !is_slot(operand) && operand.buffer != Buffer::scratch; }

// A message of shared memory takes a line for what is said about it, and where that has no room for its bytes, more.
double lines_of(std::uint64_t bytes) { return bytes > kInlineMessageBytes ? 2 : 1; }

}  // namespace

StepTime::StepTime(std::span<const Lowered> programs, const Layout& layout, const LinkRates& rates)
    : programs_(programs),
      offers_(programs.front().offers),
      layout_(layout),
      inside_(rates.inside),
      across_(rates.across),
      far_(outgrows_caches() ? inside_.far : 1),
      crowds_(static_cast<std::size_t>(offers_.hosts.count()), 1) {
  if (inside_.crowd > 0) see_crowds();
}

const Rates& StepTime::between(std::size_t from, std::size_t to) const {
  return offers_.hosts.share(static_cast<int>(from), static_cast<int>(to)) ? inside_ : across_;
}

std::uint64_t StepTime::bytes_of(std::size_t rank, const Step& step, std::uint64_t segment) const {
  return elements_of(step, program(rank), layout_, segment) * layout_.element_bytes;
}

bool StepTime::stays_with_sender(std::uint64_t bytes) const {
  return is_single_copy(offers_.inside) && bytes > kInlineMessageBytes;
}

// What a rank touches: its input and its output.
bool StepTime::outgrows_caches() const {
  const std::uint64_t blocks = layout_.cut == Cut::chunks ? layout_.blocks : 1;
  const auto touched = static_cast<double>(2 * layout_.count * blocks * layout_.element_bytes);
  return inside_.far > 0 && touched > inside_.cache_bytes && inside_.cache_bytes > 0;
}

// As many ranks are at work at a time as all of them together take longer than the busiest one.
void StepTime::see_crowds() {
  std::vector<double> all(crowds_.size(), 0), most(crowds_.size(), 0);
  for (std::size_t rank = 0; rank < programs_.size(); ++rank) {
    const auto host = static_cast<std::size_t>(offers_.hosts.of(static_cast<int>(rank)));
    double bytes = 0;
    for (const Lane& lane : program(rank).lanes) {
      for (const Step& step : lane.steps) {
        if (step.op != StepOp::wait) bytes += static_cast<double>(bytes_of(rank, step, 0));
      }
    }
    all[host] += bytes;
    most[host] = std::max(most[host], bytes);
  }
  for (std::size_t host = 0; host < crowds_.size(); ++host) {
    const double at_work = most[host] > 0 ? std::min<double>(all[host] / most[host], inside_.cores) : 1;
    crowds_[host] = 1 + inside_.crowd * (at_work - 1);
  }
}

// A message that leaves from memory, or lands there, by a system call.
bool StepTime::is_stream(std::size_t rank, const Operand& operand, std::uint64_t bytes) const {
  if (!is_slot(operand)) return false;
  const EdgeOffers& edge = offers_.of(static_cast<int>(rank), static_cast<int>(resolve(rank, operand.rank)));
  if (edge.operands_in_slots) return false;
  return !is_single_copy(edge) || stays_with_sender(bytes);
}

void StepTime::add_source(std::size_t rank, const Operand& source, Work& work) const {
  const std::size_t peer = resolve(rank, source.rank);
  if (is_stream(rank, source, work.bytes)) {
    work.fixed += between(rank, peer).call;
    work.per_byte += between(rank, peer).stream;
    return;
  }
  ++work.sources;
  if (is_slot(source)) work.fixed += inside_.line * lines_of(work.bytes);
  const bool looks_into_scratch = source.kind == Operand::Kind::window && peer != rank && !is_of_caller(source);
  if (is_slot(source) || looks_into_scratch) work.per_byte += inside_.peer;
}

void StepTime::add_destination(std::size_t rank, const Operand& destination, Work& work) const {
  const std::size_t peer = resolve(rank, destination.rank);
  if (is_stream(rank, destination, work.bytes)) {
    if (is_single_copy(offers_.of(static_cast<int>(rank), static_cast<int>(peer)))) return;  // the receiver does it all
    work.fixed += between(rank, peer).call;
    work.per_byte += between(rank, peer).stream;
    return;
  }
  ++work.destinations;
  if (is_slot(destination)) work.fixed += inside_.line * lines_of(work.bytes);
  const bool looked_into = is_slot(destination) || (!is_of_caller(destination) && offers_.inside.windows_to_scratch);
  if (looked_into) work.per_byte += inside_.push;
}

double StepTime::of(std::size_t rank, const Step& step, std::uint64_t segment) const {
  if (step.op == StepOp::wait) return inside_.step;
  Work work{.bytes = bytes_of(rank, step, segment), .fixed = inside_.step};
  for (const Operand& source : step.sources) add_source(rank, source, work);
  for (const Operand& destination : step.destinations) add_destination(rank, destination, work);
  for (const auto* operands : {&step.sources, &step.destinations}) {
    for (const Operand& operand : *operands) {
      ++work.operands;
      if (is_of_caller(operand)) ++work.of_callers;
    }
  }
  if (work.sources > 0 && work.destinations > 0) {  // else a message leaves from memory, or lands there
    work.per_byte += inside_.copy + static_cast<double>(work.sources - 1) * inside_.reduce +
                     static_cast<double>(work.destinations - 1) * inside_.store;
  }
  const double share =
      static_cast<double>(work.of_callers) / static_cast<double>(std::max<std::size_t>(1, work.operands));
  const double weight =
      (1 + (far_ - 1) * share) * crowds_[static_cast<std::size_t>(offers_.hosts.of(static_cast<int>(rank)))];
  return work.fixed + static_cast<double>(work.bytes) * work.per_byte * weight;
}

}  // namespace tutti::schedule
