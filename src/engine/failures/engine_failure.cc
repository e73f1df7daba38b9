// How an engine is given up: by its own process, and where a peer gave up before the call at hand.
#include "base/rank_list.h"
#include "engine/engine.h"

namespace tutti::engine {

void Engine::throw_forked() {
  throw Error(ErrorCode::invalid_argument,
              "this communicator belongs to the process that was forked: its peers would take this child for the rank; "
              "let the child join a group of its own with init(), or fork before the group is made");
}

void Engine::abort() {
  // Where it has failed already, whoever is in a call will hear of it.
  if (!first_error_.abort_here(
          Error(ErrorCode::aborted, rank_name(rank()) + ": this process aborted the communicator")))
    return;
  transport_->notify_self();
}

void Engine::refuse(const Call& call, std::optional<Failure> known) {
  const AsyncCalls::Seat seat(async_);
  require_alive();  // the progress thread may have given up meanwhile, and has said why
  first_error_.tell();
  const auto failure = known ? known : transport_->failure();
  Call refused = call;
  if (!call.is_message()) refused.sequence = next_collective_;
  throw seat.fail(explainer_.explain_refusal(refused, failure.value_or(Failure{})));
}

}  // namespace tutti::engine
