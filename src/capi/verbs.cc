// The collective verbs: arguments to a Request, which the library checks like any other.
//
// A C caller says how long a chunk is, a Request how much a buffer holds; of uneven chunks that is what they reach to.
#include <optional>
#include <string>
#include <string_view>

#include "capi/errors.h"
#include "capi/handles.h"
#include "capi/operators.h"

using namespace tutti::capi;
using tutti::Parts;
using tutti::Request;
using tutti::Verb;

namespace {

// Which of its buffers hold a chunk for every rank.
enum class Chunked { none, input, output, both };

struct Vectors {
  const void* input;
  void* output;
  size_t count;
  tutti_type type;
  int root = 0;
};

// A verb whose chunks, if it has any, are all of one length.
tutti_code even(tutti_comm comm, Verb verb, const Vectors& vectors, Chunked chunked, const tutti_op* op,
                tutti_work* work) noexcept {
  return guarded([&] {
    if (work != nullptr) *work = nullptr;
    tutti::Communicator& communicator = communicator_of(comm);
    size_t all = vectors.count;
    if (chunked != Chunked::none &&
        __builtin_mul_overflow(vectors.count, static_cast<size_t>(communicator.size()), &all))
      reject(std::string(name_of(verb)) + ": " + std::to_string(vectors.count) +
             " elements per rank are more than memory can hold");
    Request request{.verb = verb, .input = vectors.input, .output = vectors.output};
    request.input_count = chunked == Chunked::input || chunked == Chunked::both ? all : vectors.count;
    request.output_count = chunked == Chunked::output || chunked == Chunked::both ? all : vectors.count;
    request.element = element_of(vectors.type, name_of(verb));
    if (op != nullptr) request.op = op_of(*op, vectors.type, name_of(verb));
    request.root = vectors.root;
    carry_out(comm, request, work);
  });
}

// One side of an uneven verb: a chunk for every rank, or only this rank's.
struct BufferArgument {
  const size_t* counts = nullptr;
  const size_t* displacements = nullptr;
  size_t count = 0;
};

Parts parts_of(const BufferArgument& side, int size) {
  const auto ranks = static_cast<size_t>(size);
  Parts parts;
  if (side.counts != nullptr) parts.counts = {side.counts, ranks};
  if (side.displacements != nullptr) parts.displacements = {side.displacements, ranks};
  return parts;
}

// Where the last part ends. Sums that no number can hold are refused when the request is checked.
size_t reach_of(const Parts& parts) {
  size_t reach = 0, at = 0;
  for (size_t i = 0; i < parts.counts.size(); ++i) {
    const size_t count = parts.counts[i];
    size_t end = 0;
    if (__builtin_add_overflow(parts.displacements.empty() ? at : parts.displacements[i], count, &end)) continue;
    if (count != 0 && end > reach) reach = end;
    at += count;
  }
  return reach;
}

struct Uneven {
  std::string_view name;  // of the variant
  const void* input;
  BufferArgument sent;
  void* output;
  BufferArgument received;
  tutti_type type;
  std::optional<int> root;  // elsewhere the arrays are not looked at
};

tutti_code uneven(tutti_comm comm, Verb verb, const Uneven& given, Chunked chunked, const tutti_op* op,
                  tutti_work* work) noexcept {
  return guarded([&] {
    if (work != nullptr) *work = nullptr;
    tutti::Communicator& communicator = communicator_of(comm);
    const int rank = communicator.rank(), size = communicator.size();
    const bool looks = !given.root || *given.root == rank;
    Request request{.verb = verb, .input = given.input, .output = given.output};
    request.uneven = true;
    request.root = given.root.value_or(0);
    request.element = element_of(given.type, given.name);
    if (op != nullptr) request.op = op_of(*op, given.type, given.name);
    request.input_count = given.sent.count;
    request.output_count = given.received.count;
    if (looks && (chunked == Chunked::input || chunked == Chunked::both)) {
      request.input_parts = parts_of(given.sent, size);
      request.input_count = reach_of(request.input_parts);
    }
    if (looks && (chunked == Chunked::output || chunked == Chunked::both)) {
      request.output_parts = parts_of(given.received, size);
      request.output_count = reach_of(request.output_parts);
    }
    // The caller does not say it once more.
    if (verb == Verb::reduce_scatter && given.sent.counts != nullptr) request.output_count = given.sent.counts[rank];
    carry_out(comm, request, work);
  });
}

}  // namespace

extern "C" {

tutti_code tutti_all_reduce(tutti_comm comm, const void* input, void* output, size_t count, tutti_type type,
                            tutti_op op, tutti_work* work) {
  return even(comm, Verb::all_reduce, {input, output, count, type}, Chunked::none, &op, work);
}

tutti_code tutti_reduce(tutti_comm comm, const void* input, void* output, size_t count, tutti_type type, tutti_op op,
                        int root, tutti_work* work) {
  return even(comm, Verb::reduce, {input, output, count, type, root}, Chunked::none, &op, work);
}

tutti_code tutti_broadcast(tutti_comm comm, const void* input, void* output, size_t count, tutti_type type, int root,
                           tutti_work* work) {
  return even(comm, Verb::broadcast, {input, output, count, type, root}, Chunked::none, nullptr, work);
}

tutti_code tutti_scan(tutti_comm comm, const void* input, void* output, size_t count, tutti_type type, tutti_op op,
                      tutti_work* work) {
  return even(comm, Verb::scan, {input, output, count, type}, Chunked::none, &op, work);
}

tutti_code tutti_exclusive_scan(tutti_comm comm, const void* input, void* output, size_t count, tutti_type type,
                                tutti_op op, tutti_work* work) {
  return even(comm, Verb::exclusive_scan, {input, output, count, type}, Chunked::none, &op, work);
}

tutti_code tutti_all_gather(tutti_comm comm, const void* input, void* output, size_t count, tutti_type type,
                            tutti_work* work) {
  return even(comm, Verb::all_gather, {input, output, count, type}, Chunked::output, nullptr, work);
}

tutti_code tutti_gather(tutti_comm comm, const void* input, void* output, size_t count, tutti_type type, int root,
                        tutti_work* work) {
  return even(comm, Verb::gather, {input, output, count, type, root}, Chunked::output, nullptr, work);
}

tutti_code tutti_scatter(tutti_comm comm, const void* input, void* output, size_t count, tutti_type type, int root,
                         tutti_work* work) {
  return even(comm, Verb::scatter, {input, output, count, type, root}, Chunked::input, nullptr, work);
}

tutti_code tutti_reduce_scatter(tutti_comm comm, const void* input, void* output, size_t count, tutti_type type,
                                tutti_op op, tutti_work* work) {
  return even(comm, Verb::reduce_scatter, {input, output, count, type}, Chunked::input, &op, work);
}

tutti_code tutti_all_to_all(tutti_comm comm, const void* input, void* output, size_t count, tutti_type type,
                            tutti_work* work) {
  return even(comm, Verb::all_to_all, {input, output, count, type}, Chunked::both, nullptr, work);
}

tutti_code tutti_all_gather_v(tutti_comm comm, const void* input, size_t count, void* output, const size_t* counts,
                              const size_t* displacements, tutti_type type, tutti_work* work) {
  const BufferArgument sent{nullptr, nullptr, count}, received{counts, displacements};
  return uneven(comm, Verb::all_gather, {"all_gather_v", input, sent, output, received, type, {}}, Chunked::output,
                nullptr, work);
}

tutti_code tutti_gather_v(tutti_comm comm, const void* input, size_t count, void* output, const size_t* counts,
                          const size_t* displacements, tutti_type type, int root, tutti_work* work) {
  const BufferArgument sent{nullptr, nullptr, count}, received{counts, displacements};
  return uneven(comm, Verb::gather, {"gather_v", input, sent, output, received, type, root}, Chunked::output, nullptr,
                work);
}

tutti_code tutti_scatter_v(tutti_comm comm, const void* input, const size_t* counts, const size_t* displacements,
                           void* output, size_t count, tutti_type type, int root, tutti_work* work) {
  const BufferArgument sent{counts, displacements}, received{nullptr, nullptr, count};
  return uneven(comm, Verb::scatter, {"scatter_v", input, sent, output, received, type, root}, Chunked::input, nullptr,
                work);
}

tutti_code tutti_reduce_scatter_v(tutti_comm comm, const void* input, const size_t* counts, const size_t* displacements,
                                  void* output, tutti_type type, tutti_op op, tutti_work* work) {
  const BufferArgument sent{counts, displacements}, received{};
  return uneven(comm, Verb::reduce_scatter, {"reduce_scatter_v", input, sent, output, received, type, {}},
                Chunked::input, &op, work);
}

tutti_code tutti_all_to_all_v(tutti_comm comm, const void* input, const size_t* input_counts,
                              const size_t* input_displacements, void* output, const size_t* output_counts,
                              const size_t* output_displacements, tutti_type type, tutti_work* work) {
  const BufferArgument sent{input_counts, input_displacements}, received{output_counts, output_displacements};
  return uneven(comm, Verb::all_to_all, {"all_to_all_v", input, sent, output, received, type, {}}, Chunked::both,
                nullptr, work);
}

tutti_code tutti_barrier(tutti_comm comm, tutti_work* work) {
  return guarded([&] {
    if (work != nullptr) *work = nullptr;
    carry_out(comm, {.verb = Verb::barrier}, work);
  });
}

}  // extern "C"
