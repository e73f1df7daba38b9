#include "tutti/communicator.h"

#include "engine/engine.h"
#include "engine/groups/create_group.h"
#include "engine/groups/group_meeting.h"
#include "engine/groups/split.h"

namespace tutti {

namespace {

// A child that the rank forked leaves everything as it is: leaving in good order would take the rank out of its group,
// and a condition that a thread of the rank waits on can never be destroyed here.
void let_go(engine::Engine* engine) {
  if (engine->in_own_process()) delete engine;
}

}  // namespace

Communicator::Communicator(std::unique_ptr<engine::Engine> engine) {
  if (engine != nullptr) engine_.reset(engine.release(), let_go);
}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&& other) noexcept {
  close();
  engine_ = std::move(other.engine_);
  return *this;
}
Communicator::~Communicator() { close(); }

// Every function that calls into the group comes through here.
engine::Engine& Communicator::engine() const {
  if (engine_ == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                "this communicator has no group: it was closed or moved from, or split() left this rank out");
  }
  engine_->require_own_process();
  return *engine_;
}

bool Communicator::valid() const { return engine_ != nullptr && engine_->in_own_process(); }
void Communicator::close() { engine_.reset(); }
void Communicator::abort() { engine().abort(); }
int Communicator::rank() const { return engine().rank(); }
int Communicator::size() const { return engine().size(); }
void Communicator::set_timeout(std::chrono::milliseconds timeout) { engine().set_timeout(timeout); }
std::chrono::milliseconds Communicator::timeout() const { return engine().timeout(); }
std::vector<int> Communicator::hosts() const {
  std::vector<int> hosts(static_cast<std::size_t>(size()));
  for (int rank = 0; rank < size(); ++rank)
    hosts[static_cast<std::size_t>(rank)] = engine().transport().offers().hosts.of(rank);
  return hosts;
}
std::string_view Communicator::last_algorithm() const { return engine().last_algorithm(); }
bool Communicator::tuned() const { return engine().costs().tuned; }
Counters Communicator::counters() const { return engine().counters(); }
void Communicator::time_calls() { engine().time_calls(); }
double Communicator::predicted_us(const Request& request) const { return engine().predict(request) * 1e6; }
double Communicator::predicted_us(const Request& sent, const Request& received) const {
  return engine().predict(sent, received) * 1e6;
}

Received Communicator::run(const Request& request) { return engine().run(request); }
Received Communicator::exchange(const Request& sent, const Request& received) {
  return engine().exchange(sent, received);
}
Received Communicator::probe(int source, int tag, Element element) { return engine().probe(source, tag, element); }
std::optional<Received> Communicator::iprobe(int source, int tag, Element element) {
  return engine().iprobe(source, tag, element);
}
Work Communicator::submit(const Request& request) { return Work(engine().submit(request), engine_); }

std::vector<Work> Communicator::submit_all(std::span<const Request> requests) {
  auto calls = engine().submit_all(requests);
  std::vector<Work> works;
  works.reserve(calls.size());
  for (auto& call : calls) works.emplace_back(std::move(call), engine_);
  return works;
}

std::shared_ptr<void> Communicator::allocate_bytes(std::size_t bytes) { return engine().allocate(bytes); }
std::shared_ptr<void> Communicator::allocate_device_bytes(std::size_t bytes, int device) {
  return engine().allocate_device(bytes, device);
}
void Communicator::set_stream(void* stream) { engine().set_stream(stream, true); }
void Communicator::follow_stream(void* stream) { engine().set_stream(stream, false); }
void* Communicator::stream() const { return engine().stream(); }

Trace Communicator::trace() const {
  engine();
  return Trace(engine_);
}

Communicator Communicator::split(int color, int key) { return Communicator(engine::split(engine(), color, key)); }
Communicator Communicator::subgroup(std::span<const int> ranks) {
  return Communicator(engine::subgroup(engine(), ranks));
}
Communicator Communicator::duplicate() { return Communicator(engine::duplicate(engine())); }
Communicator Communicator::create_group(std::span<const int> ranks, int tag) {
  return Communicator(engine::create_group(engine(), ranks, tag));
}
Communicator Communicator::self() { return Communicator(engine::alone(engine())); }
std::vector<int> Communicator::parent_ranks() const { return engine().parent_ranks(); }

}  // namespace tutti
