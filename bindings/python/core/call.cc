// What all verbs share: a prepared call, made.
#include "core/errors.h"
#include "core/verbs.h"
#include "core/work.h"

namespace tutti::python {

Group& group_of(const CommunicatorBase& communicator) {
  if (communicator.group == nullptr) refuse("this communicator has no group");
  return *communicator.group;
}

namespace {
// Where empty arrays begin that have no address; the library wants one.
char nowhere[16];
}  // namespace

void set_input(Request& request, const Buffer& input) {
  request.input = input.data() != nullptr ? input.data() : nowhere;
  request.input_count = input.count();
  request.element = input.element();
}

void set_output(Request& request, const Buffer& output) {
  request.output = output.data() != nullptr ? output.data() : nowhere;
  request.output_count = output.count();
  request.element = output.element();
}

// A stream that was set for the communicator comes before those that arrays name.
void set_stream(Request& request, const std::vector<Buffer>& buffers, void* set) {
  request.stream = set;
  for (const Buffer& buffer : buffers) {
    if (request.stream == nullptr) request.stream = buffer.stream();
  }
}

nb::object make_call(const CommunicatorBase& communicator, Prepared prepared, bool async) {
  Group& group = group_of(communicator);
  const Group::Turn turn(group);
  set_stream(prepared.request, prepared.buffers, turn->stream());
  if (!async) {
    const Received received = without_gil([&] { return turn->run(prepared.request); });
    return prepared.result.is_valid() ? prepared.result : received_of(received);
  }
  Underway underway;
  underway.work = without_gil([&] { return turn->submit(prepared.request); });
  underway.buffers = std::move(prepared.buffers);
  underway.op = prepared.request.op;
  return nb::cast(Handle(group.shared_from_this(), std::move(underway), std::move(prepared.result)));
}

}  // namespace tutti::python
