// Ranks as threads of this process, for notebooks and quick trials.
#include <nanobind/stl/shared_ptr.h>

#include <atomic>
#include <chrono>
#include <future>

#include "core/errors.h"
#include "core/verbs.h"
#include "tutti/local.h"

namespace tutti::python {
namespace {

constexpr std::chrono::milliseconds kAskedEvery{50};  // whether Ctrl-C was pressed

// Calls `rank_function(group)` on every rank, which returns nothing and must not raise; returns when all have ended.
// Ctrl-C stops the calls that the ranks wait in.
void run_ranks(int ranks, const nb::object& rank_function) {
  std::atomic<bool> stopped{false};
  const auto rank = [&](Communicator& communicator) {
    const nb::gil_scoped_acquire acquired;
    const StoppedBy stop(stopped);
    try {
      rank_function(std::make_shared<Group>(std::move(communicator)));
    } catch (nb::python_error& error) {
      error.discard_as_unraisable("tutti.spawn");
    }
  };
  bool interrupted = false;
  std::vector<RankEnd> ends;
  {
    const nb::gil_scoped_release released;
    auto crew = std::async(std::launch::async, [&] { return run_threads(ranks, rank); });
    while (crew.wait_for(kAskedEvery) != std::future_status::ready) {
      const nb::gil_scoped_acquire acquired;
      interrupted = interrupted || PyErr_CheckSignals() != 0;
      stopped = interrupted;
    }
    ends = crew.get();
  }
  if (interrupted) throw nb::python_error();
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (!ends[i].ok())
      throw Error(ErrorCode::peer_failed, "rank " + std::to_string(i) + ": " + ends[i].message, static_cast<int>(i));
  }
}

}  // namespace

void bind_threads(nb::module_& module) { module.def("run_ranks", &run_ranks, nb::arg("ranks"), nb::arg("function")); }

}  // namespace tutti::python
