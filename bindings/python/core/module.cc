// tutti._core: the library's public C++ interface, for Python. tutti/__init__.py is what people import.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>

#include "core/errors.h"
#include "core/operators.h"
#include "core/verbs.h"
#include "core/work.h"
#include "tutti/tutti.h"

NB_MODULE(_core, module) {
  using namespace tutti::python;
  nb::set_leak_warnings(false);  // a program may end with communicators open; tutti/_communicator.py closes them
  register_errors();
  module.attr("version") = tutti_version();
  bind_operators(module);
  bind_work(module);
  CommunicatorClass communicator(module, "Communicator");
  bind_groups(module, communicator);
  bind_vectors(communicator);
  bind_chunks(communicator);
  bind_uneven(communicator);
  bind_messages(module, communicator);
  bind_threads(module);
  module.def("span_begin", [](const char* name) { tutti_span_begin(name); });
  module.def("span_end", [] { tutti_span_end(); });
}
