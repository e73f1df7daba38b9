// Verbs on vectors: in place unless out= says otherwise.
#include <nanobind/stl/optional.h>

#include "core/errors.h"
#include "core/operators.h"
#include "core/verbs.h"

namespace tutti::python {
namespace {

// The input and the output of a call, which may be one array.
void set_buffers(Prepared& prepared, nb::handle array, nb::handle out) {
  const bool in_place = out.is_none() || out.is(array);
  if (in_place) {
    prepared.buffers.emplace_back(array, Access::write, Role{prepared.verb, "the array"});
  } else {
    prepared.buffers.emplace_back(array, Access::read, Role{prepared.verb, "the array"});
    prepared.buffers.emplace_back(out, Access::write, Role{prepared.verb, "out"});
    require_same_elements(prepared.buffers.front(), prepared.buffers.back(), prepared.verb);
  }
  set_input(prepared.request, prepared.buffers.front());
  set_output(prepared.request, prepared.buffers.back());
  prepared.result = nb::borrow(in_place ? array : out);
}

nb::object reduce_like(Verb verb, const char* name, const CommunicatorBase& self, nb::handle array, nb::handle op,
                       nb::handle out, bool async) {
  Prepared prepared{.verb = name, .request = {.verb = verb}};
  set_buffers(prepared, array, out);
  prepared.request.op = op_of(op, prepared.buffers.front(), name);
  return make_call(self, std::move(prepared), async);
}

nb::object reduce(const CommunicatorBase& self, nb::handle array, nb::handle op, int root, nb::handle out, bool async) {
  Prepared prepared{.verb = "reduce", .request = {.verb = Verb::reduce, .root = root}};
  if (group_of(self).rank() == root) {
    set_buffers(prepared, array, out);
  } else {
    prepared.buffers.emplace_back(array, Access::read, Role{"reduce", "the array"});
    set_input(prepared.request, prepared.buffers.front());
    prepared.result = nb::none();
  }
  prepared.request.op = op_of(op, prepared.buffers.front(), "reduce");
  return make_call(self, std::move(prepared), async);
}

nb::object broadcast(const CommunicatorBase& self, nb::handle array, int root, nb::handle out, bool async) {
  Prepared prepared{.verb = "broadcast", .request = {.verb = Verb::broadcast, .root = root}};
  const bool in_place = out.is_none() || out.is(array);
  if (group_of(self).rank() != root) {
    const nb::handle target = in_place ? array : out;
    prepared.buffers.emplace_back(target, Access::write, Role{"broadcast", in_place ? "the array" : "out"});
    set_output(prepared.request, prepared.buffers.front());
    prepared.request.input = prepared.request.output;
    prepared.request.input_count = prepared.request.output_count;
    prepared.result = nb::borrow(target);
  } else if (in_place) {
    // The root only reads what it already has: it may be read-only there.
    prepared.buffers.emplace_back(array, Access::read, Role{"broadcast", "the array"});
    set_input(prepared.request, prepared.buffers.front());
    set_output(prepared.request, prepared.buffers.front());
    prepared.result = nb::borrow(array);
  } else {
    set_buffers(prepared, array, out);
  }
  return make_call(self, std::move(prepared), async);
}

}  // namespace

void bind_vectors(CommunicatorClass& communicator) {
  const auto reduction = [&](const char* name, Verb verb, const char* text) {
    communicator.def(
        name,
        [verb, name](const CommunicatorBase& self, nb::handle array, nb::handle op, nb::handle out, bool async) {
          return reduce_like(verb, name, self, array, op, out, async);
        },
        nb::arg("array").none(), nb::arg("op") = "sum", nb::kw_only(), nb::arg("out") = nb::none(),
        nb::arg("async_op") = false, text);
  };
  reduction("all_reduce", Verb::all_reduce,
            "Every rank's array becomes the sum (or op) of all ranks' arrays, element by element; returns it.\n\n"
            "    comm.all_reduce(gradient, \"average\")           # in place\n"
            "    comm.all_reduce(x, \"maximum\", out=y)           # x is left alone\n"
            "    work = comm.all_reduce(x, async_op=True)       # under way; work.wait() returns x\n\n"
            "All ranks pass the same shape and dtype, and get the same bits.");
  reduction("scan", Verb::scan,
            "Every rank's array becomes the sum (or op) over ranks 0 .. this one; in place unless out= is given.");
  reduction("exclusive_scan", Verb::exclusive_scan,
            "Every rank's array becomes the sum (or op) over the ranks before this one; rank 0's is left alone.");
  communicator.def("reduce", &reduce, nb::arg("array").none(), nb::arg("op") = "sum", nb::arg("root") = 0,
                   nb::kw_only(), nb::arg("out") = nb::none(), nb::arg("async_op") = false,
                   "The root's array becomes the sum (or op) of all ranks' arrays; other ranks' are left alone.\n\n"
                   "Returns the array at the root, None elsewhere.");
  communicator.def("broadcast", &broadcast, nb::arg("array").none(), nb::arg("root") = 0, nb::kw_only(),
                   nb::arg("out") = nb::none(), nb::arg("async_op") = false,
                   "Every rank's array becomes the root's; returns it.\n\n"
                   "With out= the root's array is left where it is and all ranks get it in out; other ranks may pass "
                   "None as array.");
}

}  // namespace tutti::python
