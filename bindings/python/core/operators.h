// Operators as Python names them: "sum", tutti.premul_sum(0.5), or a function of two arrays.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "core/buffer.h"
#include "tutti/op.h"

namespace tutti::python {

// tutti.premul_sum(factor) or tutti.Op(function).
struct Operation {
  double factor = 1.0;
  nb::object function;  // none for premul_sum
  bool commutative = true;
  std::string name;
  DeviceSource device_source;
};

void bind_operators(nb::module_& module);
// For elements like those of `buffer`.
Op op_of(nb::handle op, const Buffer& buffer, const char* verb);

}  // namespace tutti::python
