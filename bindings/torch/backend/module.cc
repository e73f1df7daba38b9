// What Python sees of the backend: tutti.torch._backend.
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/python.h>

#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "backend/allocator.h"
#include "backend/backend.h"
#include "backend/errors.h"
#include "backend/quantised.h"

namespace py = pybind11;

namespace {

using tutti::pytorch::Backend;
using tutti::pytorch::Group;
using tutti::pytorch::GroupOptions;
using tutti::pytorch::Milliseconds;
using tutti::pytorch::Quantised;

c10::intrusive_ptr<Backend> create(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                   const std::string& name, Milliseconds timeout) {
  GroupOptions options;
  options.rank = rank;
  options.size = size;
  options.name = name;
  options.timeout = timeout;
  return c10::make_intrusive<Backend>(store, options);
}

std::string told_between(const tutti_mark& from, const tutti_mark& to, std::int64_t steps, bool json) {
  const tutti_report_format format = json ? TUTTI_REPORT_JSON : TUTTI_REPORT_TEXT;
  std::size_t length = 0;
  tutti::pytorch::check(tutti_report(&from, &to, steps, format, nullptr, 0, &length));
  std::string text(length + 1, '\0');
  tutti::pytorch::check(tutti_report(&from, &to, steps, format, text.data(), text.size(), nullptr));
  text.resize(length);
  return text;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  py::module_::import("torch._C._distributed_c10d");
  module.attr("torch_version") = TUTTI_TORCH_VERSION;
  module.attr("core_version") = tutti_version();
  py::class_<tutti_mark>(module, "Mark");
  py::class_<Backend, c10d::Backend, c10::intrusive_ptr<Backend>>(module, "Backend")
      .def(py::init(&create), py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("name"), py::arg("timeout"),
           py::call_guard<py::gil_scoped_release>())
      // Newer versions of PyTorch bring these four along.
      .def_property_readonly("options", &Backend::getBackendOptions)
      .def("_set_default_timeout", &Backend::setTimeout, py::arg("timeout"))
      .def("abort", &Backend::abort, py::call_guard<py::gil_scoped_release>())
      .def("shutdown", &Backend::shutdown, py::call_guard<py::gil_scoped_release>())
      .def("duplicate", &Backend::duplicate, py::arg("name"), py::call_guard<py::gil_scoped_release>())
      .def("tuned", &Backend::tuned, py::call_guard<py::gil_scoped_release>())
      .def("mark", &Backend::mark, py::call_guard<py::gil_scoped_release>())
      .def("empty",
           [](Backend& backend, const std::vector<std::int64_t>& shape, py::object type) {
             const at::ScalarType scalar = reinterpret_cast<THPDtype*>(type.ptr())->scalar_type;
             py::gil_scoped_release release;
             return backend.empty_symmetric(shape, scalar);
           })
      .def(
          "begin_pool", [](Backend& backend) { tutti::pytorch::begin_pool(backend.pool()); },
          py::call_guard<py::gil_scoped_release>());
  py::class_<Quantised>(module, "Quantised")
      .def(py::init<const Backend&, const std::string&, std::size_t, bool>(), py::arg("backend"), py::arg("type"),
           py::arg("block"), py::arg("pass_not_finite"), py::call_guard<py::gil_scoped_release>())
      .def("average", &Quantised::average, py::arg("values"), py::arg("residual"),
           py::call_guard<py::gil_scoped_release>());
  module.def("report", &told_between);
  module.def("end_pool", &tutti::pytorch::end_pool);
  module.def("leave_all", &Group::leave_all, py::call_guard<py::gil_scoped_release>());
}
