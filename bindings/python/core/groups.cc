// Joining, leaving, what a communicator knows, groups made of it, and symmetric memory.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>

#include "core/errors.h"
#include "core/operators.h"
#include "core/verbs.h"
#include "tutti/coalesced.h"
#include "tutti/init.h"
#include "tutti/train/report.h"
#include "tutti/types.h"

namespace tutti::python {
namespace {

std::chrono::milliseconds timeout_of(double seconds) {
  constexpr double kMost = 1e9;
  if (!(seconds > 0)) refuse("a timeout is a number of seconds, more than nothing, not " + std::to_string(seconds));
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(std::min(seconds, kMost) * 1e3)));
}

TransportKind transport_of(const std::string& word) {
  if (const auto kind = transport_named(word)) return *kind;
  std::string known;
  for (const std::string_view each : kTransportWords) known += (known.empty() ? "" : ", ") + std::string(each);
  refuse("init: there is no transport '" + word + "'; known: " + known);
}

Options options_of(bool deterministic, std::optional<double> timeout_s, std::optional<std::string> algorithm,
                   const std::string& check, const std::string& transport) {
  Options options;
  options.deterministic = deterministic;
  if (timeout_s) options.timeout = timeout_of(*timeout_s);
  if (algorithm) options.algorithm = *algorithm;
  if (check != "quick" && check != "full") refuse("init: there is no check '" + check + "'; known: quick, full");
  options.check = check == "full" ? Check::full : Check::quick;
  options.transport = transport_of(transport);
  return options;
}

std::shared_ptr<Group> join(bool deterministic, std::optional<double> timeout_s, std::optional<std::string> algorithm,
                            const std::string& check, const std::string& transport, std::optional<int> rank,
                            std::optional<int> world_size, std::optional<std::string> rendezvous,
                            std::optional<std::string> job, std::optional<std::string> token_file,
                            std::optional<std::string> network_interface) {
  const Options options = options_of(deterministic, timeout_s, std::move(algorithm), check, transport);
  const Launch launch{rank,
                      world_size,
                      rendezvous.value_or(""),
                      job.value_or(""),
                      token_file.value_or(""),
                      network_interface.value_or("")};
  return std::make_shared<Group>(without_gil([&] { return init(options, launch); }));
}

// A group made of another one; nullptr where this rank is not in it.
template <class Make>
std::shared_ptr<Group> make_child(const CommunicatorBase& parent, Make&& make) {
  const Group::Turn turn(group_of(parent));
  Communicator child = without_gil([&] { return make(*turn); });
  return child.valid() ? std::make_shared<Group>(std::move(child)) : nullptr;
}

// Bytes that all ranks of the host can reach, as an array whose views keep it.
nb::object allocate(const CommunicatorBase& self, std::size_t bytes) {
  const Group::Turn turn(group_of(self));
  auto memory = without_gil([&] { return turn->allocate_bytes(bytes); });
  auto* kept = new std::shared_ptr<void>(std::move(memory));
  const nb::capsule owner(kept, [](void* held) noexcept { delete static_cast<std::shared_ptr<void>*>(held); });
  return nb::cast(nb::ndarray<nb::numpy, std::uint8_t>(kept->get(), {bytes}, owner));
}

// Bytes on a CUDA device, as an object that speaks DLPack and keeps them, of elements whose type numpy.dtype() knows.
nb::object allocate_device(const CommunicatorBase& self, const std::vector<std::size_t>& shape, char kind,
                           std::size_t element_bytes, int device) {
  using nb::dlpack::dtype_code;
  const std::string_view kinds = "iufcb";
  constexpr dtype_code kCodes[] = {dtype_code::Int, dtype_code::UInt, dtype_code::Float, dtype_code::Complex,
                                   dtype_code::Bool};
  const std::size_t known = kinds.find(kind);
  if (known == std::string_view::npos) refuse("empty: on a device arrays hold numbers");
  constexpr std::size_t kMostElementBytes = 16;
  if (element_bytes > kMostElementBytes)
    refuse("empty: elements of " + std::to_string(element_bytes) + " bytes are known to no device");
  std::size_t bytes = element_bytes;
  for (const std::size_t length : shape) {
    if (__builtin_mul_overflow(bytes, length, &bytes)) refuse("empty: the shape is more than memory can hold");
  }
  const Group::Turn turn(group_of(self));
  auto memory = without_gil([&] { return turn->allocate_device_bytes(bytes, device); });
  auto* kept = new std::shared_ptr<void>(std::move(memory));
  const nb::capsule owner(kept, [](void* held) noexcept {
    const nb::gil_scoped_release released;  // the driver waits for streams, and those for operators of Python's
    delete static_cast<std::shared_ptr<void>*>(held);
  });
  const nb::dlpack::dtype type{static_cast<std::uint8_t>(kCodes[known]), static_cast<std::uint8_t>(8 * element_bytes),
                               1};
  const nb::ndarray<nb::array_api> array(kept->get(), shape.size(), shape.data(), owner, nullptr, type,
                                         nb::device::cuda::value, device);
  return nb::make_tuple(nb::cast(array), reinterpret_cast<std::uintptr_t>(kept->get()));
}

// While it lives, calls are ordered with the streams that arrays name.
class StreamOfArrays {
 public:
  StreamOfArrays(Communicator& communicator, const std::vector<Buffer>& buffers) : communicator_(communicator) {
    void* const set = communicator_.stream();
    void* const joined = join_streams(streams_of(buffers, set));
    if (joined == set) return;
    communicator_.set_stream(joined);
    was_set_ = true;
  }
  ~StreamOfArrays() {
    if (was_set_) communicator_.set_stream(nullptr);
  }
  StreamOfArrays(const StreamOfArrays&) = delete;
  StreamOfArrays& operator=(const StreamOfArrays&) = delete;

 private:
  Communicator& communicator_;
  bool was_set_ = false;
};

void all_reduce_many(const CommunicatorBase& self, const nb::list& arrays, nb::handle op) {
  std::vector<Buffer> buffers;
  for (const nb::handle array : arrays)
    buffers.emplace_back(array, Access::write, Role{"all_reduce_coalesced", "an array"});
  if (buffers.empty()) refuse("all_reduce_coalesced: there is no array in the list");
  std::vector<void*> addresses;
  std::vector<std::size_t> counts;
  for (const Buffer& buffer : buffers) {
    if (!(buffer.element() == buffers.front().element())) {
      refuse("all_reduce_coalesced: arrays of one dtype share an operation; these are " +
             name_of_element(buffers.front().element()) + " and " + name_of_element(buffer.element()));
    }
    Request request;
    set_output(request, buffer);
    addresses.push_back(request.output);
    counts.push_back(buffer.count());
  }
  const Op operation = op_of(op, buffers.front(), "all_reduce_coalesced");
  const Group::Turn turn(group_of(self));
  const StreamOfArrays stream(*turn, buffers);
  without_gil([&] { all_reduce_coalesced(*turn, addresses, counts, buffers.front().element(), operation); });
}

void bind_reports(nb::module_& module, CommunicatorClass& communicator) {
  nb::class_<train::Mark>(module, "Mark");
  communicator.def("_mark", [](const CommunicatorBase& self) {
    const Group::Turn turn(group_of(self));
    return train::mark(*turn);
  });
  module.def("_report", [](const train::Mark& from, const train::Mark& to, std::int64_t steps, bool json) {
    const train::Report report = train::report(from, to, steps);
    return json ? to_json(report) : to_text(report);
  });
}

void bind_devices(CommunicatorClass& communicator) {
  communicator.def_prop_rw(
      "_stream",
      [](const CommunicatorBase& self) {
        const Group::Turn turn(group_of(self));
        return reinterpret_cast<std::uintptr_t>(turn->stream());
      },
      [](const CommunicatorBase& self, std::uintptr_t stream) {
        const Group::Turn turn(group_of(self));
        turn->set_stream(reinterpret_cast<void*>(stream));
      });
  communicator.def("_allocate_device", &allocate_device);
}

void bind_traces(CommunicatorClass& communicator) {
  communicator.def("_trace_start", [](const CommunicatorBase& self, const std::string& file, std::size_t events) {
    const Group::Turn turn(group_of(self));
    without_gil([&] { turn->trace().start(file, events); });
  });
  communicator.def("_trace_stop", [](const CommunicatorBase& self) {
    const Group::Turn turn(group_of(self));
    without_gil([&] { turn->trace().stop(); });
  });
  communicator.def("_trace_where", [](const CommunicatorBase& self) {
    const Group::Turn turn(group_of(self));
    return turn->trace().where();
  });
}

}  // namespace

void bind_groups(nb::module_& module, CommunicatorClass& communicator) {
  bind_reports(module, communicator);
  bind_traces(communicator);
  bind_devices(communicator);
  nb::class_<Group>(module, "Group");
  module.def("join", &join, nb::arg("deterministic"), nb::arg("timeout").none(), nb::arg("algorithm").none(),
             nb::arg("check"), nb::arg("transport"), nb::arg("rank").none(), nb::arg("world_size").none(),
             nb::arg("rendezvous").none(), nb::arg("job").none(), nb::arg("token_file").none(),
             nb::arg("network_interface").none());
  communicator.def(nb::init<std::shared_ptr<Group>>(), nb::arg("group"));
  communicator.def_prop_ro(
      "rank", [](const CommunicatorBase& self) { return group_of(self).rank(); }, "This process's number, from 0.");
  communicator.def_prop_ro(
      "size", [](const CommunicatorBase& self) { return group_of(self).size(); }, "How many ranks there are.");
  communicator.def_prop_ro(
      "closed", [](const CommunicatorBase& self) { return group_of(self).closed(); }, "Whether close() was called.");
  communicator.def(
      "close",
      [](const CommunicatorBase& self) {
        Group& group = group_of(self);
        if (group.closed() || !group.in_own_process()) return group.close();
        const Group::Turn turn(group);  // refuses while a thread is in it
        group.close();
      },
      "Leaves the group; symmetric arrays stay readable. Again is fine.\n\n"
      "Calls under way go on: their Works are waited for as before, and those that were dropped are waited for here.");
  communicator.def("_give_up", [](const CommunicatorBase& self) {
    Group& group = group_of(self);
    if (!group.in_own_process()) return group.give_up();
    const Group::Turn turn(group, true);
    group.give_up();
  });
  communicator.def_prop_rw(
      "timeout",
      [](const CommunicatorBase& self) {
        const Group::Turn turn(group_of(self));
        return static_cast<double>(turn->timeout().count()) / 1e3;
      },
      [](const CommunicatorBase& self, double seconds) {
        const Group::Turn turn(group_of(self));
        turn->set_timeout(timeout_of(seconds));
      },
      "Seconds after which a call fails if nothing has moved; of the calls that follow.");
  communicator.def_prop_ro(
      "last_algorithm",
      [](const CommunicatorBase& self) {
        const Group::Turn turn(group_of(self));
        return std::string(turn->last_algorithm());
      },
      "The algorithm that the last blocking collective of this rank ran.");
  communicator.def_prop_ro(
      "tuned",
      [](const CommunicatorBase& self) {
        const Group::Turn turn(group_of(self));
        return turn->tuned();
      },
      "Whether algorithms are chosen by costs that `tutti tune` has measured; by built-in ones otherwise.");
  communicator.def_prop_ro(
      "counters",
      [](const CommunicatorBase& self) {
        const Group::Turn turn(group_of(self));
        const Counters counters = turn->counters();
        nb::dict verbs;
        for (std::size_t i = 0; i < kVerbs; ++i) {
          if (counters.verbs[i].calls == 0) continue;
          nb::dict counted;
          counted["calls"] = counters.verbs[i].calls;
          counted["bytes"] = counters.verbs[i].bytes;
          counted["waited"] = std::chrono::duration<double>(counters.verbs[i].waited).count();
          verbs[nb::str(std::string(name_of(static_cast<Verb>(i))).c_str())] = counted;
        }
        return verbs;
      },
      "What this rank has called so far: calls, bytes and seconds waited, of every verb that it called.");
  communicator.def("_split", [](const CommunicatorBase& self, int color, int key) {
    return make_child(self, [&](Communicator& parent) { return parent.split(color, key); });
  });
  communicator.def("_subgroup", [](const CommunicatorBase& self, const std::vector<int>& ranks) {
    return make_child(self, [&](Communicator& parent) { return parent.subgroup(ranks); });
  });
  communicator.def("_duplicate", [](const CommunicatorBase& self) {
    return make_child(self, [](Communicator& parent) { return parent.duplicate(); });
  });
  communicator.def("_create_group", [](const CommunicatorBase& self, const std::vector<int>& ranks, int tag) {
    return make_child(self, [&](Communicator& parent) { return parent.create_group(ranks, tag); });
  });
  communicator.def("_self", [](const CommunicatorBase& self) {
    return make_child(self, [](Communicator& parent) { return parent.self(); });
  });
  communicator.def_prop_ro(
      "parent_ranks",
      [](const CommunicatorBase& self) -> std::optional<std::vector<int>> {
        const Group::Turn turn(group_of(self));
        std::vector<int> ranks = turn->parent_ranks();
        if (ranks.empty()) return std::nullopt;
        return ranks;
      },
      "By rank: the ranks that these had in the communicator which this one was made of; None where there was none.");
  communicator.def("_allocate", &allocate);
  communicator.def("_all_reduce_many", &all_reduce_many);
}

}  // namespace tutti::python
