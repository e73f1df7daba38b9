#include "core/operators.h"

#include <nanobind/stl/string.h>

#include <stdexcept>

#include "core/errors.h"
#include "tutti/reduce_local.h"

namespace tutti::python {
namespace {

// A function of two arrays. Calls come on any thread, without the GIL.
class Function final : public Operator {
 public:
  Function(const Operation& operation, const Buffer& like) : function_(operation.function), dtype_(like.dtype()) {
    element = like.element();
    commutative = operation.commutative;
    name = operation.name;
    device_source = operation.device_source;
  }
  Function(const Function&) = delete;
  Function& operator=(const Function&) = delete;
  ~Function() override {
    if (Py_IsInitialized() == 0) {
      static_cast<void>(function_.release());
      static_cast<void>(dtype_.release());
      return;
    }
    const nb::gil_scoped_acquire acquired;
    function_.reset();
    dtype_.reset();
  }

  void combine(void* result, const void* left, const void* right, std::size_t count) const override {
    const nb::gil_scoped_acquire acquired;
    try {
      // The function sees copies: it may keep them, and result may be left or right.
      const nb::object joined = function_(copy_of(left, count), copy_of(right, count));
      const nb::object target = view_of(result, count, false);
      nb::module_::import_("numpy").attr("copyto")(target, joined, nb::arg("casting") = "same_kind");
    } catch (const nb::python_error& error) {
      throw std::runtime_error("the operator " + name + " raised " + error.what());
    }
  }

 private:
  nb::object view_of(const void* memory, std::size_t count, bool read_only) const {
    const auto bytes = static_cast<Py_ssize_t>(count * element.bytes());
    auto* data = const_cast<char*>(static_cast<const char*>(memory));
    const nb::object view = nb::steal(PyMemoryView_FromMemory(data, bytes, read_only ? PyBUF_READ : PyBUF_WRITE));
    if (!view.is_valid()) throw nb::python_error();
    return nb::module_::import_("numpy").attr("frombuffer")(view, nb::arg("dtype") = dtype_);
  }
  nb::object copy_of(const void* memory, std::size_t count) const {
    return view_of(memory, count, true).attr("copy")();
  }

  nb::object function_;
  nb::object dtype_;
};

ReduceOp builtin(const std::string& name, const char* verb) {
  constexpr std::pair<const char*, ReduceOp> kNames[] = {
      {"sum", ReduceOp::sum},         {"product", ReduceOp::product}, {"prod", ReduceOp::product},
      {"minimum", ReduceOp::minimum}, {"min", ReduceOp::minimum},     {"maximum", ReduceOp::maximum},
      {"max", ReduceOp::maximum},     {"average", ReduceOp::average}, {"mean", ReduceOp::average},
      {"avg", ReduceOp::average},     {"band", ReduceOp::band},       {"bor", ReduceOp::bor},
      {"bxor", ReduceOp::bxor},       {"land", ReduceOp::land},       {"lor", ReduceOp::lor},
      {"lxor", ReduceOp::lxor}};
  for (const auto& [known, op] : kNames) {
    if (name == known) return op;
  }
  refuse(std::string(verb) + ": there is no operator '" + name +
         "'; known: sum, product, minimum, maximum, average, band, bor, bxor, land, lor, lxor, "
         "minloc, maxloc, tutti.premul_sum(factor), tutti.Op(function)");
}

// minloc and maxloc on elements as NumPy knows them, which may lie at any address.
class Located final : public Operator {
 public:
  Located(std::shared_ptr<const Operator> aligned, const Buffer& like) : aligned_(std::move(aligned)) {
    element = like.element();
    name = aligned_->name;
  }
  void combine(void* result, const void* left, const void* right, std::size_t count) const override {
    aligned_->combine(result, left, right, count);
  }

 private:
  std::shared_ptr<const Operator> aligned_;
};

Op located(const std::string& name, const Buffer& buffer, const char* verb) {
  const auto refuse_it = [&] {
    refuse(std::string(verb) + ": " + name + " reduces a value and its index: a structured dtype of two fields, as " +
           "numpy.dtype([(\"value\", \"f4\"), (\"index\", \"i4\")], align=True)");
  };
  const nb::object dtype = nb::module_::import_("numpy").attr("dtype")(buffer.dtype());
  const nb::object names = dtype.attr("names");
  if (names.is_none() || nb::len(names) != 2) refuse_it();
  const nb::object value = dtype.attr("fields")[names[0]], index = dtype.attr("fields")[names[1]];
  const Element first = element_of(value[0], {verb, "the value"}), second = element_of(index[0], {verb, "the index"});
  if (first.opaque() || second.opaque()) refuse_it();
  const bool smallest = name == "minloc";
  const Op op = smallest ? Op::minloc(first.dtype(), second.dtype()) : Op::maxloc(first.dtype(), second.dtype());
  const Element& pair = op.own()->element;
  const std::size_t behind = (first.bytes() + second.bytes() - 1) / second.bytes() * second.bytes();
  const bool laid_out = nb::cast<std::size_t>(value[1]) == 0 && nb::cast<std::size_t>(index[1]) == behind;
  if (!laid_out || buffer.element().bytes() != pair.bytes()) refuse_it();
  return Op(std::make_shared<Located>(op.own(), buffer));
}

nb::object reduce(nb::handle left, nb::handle right, nb::handle op, nb::handle out) {
  constexpr const char* kVerb = "reduce_local";
  const Buffer a(left, Access::read, {kVerb, "left"}), b(right, Access::read, {kVerb, "right"});
  const nb::object result = out.is_none() ? empty_like(a, a.shape()) : nb::borrow(out);
  const Buffer c(result, Access::write, {kVerb, "out"});
  require_same_elements(a, b, kVerb);
  require_same_elements(a, c, kVerb);
  if (a.shape() != b.shape() || a.shape() != c.shape()) refuse("reduce_local: the arrays have different shapes");
  const Op operation = op_of(op, a, kVerb);
  {
    const nb::gil_scoped_release released;
    tutti::reduce_local(a.data(), b.data(), c.data(), a.count(), a.element(), operation);
  }
  return result;
}

}  // namespace

Op op_of(nb::handle op, const Buffer& buffer, const char* verb) {
  if (nb::isinstance<nb::str>(op)) {
    const auto name = nb::cast<std::string>(op);
    return name == "minloc" || name == "maxloc" ? located(name, buffer, verb) : Op(builtin(name, verb));
  }
  const Operation* own = nullptr;
  if (!nb::try_cast(op, own) || own == nullptr)
    refuse_type(std::string(verb) + ": op is a " + kind_of(op) + "; pass a name like \"sum\", or a tutti.Op");
  if (!own->function.is_valid()) return Op::premul_sum(own->factor);
  return Op(std::make_shared<Function>(*own, buffer));
}

void bind_operators(nb::module_& module) {
  nb::class_<Operation>(module, "Op",
                        "An operator of your own: function(left, right) -> array, element by element.\n\n"
                        "left and right are NumPy arrays of one length, with the dtype of the call (structured dtypes, "
                        "too);\nleft stems from lower ranks. The function must be associative. Where commutative is "
                        "False, operands\nkeep the order of the ranks. All ranks pass the same; the name is compared.\n"
                        "device_source: the same in CUDA C++, for arrays on a device that all ranks share:\n"
                        "\"__device__ Element combine(const Element& left, const Element& right) { ... }\", where "
                        "Element is the\ntype of an element, which a structured dtype's source defines itself.")
      .def(
          "__init__",
          [](Operation* made, nb::object function, bool commutative, nb::object name, std::string device_source) {
            if (PyCallable_Check(function.ptr()) == 0)
              refuse_type("Op: the function is a " + kind_of(function) + ", which cannot be called");
            const bool named = nb::hasattr(function, "__name__");
            const std::string said = !name.is_none() ? nb::cast<std::string>(name)
                                     : named         ? nb::cast<std::string>(function.attr("__name__"))
                                                     : kind_of(function);
            new (made) Operation{1.0, std::move(function), commutative, said, std::move(device_source)};
          },
          nb::arg("function"), nb::kw_only(), nb::arg("commutative") = true, nb::arg("name") = nb::none(),
          nb::arg("device_source") = "")
      .def_ro("name", &Operation::name);
  module.def("reduce_local", &reduce, nb::arg("left"), nb::arg("right"), nb::arg("op") = "sum", nb::kw_only(),
             nb::arg("out") = nb::none(),
             "left op right, element by element, without any rank: the same bits as an all_reduce between two.\n\n"
             "A new array, or out, which may be left or right. An average divides by two.");
  module.def(
      "premul_sum",
      [](double factor) {
        return Operation{factor, nb::object(), true, "premul_sum", ""};
      },
      nb::arg("factor"), "The sum of every rank's input times its factor, rounded before it is added.");
}

}  // namespace tutti::python
