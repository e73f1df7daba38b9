#include "engine/plans.h"

#include <numeric>

#include "schedule/algorithms/table.h"
#include "tutti/error.h"

namespace tutti::engine {
namespace {

// Work is cut into pieces of this size: small enough for the second-level cache, large enough to hide the flags.
constexpr std::uint64_t kSegmentBytes = 256 << 10;

}  // namespace

Plans::Plans(transport::Transport& transport, int channels) : transport_(&transport) {
  plans_.resize(static_cast<std::size_t>(channels) * schedule::algorithms().size() * static_cast<std::size_t>(2 * transport.size()));
}

const Plan& Plans::get(const Call& call, std::string_view algorithm, int channel) {
  const auto rows = schedule::algorithms();
  std::size_t row = 0;
  while (row < rows.size() && (rows[row].verb != call.verb || rows[row].name != algorithm)) ++row;
  if (row == rows.size()) throw Error(ErrorCode::invalid_argument, "no algorithm '" + std::string(algorithm) + "' for " + std::string(name_of(call.verb)));
  const auto ranks = static_cast<std::size_t>(transport_->size());
  std::size_t variant = static_cast<std::size_t>(call.root);
  if (call.verb == Verb::send_recv) variant = static_cast<std::size_t>(call.peer) + (call.peer == call.root ? ranks : 0);
  auto& plan = plans_[(static_cast<std::size_t>(channel) * rows.size() + row) * 2 * ranks + variant];
  if (!plan) plan = make(call, algorithm, channel);
  return *plan;
}

std::unique_ptr<Plan> Plans::make(const Call& call, std::string_view algorithm, int channel) {
  const std::lock_guard lock(mutex_);
  schedule::Shape shape{transport_->size(), transport_->rank(), call.root};
  std::vector<int> members(static_cast<std::size_t>(shape.ranks));
  std::iota(members.begin(), members.end(), 0);
  if (call.verb == Verb::send_recv) {
    const bool sending = call.root == transport_->rank();
    members = sending ? std::vector{call.root, call.peer} : std::vector{call.peer, transport_->rank()};
    shape = {2, sending ? 0 : 1, 0};
  }
  Offers offers = transport_->offers();
  offers.segment_bytes = kSegmentBytes;
  const schedule::Algorithm* row = schedule::find_algorithm(call.verb, algorithm);
  return std::make_unique<Plan>(schedule::lower(row->generate(shape), offers), *transport_, channel, members);
}

}  // namespace tutti::engine
