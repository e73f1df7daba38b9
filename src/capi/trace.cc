// Traces, and spans in them.
#include "tutti/trace.h"

#include <array>
#include <optional>

#include "capi/errors.h"
#include "capi/handles.h"

using namespace tutti::capi;

namespace {

// The spans that a thread is in.
struct OpenSpans {
  std::array<std::optional<tutti::Span>, 64> spans;
  std::size_t depth = 0;  // deeper ones are counted
};
thread_local OpenSpans open_spans;

}  // namespace

tutti_code tutti_trace_start(tutti_comm comm, const char* file, size_t events) {
  return guarded([&] {
    if (file == nullptr || *file == 0) reject("tutti_trace_start: file is empty; name the file that the trace goes to");
    communicator_of(comm).trace().start(file, events);
  });
}

tutti_code tutti_trace_stop(tutti_comm comm) {
  return guarded([&] { communicator_of(comm).trace().stop(); });
}

tutti_code tutti_trace_where(tutti_comm comm, const char** file) {
  return guarded([&] {
    place(file, "tutti_trace_where: file") = "";
    Group& group = group_of(comm);
    group.trace_file = group.communicator.trace().where();
    *file = group.trace_file.c_str();
  });
}

tutti_code tutti_trace_wait_begin(tutti_trace_wait* wait) {
  return guarded([&] {
    const tutti::trace::Held held = tutti::trace::held_up();
    place(wait, "tutti_trace_wait_begin: wait") = {held.recorder, held.since, held.thread};
  });
}

tutti_code tutti_trace_wait_end(const tutti_trace_wait* wait) {
  return guarded([&] {
    const tutti_trace_wait& begun = place(wait, "tutti_trace_wait_end: wait");
    tutti::trace::go_on({begun.trace, begun.since, begun.thread});
  });
}

tutti_code tutti_span_begin(const char* name) {
  return guarded([&] {
    if (name == nullptr) reject("tutti_span_begin: name is NULL");
    OpenSpans& open = open_spans;
    if (open.depth < open.spans.size()) open.spans[open.depth].emplace(name);
    ++open.depth;
  });
}

tutti_code tutti_span_end(void) {
  return guarded([&] {
    OpenSpans& open = open_spans;
    if (open.depth == 0) reject("tutti_span_end: this thread has begun no span that has not ended");
    --open.depth;
    if (open.depth < open.spans.size()) open.spans[open.depth].reset();
  });
}
