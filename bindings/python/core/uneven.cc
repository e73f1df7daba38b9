// Verbs on chunks of different lengths. Counts and displacements are rows: lengths along the first axis.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <numeric>

#include "core/errors.h"
#include "core/operators.h"
#include "core/verbs.h"

namespace tutti::python {
namespace {

using Rows = std::vector<std::size_t>;
using MaybeRows = std::optional<std::vector<std::size_t>>;

// One chunk per rank, in elements, as the library wants it.
struct Chunks {
  Rows counts, displacements;
  std::size_t rows = 0;  // that the buffer must have

  Parts parts() const { return {counts, displacements}; }
};

Rows scaled(Rows rows, std::size_t elements) {
  for (std::size_t& row : rows) row *= elements;
  return rows;
}

Chunks chunks_of(const Rows& counts, const MaybeRows& displacements, std::size_t row_elements, int ranks, Role role) {
  const auto expected = static_cast<std::size_t>(ranks);
  const auto require = [&](const Rows& list, const char* what) {
    if (list.size() == expected) return;
    refuse(std::string(role.verb) + ": " + role.name + what + " has " + std::to_string(list.size()) +
           " numbers; one per rank makes " + std::to_string(ranks));
  };
  require(counts, "counts");
  Chunks chunks;
  chunks.rows = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  if (displacements) {
    require(*displacements, "displacements");
    chunks.rows = 0;
    for (std::size_t r = 0; r < expected; ++r) {
      if (counts[r] != 0) chunks.rows = std::max(chunks.rows, (*displacements)[r] + counts[r]);
    }
    chunks.displacements = scaled(*displacements, row_elements);
  }
  chunks.counts = scaled(counts, row_elements);
  return chunks;
}

// Sends every rank its number (`mine` has one, or one per rank), and returns what the ranks sent.
Rows exchange_counts(const CommunicatorBase& self, Verb verb, const Rows& mine) {
  const Group::Turn turn(group_of(self));
  Rows all(static_cast<std::size_t>(turn->size()));
  const Request request{.verb = verb,
                        .input = mine.data(),
                        .output = all.data(),
                        .input_count = mine.size(),
                        .output_count = all.size(),
                        .element = Element::of<std::size_t>()};
  without_gil([&] { turn->run(request); });
  return all;
}

void take_input(Prepared& prepared, nb::handle array) {
  prepared.buffers.emplace_back(array, Access::read, Role{prepared.verb, "the array"});
  set_input(prepared.request, prepared.buffers.front());
}

void set_result(Prepared& prepared, nb::handle out, std::size_t rows) {
  const Buffer& input = prepared.buffers.front();
  std::vector<std::size_t> shape = input.shape();
  shape.front() = rows;
  prepared.result = out.is_none() ? empty_like(input, shape) : nb::borrow(out);
  Buffer output(prepared.result, Access::write, {prepared.verb, "out"});
  require_same_elements(input, output, prepared.verb);
  set_output(prepared.request, output);
  prepared.buffers.push_back(std::move(output));
}

// The chunks are read before the call returns, also where it is async.
nb::object make_uneven(const CommunicatorBase& self, Prepared prepared, const Chunks* input, const Chunks* output,
                       bool async) {
  prepared.request.uneven = true;
  if (input != nullptr) prepared.request.input_parts = input->parts();
  if (output != nullptr) prepared.request.output_parts = output->parts();
  return make_call(self, std::move(prepared), async);
}

nb::object all_gather_v(const CommunicatorBase& self, nb::handle array, const MaybeRows& counts, nb::handle out,
                        const MaybeRows& displacements, bool async) {
  Prepared prepared{.verb = "all_gather_v", .request = {.verb = Verb::all_gather}};
  take_input(prepared, array);
  const Buffer& input = prepared.buffers.front();
  const std::size_t rows = input.rows({"all_gather_v", "the array"});
  const Rows known = counts ? *counts : exchange_counts(self, Verb::all_gather, {rows});
  const Chunks chunks =
      chunks_of(known, displacements, input.row_elements(), group_of(self).size(), {"all_gather_v", ""});
  set_result(prepared, out, chunks.rows);
  return make_uneven(self, std::move(prepared), nullptr, &chunks, async);
}

nb::object gather_v(const CommunicatorBase& self, nb::handle array, const MaybeRows& counts, int root, nb::handle out,
                    const MaybeRows& displacements, bool async) {
  Prepared prepared{.verb = "gather_v", .request = {.verb = Verb::gather, .root = root}};
  take_input(prepared, array);
  const Buffer& input = prepared.buffers.front();
  const std::size_t rows = input.rows({"gather_v", "the array"});
  const bool is_root = group_of(self).rank() == root;
  const Rows known = counts ? *counts : exchange_counts(self, Verb::all_gather, {rows});
  if (!is_root) {
    prepared.result = nb::none();
    return make_uneven(self, std::move(prepared), nullptr, nullptr, async);
  }
  const Chunks chunks = chunks_of(known, displacements, input.row_elements(), group_of(self).size(), {"gather_v", ""});
  set_result(prepared, out, chunks.rows);
  return make_uneven(self, std::move(prepared), nullptr, &chunks, async);
}

nb::object scatter_v(const CommunicatorBase& self, nb::handle array, const MaybeRows& counts, nb::handle out, int root,
                     const MaybeRows& displacements, bool async) {
  Prepared prepared{.verb = "scatter_v", .request = {.verb = Verb::scatter, .root = root}};
  const Group& group = group_of(self);
  if (group.rank() != root) {
    if (out.is_none())
      refuse("scatter_v: pass out= on every rank but the root, which alone knows the shape of the chunks");
    prepared.buffers.emplace_back(out, Access::write, Role{"scatter_v", "out"});
    set_output(prepared.request, prepared.buffers.front());
    prepared.result = nb::borrow(out);
    return make_uneven(self, std::move(prepared), nullptr, nullptr, async);
  }
  if (array.is_none() || !counts)
    refuse("scatter_v: the root needs an array, and the counts of the chunks to cut it into");
  take_input(prepared, array);
  const Buffer& input = prepared.buffers.front();
  input.rows({"scatter_v", "the array"});
  const Chunks chunks = chunks_of(*counts, displacements, input.row_elements(), group.size(), {"scatter_v", ""});
  set_result(prepared, out, (*counts)[static_cast<std::size_t>(group.rank())]);
  return make_uneven(self, std::move(prepared), &chunks, nullptr, async);
}

nb::object reduce_scatter_v(const CommunicatorBase& self, nb::handle array, const Rows& counts, nb::handle op,
                            nb::handle out, const MaybeRows& displacements, bool async) {
  Prepared prepared{.verb = "reduce_scatter_v", .request = {.verb = Verb::reduce_scatter}};
  take_input(prepared, array);
  const Buffer& input = prepared.buffers.front();
  input.rows({"reduce_scatter_v", "the array"});
  const Group& group = group_of(self);
  const Chunks chunks = chunks_of(counts, displacements, input.row_elements(), group.size(), {"reduce_scatter_v", ""});
  prepared.request.op = op_of(op, input, "reduce_scatter_v");
  set_result(prepared, out, counts[static_cast<std::size_t>(group.rank())]);
  return make_uneven(self, std::move(prepared), &chunks, nullptr, async);
}

nb::object all_to_all_v(const CommunicatorBase& self, nb::handle array, const Rows& counts, const MaybeRows& out_counts,
                        nb::handle out, const MaybeRows& displacements, const MaybeRows& out_displacements,
                        bool async) {
  Prepared prepared{.verb = "all_to_all_v", .request = {.verb = Verb::all_to_all}};
  take_input(prepared, array);
  const Buffer& input = prepared.buffers.front();
  input.rows({"all_to_all_v", "the array"});
  const int ranks = group_of(self).size();
  const Chunks sent = chunks_of(counts, displacements, input.row_elements(), ranks, {"all_to_all_v", ""});
  const Rows expected = out_counts ? *out_counts : exchange_counts(self, Verb::all_to_all, counts);
  const Chunks received = chunks_of(expected, out_displacements, input.row_elements(), ranks, {"all_to_all_v", "out_"});
  set_result(prepared, out, received.rows);
  return make_uneven(self, std::move(prepared), &sent, &received, async);
}

}  // namespace

void bind_uneven(CommunicatorClass& communicator) {
  const auto array = nb::arg("array").none();
  const auto out = nb::arg("out") = nb::none();
  const auto displacements = nb::arg("displacements") = nb::none();
  const auto async = nb::arg("async_op") = false;
  communicator.def("all_gather_v", &all_gather_v, array, nb::arg("counts") = nb::none(), nb::kw_only(), out,
                   displacements, async,
                   "As all_gather, with arrays that differ in their number of rows.\n\n"
                   "counts are the rows of every rank; where no rank passes them they are asked for, which is a call "
                   "of its own.\ndisplacements say at which row of out each rank's chunk begins.");
  communicator.def("gather_v", &gather_v, array, nb::arg("counts") = nb::none(), nb::arg("root") = 0, nb::kw_only(),
                   out, displacements, async,
                   "As gather, with arrays that differ in their number of rows. All ranks pass counts, or none does.");
  communicator.def("scatter_v", &scatter_v, array, nb::arg("counts") = nb::none(), out, nb::arg("root") = 0,
                   nb::kw_only(), displacements, async,
                   "As scatter, with chunks of counts[r] rows for rank r; only the root's counts are looked at.\n\n"
                   "Ranks other than the root pass None as array, and an out of the right shape.");
  communicator.def("reduce_scatter_v", &reduce_scatter_v, array, nb::arg("counts"), nb::arg("op") = "sum",
                   nb::kw_only(), out, displacements, async,
                   "As reduce_scatter, with chunks of counts[r] rows for rank r; all ranks pass the same counts.");
  communicator.def("all_to_all_v", &all_to_all_v, array, nb::arg("counts"), nb::arg("out_counts") = nb::none(),
                   nb::kw_only(), out, displacements, nb::arg("out_displacements") = nb::none(), async,
                   "As all_to_all: sends counts[r] rows to rank r, and receives out_counts[r] rows from it.\n\n"
                   "Where no rank passes out_counts they are asked for, which is a call of its own.");
}

}  // namespace tutti::python
