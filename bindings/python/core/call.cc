// What all verbs share: a prepared call, made.
#include <algorithm>

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

std::vector<DeviceStream> streams_of(const std::vector<Buffer>& buffers, void* set) {
  std::vector<DeviceStream> streams;
  if (set != nullptr) streams.push_back({set, nullptr});
  for (const Buffer& buffer : buffers) {
    const auto same = [&](const DeviceStream& each) { return each.stream == buffer.stream(); };
    if (buffer.stream() == nullptr || std::ranges::any_of(streams, same)) continue;
    streams.push_back({buffer.stream(), buffer.data()});
    if (streams.front().memory == nullptr) streams.front().memory = buffer.data();
  }
  return streams;
}

namespace {

template <class Order>
void order_others(const std::vector<DeviceStream>& streams, Order&& order) {
  if (streams.size() < 2) return;  // as a rule
  without_gil([&] { std::for_each(streams.begin() + 1, streams.end(), order); });
}

}  // namespace

void* join_streams(const std::vector<DeviceStream>& streams) {
  order_others(streams, [&](const DeviceStream& other) { order_streams(streams.front(), other); });
  return streams.empty() ? nullptr : streams.front().stream;
}

void part_streams(const std::vector<DeviceStream>& streams) {
  order_others(streams, [&](const DeviceStream& other) { order_streams(other, streams.front()); });
}

nb::object make_call(const CommunicatorBase& communicator, Prepared prepared, bool async) {
  Group& group = group_of(communicator);
  const Group::Turn turn(group);
  const std::vector<DeviceStream> streams = streams_of(prepared.buffers, turn->stream());
  prepared.request.stream = join_streams(streams);
  if (!async) {
    const Received received = without_gil([&] { return turn->run(prepared.request); });
    return prepared.result.is_valid() ? prepared.result : received_of(received);
  }
  Underway underway;
  underway.work = without_gil([&] { return turn->submit(prepared.request); });
  underway.buffers = std::move(prepared.buffers);
  underway.op = prepared.request.op;
  nb::object handle = nb::cast(Handle(group.shared_from_this(), std::move(underway), std::move(prepared.result)));
  part_streams(streams);
  return handle;
}

}  // namespace tutti::python
