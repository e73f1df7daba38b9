#include "core/work.h"

#include <nanobind/stl/optional.h>

#include <algorithm>
#include <chrono>
#include <cmath>

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
    : group_(std::move(group)), underway_(std::move(underway)), result_(std::move(result)) {}

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
  ended_ = true;
  underway_.buffers.clear();
}

nb::object Handle::wait(std::optional<double> timeout_s) {
  if (ended_ || group_->closed()) {
    if (underway_.work.error() != nullptr) let_go();
    underway_.work.wait();  // does not wait: it ended, or closing the communicator ended it
    return finish();
  }
  const Group::Turn turn(*group_);
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
  if (ended_ || group_->closed()) return true;
  const Group::Turn turn(*group_);
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

nb::object received_of(const Received& received) {
  return nb::module_::import_("tutti._received").attr("Received")(received.source, received.tag, received.count);
}

void bind_work(nb::module_& module) {
  nb::class_<Handle>(module, "Work",
                     "An async call. The arrays it was given are the library's until it has ended.\n\n"
                     "A Work may be dropped: the call goes on, and its arrays are kept until it has ended.")
      .def("wait", &Handle::wait, nb::arg("timeout") = nb::none(),
           "Waits until the call has ended, and returns its result: the output array, or Received for a receive.\n\n"
           "timeout is in seconds: when it passes first, TimeoutError is raised and the call goes on. Raises what the\n"
           "call failed with. Ctrl-C ends the wait, not the call.")
      .def("done", &Handle::done, "True when the call has ended, well or not; wait() says which. Takes it further.");
}

}  // namespace tutti::python
