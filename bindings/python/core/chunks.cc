// Verbs on chunks, one per rank, cut along the first axis: they return a new array unless out= is given.
#include "core/errors.h"
#include "core/operators.h"
#include "core/verbs.h"

namespace tutti::python {
namespace {

std::vector<std::size_t> with_rows(std::vector<std::size_t> shape, std::size_t rows) {
  if (shape.empty()) return {rows};
  shape.front() = rows;
  return shape;
}

// Takes `out`, or makes an array of that shape.
void set_result(Prepared& prepared, nb::handle out, const std::vector<std::size_t>& shape) {
  const Buffer& input = prepared.buffers.front();
  prepared.result = out.is_none() ? empty_like(input, shape) : nb::borrow(out);
  Buffer output(prepared.result, Access::write, {prepared.verb, "out"});
  require_same_elements(input, output, prepared.verb);
  set_output(prepared.request, output);
  prepared.buffers.push_back(std::move(output));
}

std::size_t rows_of_chunk(const Buffer& whole, int ranks, const char* verb) {
  const std::size_t rows = whole.rows({verb, "the array"});
  const auto chunks = static_cast<std::size_t>(ranks);
  if (rows % chunks != 0) {
    refuse(std::string(verb) + ": the first axis has " + std::to_string(rows) + " rows, which is no multiple of the " +
           std::to_string(ranks) + " ranks; " + verb + "_v takes chunks of different lengths");
  }
  return rows / chunks;
}

void take_input(Prepared& prepared, nb::handle array) {
  prepared.buffers.emplace_back(array, Access::read, Role{prepared.verb, "the array"});
  set_input(prepared.request, prepared.buffers.front());
}

std::vector<std::size_t> gathered_shape(const Buffer& input, int ranks) {
  const std::size_t rows = input.shape().empty() ? 1 : input.shape().front();
  return with_rows(input.shape(), rows * static_cast<std::size_t>(ranks));
}

nb::object all_gather(const CommunicatorBase& self, nb::handle array, nb::handle out, bool async) {
  Prepared prepared{.verb = "all_gather", .request = {.verb = Verb::all_gather}};
  take_input(prepared, array);
  set_result(prepared, out, gathered_shape(prepared.buffers.front(), group_of(self).size()));
  return make_call(self, std::move(prepared), async);
}

nb::object gather(const CommunicatorBase& self, nb::handle array, int root, nb::handle out, bool async) {
  Prepared prepared{.verb = "gather", .request = {.verb = Verb::gather, .root = root}};
  take_input(prepared, array);
  if (group_of(self).rank() == root) {
    set_result(prepared, out, gathered_shape(prepared.buffers.front(), group_of(self).size()));
  } else {
    prepared.result = nb::none();
  }
  return make_call(self, std::move(prepared), async);
}

nb::object scatter(const CommunicatorBase& self, nb::handle array, nb::handle out, int root, bool async) {
  Prepared prepared{.verb = "scatter", .request = {.verb = Verb::scatter, .root = root}};
  const bool is_root = group_of(self).rank() == root;
  if (is_root && array.is_none()) refuse("scatter: the root needs an array to cut into chunks");
  if (!is_root && out.is_none())
    refuse("scatter: pass out= on every rank but the root, which alone knows the shape of the chunks");
  if (is_root) {
    take_input(prepared, array);
    const Buffer& input = prepared.buffers.front();
    set_result(prepared, out, with_rows(input.shape(), rows_of_chunk(input, group_of(self).size(), "scatter")));
  } else {
    prepared.buffers.emplace_back(out, Access::write, Role{"scatter", "out"});
    set_output(prepared.request, prepared.buffers.front());
    prepared.result = nb::borrow(out);
  }
  return make_call(self, std::move(prepared), async);
}

nb::object reduce_scatter(const CommunicatorBase& self, nb::handle array, nb::handle op, nb::handle out, bool async) {
  Prepared prepared{.verb = "reduce_scatter", .request = {.verb = Verb::reduce_scatter}};
  take_input(prepared, array);
  const Buffer& input = prepared.buffers.front();
  prepared.request.op = op_of(op, input, "reduce_scatter");
  set_result(prepared, out, with_rows(input.shape(), rows_of_chunk(input, group_of(self).size(), "reduce_scatter")));
  return make_call(self, std::move(prepared), async);
}

nb::object all_to_all(const CommunicatorBase& self, nb::handle array, nb::handle out, bool async) {
  Prepared prepared{.verb = "all_to_all", .request = {.verb = Verb::all_to_all}};
  take_input(prepared, array);
  rows_of_chunk(prepared.buffers.front(), group_of(self).size(), "all_to_all");
  set_result(prepared, out, std::vector<std::size_t>(prepared.buffers.front().shape()));
  return make_call(self, std::move(prepared), async);
}

nb::object barrier(const CommunicatorBase& self, bool async) {
  return make_call(self, {.verb = "barrier", .request = {.verb = Verb::barrier}, .result = nb::none()}, async);
}

}  // namespace

void bind_chunks(CommunicatorClass& communicator) {
  const auto array = nb::arg("array").none();
  communicator.def(
      "all_gather", &all_gather, array, nb::kw_only(), nb::arg("out") = nb::none(), nb::arg("async_op") = false,
      "Every rank gets all ranks' arrays, one behind the other along the first axis.\n\n"
      "    comm.all_gather(x)     # x of shape (3, 2) on 4 ranks: the result has shape (12, 2)\n\n"
      "A 0-d array gives one number per rank. In place: out is the whole, and array this rank's rows of it.");
  communicator.def("gather", &gather, array, nb::arg("root") = 0, nb::kw_only(), nb::arg("out") = nb::none(),
                   nb::arg("async_op") = false, "As all_gather, for the root alone; other ranks get None.");
  communicator.def("scatter", &scatter, array, nb::arg("out") = nb::none(), nb::arg("root") = 0, nb::kw_only(),
                   nb::arg("async_op") = false,
                   "Cuts the root's array along its first axis, and gives every rank its rows, in out.\n\n"
                   "Ranks other than the root pass None as array, and an out of the right shape.");
  communicator.def("reduce_scatter", &reduce_scatter, array, nb::arg("op") = "sum", nb::kw_only(),
                   nb::arg("out") = nb::none(), nb::arg("async_op") = false,
                   "The sum (or op) of all ranks' arrays, of which every rank gets its rows.\n\n"
                   "    comm.reduce_scatter(x)     # x of shape (12, 2) on 4 ranks: the result has shape (3, 2)\n\n"
                   "all_gather of the results is all_reduce, bit for bit.");
  communicator.def("all_to_all", &all_to_all, array, nb::kw_only(), nb::arg("out") = nb::none(),
                   nb::arg("async_op") = false,
                   "Every rank cuts its array along the first axis, and sends rank r its r-th part.\n\n"
                   "Part r of the result came from rank r. In place with out=array.");
  communicator.def("barrier", &barrier, nb::kw_only(), nb::arg("async_op") = false,
                   "No rank returns before all have called.");
}

}  // namespace tutti::python
