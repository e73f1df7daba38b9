// The handle of an async call: keeps the call's arrays, gives its result, and may be dropped at any time.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>

#include "core/group.h"

namespace tutti::python {

class Handle {
 public:
  // `result` is what wait() returns; none for a receive, which returns what it has received.
  Handle(std::shared_ptr<Group> group, Underway underway, nb::object result);
  Handle(Handle&&) noexcept = default;
  Handle& operator=(Handle&&) = delete;
  ~Handle();

  nb::object wait(std::optional<double> timeout_s);
  bool done();
  // The places of those that have ended, which are waited for until there is one; none where all are None.
  static nb::list wait_some(const nb::list& handles, std::optional<double> timeout_s);

 private:
  // The call has ended well.
  nb::object finish();
  // The call has ended: its arrays are the caller's again.
  void let_go();

  std::shared_ptr<Group> group_;
  Underway underway_;
  nb::object result_;
  bool ended_ = false;
};

void bind_work(nb::module_& module);
// tutti.Received(source, tag, count)
nb::object received_of(const Received& received);

}  // namespace tutti::python
