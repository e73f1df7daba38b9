// Errors of the library as Python exceptions, and refusals by the binding itself.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "tutti/error.h"

namespace tutti::python {

namespace nb = nanobind;

// Makes tutti::Error arrive as the exception classes of tutti._errors.
void register_errors();
// A call that cannot be carried out as written: InvalidArgumentError, which is a ValueError.
[[noreturn]] void refuse(const std::string& words);
// The same where an argument is of the wrong type: ArgumentTypeError, which is a TypeError.
[[noreturn]] void refuse_type(const std::string& words);
std::string kind_of(nb::handle object);

}  // namespace tutti::python
