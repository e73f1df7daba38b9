// Messages: send, recv, both at once, batches, and looking before receiving.
#include <nanobind/stl/vector.h>

#include "core/errors.h"
#include "core/verbs.h"
#include "core/work.h"

namespace tutti::python {
namespace {

Request message_of(Direction direction, const Buffer& buffer, int peer, int tag) {
  Request request{.verb = Verb::send_recv, .direction = direction, .peer = peer, .tag = tag};
  if (direction == Direction::send) {
    set_input(request, buffer);
  } else {
    set_output(request, buffer);
  }
  return request;
}

Prepared prepare(const char* verb, Direction direction, nb::handle array, int peer, int tag, bool up_to = false) {
  Prepared prepared{.verb = verb};
  prepared.buffers.emplace_back(array, direction == Direction::send ? Access::read : Access::write,
                                Role{verb, "the array"});
  prepared.request = message_of(direction, prepared.buffers.front(), peer, tag);
  prepared.request.up_to = up_to;
  if (direction == Direction::send) prepared.result = nb::none();
  return prepared;
}

nb::object send_recv(const CommunicatorBase& self, nb::handle sent, int destination, nb::handle received, int source,
                     int tag, bool up_to) {
  const Buffer out(sent, Access::read, {"send_recv", "the array to send"});
  const Buffer in(received, Access::write, {"send_recv", "the array to receive into"});
  Request sends = message_of(Direction::send, out, destination, tag);
  Request receives = message_of(Direction::receive, in, source, tag);
  receives.up_to = up_to;
  const Group::Turn turn(group_of(self));
  sends.stream = turn->stream() != nullptr ? turn->stream() : out.stream();
  receives.stream = turn->stream() != nullptr ? turn->stream() : in.stream();
  return received_of(without_gil([&] { return turn->exchange(sends, receives); }));
}

nb::object probe(const CommunicatorBase& self, int source, int tag, nb::handle dtype) {
  const Element element = element_of(dtype, {"probe", "dtype"});
  const Group::Turn turn(group_of(self));
  return received_of(without_gil([&] { return turn->probe(source, tag, element); }));
}

nb::object iprobe(const CommunicatorBase& self, int source, int tag, nb::handle dtype) {
  const Element element = element_of(dtype, {"iprobe", "dtype"});
  const Group::Turn turn(group_of(self));
  const auto found = without_gil([&] { return turn->iprobe(source, tag, element); });
  return found ? received_of(*found) : nb::none();
}

// A message of a batch, as tutti/_communicator.py lists it: (is it a send, array, peer, tag, up_to).
nb::list start_batch(const CommunicatorBase& self, const nb::list& messages) {
  std::vector<Prepared> prepared;
  std::vector<Request> requests;
  for (const nb::handle entry : messages) {
    const auto fields = nb::cast<nb::tuple>(entry);
    const bool sends = nb::cast<bool>(fields[0]);
    prepared.push_back(prepare("batch", sends ? Direction::send : Direction::receive, fields[1],
                               nb::cast<int>(fields[2]), nb::cast<int>(fields[3]), nb::cast<bool>(fields[4])));
    requests.push_back(prepared.back().request);
  }
  Group& group = group_of(self);
  const Group::Turn turn(group);
  for (std::size_t i = 0; i < requests.size(); ++i)
    requests[i].stream = join_streams(streams_of(prepared[i].buffers, turn->stream()));
  std::vector<Work> works = without_gil([&] { return turn->submit_all(requests); });
  nb::list handles;
  for (std::size_t i = 0; i < works.size(); ++i) {
    Underway underway;
    underway.work = std::move(works[i]);
    underway.buffers = std::move(prepared[i].buffers);
    handles.append(nb::cast(Handle(group.shared_from_this(), std::move(underway), std::move(prepared[i].result))));
  }
  return handles;
}

}  // namespace

void bind_messages(nb::module_& module, CommunicatorClass& communicator) {
  module.attr("ANY_SOURCE") = kAnySource;
  module.attr("ANY_TAG") = kAnyTag;
  communicator.def(
      "send",
      [](const CommunicatorBase& self, nb::handle array, int peer, int tag, bool async) {
        return make_call(self, prepare("send", Direction::send, array, peer, tag), async);
      },
      nb::arg("array").none(), nb::arg("peer"), nb::arg("tag") = 0, nb::kw_only(), nb::arg("async_op") = false,
      "Sends the array to a rank, which receives it with the same count, dtype and tag.\n\n"
      "A blocking send may last until it is received: ranks that both send first need send_recv, a batch, or async "
      "calls.");
  communicator.def(
      "recv",
      [](const CommunicatorBase& self, nb::handle array, int source, int tag, bool up_to, bool async) {
        return make_call(self, prepare("recv", Direction::receive, array, source, tag, up_to), async);
      },
      nb::arg("array").none(), nb::arg("source") = kAnySource, nb::arg("tag") = 0, nb::kw_only(),
      nb::arg("up_to") = false, nb::arg("async_op") = false,
      "Receives into the array; returns Received(source, tag, count).\n\n"
      "source may be tutti.ANY_SOURCE, tag tutti.ANY_TAG. With up_to=True shorter messages than the array fit, too:\n"
      "count says how many elements have come, and the rest of the array is left alone.");
  communicator.def("send_recv", &send_recv, nb::arg("array").none(), nb::arg("destination"), nb::arg("out"),
                   nb::arg("source"), nb::arg("tag") = 0, nb::kw_only(), nb::arg("up_to") = false,
                   "Sends array and receives into out at once: never deadlocks, whatever the others do first.\n\n"
                   "Returns Received(source, tag, count). up_to=True as for recv.");
  communicator.def("probe", &probe, nb::arg("source") = kAnySource, nb::arg("tag") = 0, nb::arg("dtype") = "uint8",
                   "Waits for a message that such a receive would take, and leaves it there.\n\n"
                   "Returns Received(source, tag, count), with count in elements of dtype.");
  communicator.def("iprobe", &iprobe, nb::arg("source") = kAnySource, nb::arg("tag") = 0, nb::arg("dtype") = "uint8",
                   "As probe, without waiting: None where no such message has come yet.\n\n"
                   "Takes messages further, so that asking again and again finds what was sent.");
  communicator.def("_start_batch", &start_batch);
}

}  // namespace tutti::python
