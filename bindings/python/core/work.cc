#include "core/work.h"

#include <nanobind/stl/optional.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <set>

#include "core/errors.h"

namespace tutti::python {
namespace {

std::chrono::milliseconds milliseconds_of(double seconds) {
  if (!(seconds >= 0)) refuse("wait: a timeout is a number of seconds, 0 or more");
  constexpr double kMost = 1e9;  // seconds; beyond any wait
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(std::min(seconds, kMost) * 1e3)));
}

}  // namespace

Handle::Handle(std::shared_ptr<Group> group, Underway underway, nb::object result)
    : group_(std::move(group)), underway_(std::move(underway)), result_(std::move(result)) {
  group_->add_handle();
}

// A Work that is dropped would be waited for: not here, where Python may be collecting garbage.
Handle::~Handle() {
  if (group_ != nullptr && !ended_) group_->leave_behind(std::move(underway_));
}

nb::object Handle::finish() {
  if (!ended_ && !result_.is_valid()) result_ = received_of(underway_.work.received());
  let_go();
  return result_;
}

void Handle::let_go() {
  underway_.buffers.clear();
  if (!std::exchange(ended_, true)) group_->end_handle();
}

nb::object Handle::wait(std::optional<double> timeout_s) {
  if (ended_) {
    underway_.work.wait();  // says what it failed with
    return finish();
  }
  const Group::Turn turn(*group_, true);
  try {
    without_gil([&] {
      if (timeout_s) {
        underway_.work.wait(milliseconds_of(*timeout_s));
      } else {
        underway_.work.wait();
      }
    });
  } catch (const Error&) {
    if (underway_.work.error() != nullptr) let_go();
    throw;
  }
  return finish();
}

bool Handle::done() {
  if (ended_) return true;
  const Group::Turn turn(*group_, true);
  try {
    const nb::gil_scoped_release released;
    if (!underway_.work.test()) return false;
  } catch (const Error&) {
    let_go();  // wait() says why
    return true;
  }
  finish();
  return true;
}

nb::list Handle::wait_some(const nb::list& handles, std::optional<double> timeout_s) {
  std::vector<Handle*> under_way;
  std::vector<Work*> works;
  for (const nb::handle entry : handles) {
    if (!entry.is_none() && !nb::isinstance<Handle>(entry))
      refuse_type("a Work, or None, is waited for, not " + kind_of(entry));
    Handle* const handle = entry.is_none() ? nullptr : nb::cast<Handle*>(entry);
    under_way.push_back(handle);
    works.push_back(handle == nullptr ? nullptr : &handle->underway_.work);
  }
  std::set<Group*> groups;
  for (const Handle* handle : under_way) {
    if (handle != nullptr && !handle->ended_) groups.insert(handle->group_.get());
  }
  std::deque<Group::Turn> turns;
  for (Group* group : groups) turns.emplace_back(*group, true);
  without_gil([&] { return timeout_s ? await_any(works, milliseconds_of(*timeout_s)) : await_any(works); });
  nb::list ended;
  for (std::size_t i = 0; i < works.size(); ++i) {
    if (works[i] != nullptr && works[i]->ended()) ended.append(i);
  }
  return ended;
}

nb::object received_of(const Received& received) {
  return nb::module_::import_("tutti._received").attr("Received")(received.source, received.tag, received.count);
}

void bind_work(nb::module_& module) {
  module.def("wait_some", &Handle::wait_some, nb::arg("works"), nb::arg("timeout").none());
  nb::class_<Handle>(module, "Work",
                     "An async call. The arrays it was given are the library's until it has ended.\n\n"
                     "A Work may be dropped: the call goes on, and its arrays are kept until it has ended.")
      .def("wait", &Handle::wait, nb::arg("timeout") = nb::none(),
           "Waits until the call has ended, and returns its result: the output array, or Received for a receive.\n\n"
           "timeout is in seconds: when it passes first, TimeoutError is raised and the call goes on. Raises what the\n"
           "call failed with. Ctrl-C ends the wait, not the call. close() does not end it, either.")
      .def("done", &Handle::done, "True when the call has ended, well or not; wait() says which. Takes it further.");
}

}  // namespace tutti::python
