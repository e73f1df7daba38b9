// The verbs of a communicator, for Python.
#pragma once

#include <nanobind/nanobind.h>

#include "core/group.h"
#include "tutti/streams.h"

namespace tutti::python {

// A communicator as Python sees it; the class in tutti/_communicator.py inherits from it.
struct CommunicatorBase {
  std::shared_ptr<Group> group;
};

using CommunicatorClass = nb::class_<CommunicatorBase>;

void bind_vectors(CommunicatorClass& communicator);
void bind_chunks(CommunicatorClass& communicator);
void bind_uneven(CommunicatorClass& communicator);
void bind_messages(nb::module_& module, CommunicatorClass& communicator);
void bind_groups(nb::module_& module, CommunicatorClass& communicator);
void bind_threads(nb::module_& module);

// A call with the arrays it uses, ready to be made.
struct Prepared {
  const char* verb = "";
  Request request = {};
  std::vector<Buffer> buffers = {};  // all that must last
  nb::object result = {};            // what the caller gets; none: what was received
};

// Blocking: returns the result. Async: returns a Work.
nb::object make_call(const CommunicatorBase& communicator, Prepared prepared, bool async);
// Sets the addresses, lengths and elements of a request.
void set_input(Request& request, const Buffer& input);
void set_output(Request& request, const Buffer& output);
// The one that was set for the communicator, if there is one, and those that the arrays name, each once.
std::vector<DeviceStream> streams_of(const std::vector<Buffer>& buffers, void* set);
// The first of them, which comes after all others from now on; nullptr: there is none.
void* join_streams(const std::vector<DeviceStream>& streams);
// Behind an async call that holds the first: what comes into the others waits for it, too.
void part_streams(const std::vector<DeviceStream>& streams);
Group& group_of(const CommunicatorBase& communicator);

}  // namespace tutti::python
