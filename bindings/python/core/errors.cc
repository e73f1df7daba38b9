#include "core/errors.h"

#include <nanobind/stl/string.h>

#include <exception>

namespace tutti::python {
namespace {

// An argument of the wrong type: the same code, another class.
class TypeRefused : public Error {
 public:
  explicit TypeRefused(const std::string& words) : Error(ErrorCode::invalid_argument, words) {}
};

void set_python_error(const Error& error, bool wrong_type) {
  try {
    const nb::module_ errors = nb::module_::import_("tutti._errors");
    const std::string code(wrong_type ? "argument_type" : name_of(error.code()));
    const nb::object made = errors.attr("make")(code, error.what(), error.peer());
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
  } catch (nb::python_error& other) {
    other.restore();
  }
}

}  // namespace

void register_errors() {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const TypeRefused& error) {
      set_python_error(error, true);
    } catch (const Error& error) {
      set_python_error(error, false);
    }
  });
}

void refuse(const std::string& words) { throw Error(ErrorCode::invalid_argument, words); }
void refuse_type(const std::string& words) { throw TypeRefused(words); }

std::string kind_of(nb::handle object) { return nb::cast<std::string>(object.type().attr("__name__")); }

}  // namespace tutti::python
