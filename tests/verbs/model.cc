#include "verbs/model.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "check.h"
#include "engine/reference.h"
#include "kernels/samples.h"

namespace tutti::testing {
namespace {

constexpr std::byte kUntouched{0xA5};

Op op_of(const Case& test, int rank) {
  return test.op == ReduceOp::premul_sum ? Op::premul_sum(factor_of(rank)) : Op(test.op);
}

bool is_prefix(Verb verb) { return verb == Verb::scan || verb == Verb::exclusive_scan; }

}  // namespace

bool reduces(Verb verb) {
  return verb == Verb::all_reduce || verb == Verb::reduce || verb == Verb::reduce_scatter || is_prefix(verb);
}

bool takes_chunks(Verb verb) {
  return verb == Verb::scatter || verb == Verb::gather || verb == Verb::all_gather || verb == Verb::reduce_scatter ||
         verb == Verb::all_to_all;
}

bool has_operator(Verb verb, DType type, ReduceOp op) {
  const bool weighted = op == ReduceOp::average || op == ReduceOp::premul_sum;
  return reduces(verb) && kernels_test::reference_supports(type, op) && !(weighted && is_prefix(verb));
}

std::string words_of(const Case& test) {
  return std::string(name_of(test.verb)) + " of " + std::to_string(test.count) + " " + std::string(name_of(test.type)) +
         (reduces(test.verb) ? ", " + std::string(name_of(test.op)) : "") + ", root " + std::to_string(test.root) +
         (test.in_place ? ", in place" : "");
}

std::size_t input_count(const Case& test, int ranks, int rank) {
  const std::size_t all = test.count * static_cast<std::size_t>(ranks);
  switch (test.verb) {
    case Verb::barrier: return 0;
    case Verb::broadcast: return rank == test.root ? test.count : 0;
    case Verb::scatter: return rank == test.root ? all : 0;
    case Verb::reduce_scatter:
    case Verb::all_to_all: return all;
    default: return test.count;
  }
}

std::size_t output_count(const Case& test, int ranks, int rank) {
  const std::size_t all = test.count * static_cast<std::size_t>(ranks);
  switch (test.verb) {
    case Verb::barrier: return 0;
    case Verb::reduce: return rank == test.root ? test.count : 0;
    case Verb::gather: return rank == test.root ? all : 0;
    case Verb::exclusive_scan: return rank == 0 ? 0 : test.count;
    case Verb::all_gather:
    case Verb::all_to_all: return all;
    default: return test.count;
  }
}

std::shared_ptr<const Model::Inputs> Model::make_inputs(DType type, int ranks, std::size_t count) {
  auto inputs = std::make_shared<Inputs>();
  for (int rank = 0; rank < ranks; ++rank)
    inputs->push_back(kernels_test::make_samples(type, count, static_cast<std::uint64_t>(rank) + 1));
  return inputs;
}

Model::Model(DType type, int ranks, std::shared_ptr<const Inputs> inputs)
    : type_(type), ranks_(ranks), inputs_(std::move(inputs)), count_(inputs_->front().size() / size_of(type)) {}

const std::byte* Model::input(int rank, std::size_t first) const {
  return at((*inputs_)[static_cast<std::size_t>(rank)], first);
}

void Model::place(const Hosts& hosts) {
  if (hosts == hosts_) return;
  hosts_ = hosts;
  reduced_ = {};
}

const std::byte* Model::reduced(ReduceOp op, std::size_t first) {
  Bytes& result = reduced_[static_cast<std::size_t>(op)];
  if (result.empty()) {
    std::vector<Bytes> inputs(inputs_->begin(), inputs_->begin() + ranks_);
    for (int rank = 0; op == ReduceOp::premul_sum && rank < ranks(); ++rank) {
      Bytes& input = inputs[static_cast<std::size_t>(rank)];
      kernels::find_scale(type_)(input.data(), input.data(), count_, factor_of(rank));
    }
    result = reduce_naively(type_, op, std::move(inputs), count_, hosts_);
  }
  return at(result, first);
}

const std::byte* Model::prefix(ReduceOp op, int rank, std::size_t first) {
  std::vector<Bytes>& results = prefixes_[static_cast<std::size_t>(op)];
  results.resize(inputs_->size());
  Bytes& result = results[static_cast<std::size_t>(rank)];
  if (result.empty())
    result = prefix_naively(type_, op, std::span(*inputs_).first(static_cast<std::size_t>(rank) + 1), count_);
  return at(result, first);
}

Model::Bytes Model::output(const Case& test, int rank, std::size_t first) {
  const std::size_t chunk = test.count * size_of(type_);
  const std::size_t own = first + static_cast<std::size_t>(rank) * test.count;
  Bytes result(output_count(test, ranks(), rank) * size_of(type_));
  if (result.empty()) return result;
  const auto put = [&](std::size_t place, const std::byte* from) {
    std::memcpy(result.data() + place * chunk, from, chunk);
  };
  switch (test.verb) {
    case Verb::all_reduce:
    case Verb::reduce: put(0, reduced(test.op, first)); break;
    case Verb::reduce_scatter: put(0, reduced(test.op, own)); break;
    case Verb::scan: put(0, prefix(test.op, rank, first)); break;
    case Verb::exclusive_scan: put(0, prefix(test.op, rank - 1, first)); break;
    case Verb::broadcast: put(0, input(test.root, first)); break;
    case Verb::scatter: put(0, input(test.root, own)); break;
    case Verb::send_recv: put(0, input((rank + ranks() - 1) % ranks(), first)); break;
    case Verb::gather:
    case Verb::all_gather:
    case Verb::all_to_all:
      for (int from = 0; from < ranks(); ++from)
        put(static_cast<std::size_t>(from), input(from, test.verb == Verb::all_to_all ? own : first));
      break;
    case Verb::barrier: break;
  }
  return result;
}

Trial::Trial(Communicator& comm, Model& model, const Case& test, const Areas& areas, std::size_t first)
    : name_(words_of(test)), element_bytes_(size_of(test.type)) {
  const int ranks = comm.size(), rank = comm.rank();
  model.place(Hosts(comm.hosts()));
  const std::size_t ins = input_count(test, ranks, rank), outs = output_count(test, ranks, rank);
  const std::size_t in_bytes = ins * element_bytes_, out_bytes = outs * element_bytes_;
  const std::size_t own = static_cast<std::size_t>(rank) * test.count * element_bytes_;
  std::byte *in = areas.input.data() + kMargin, *out = areas.output.data() + kMargin;
  std::size_t larger = out_bytes;
  if (test.in_place) {
    in = out;
    larger = std::max(in_bytes, out_bytes);
    const bool both = ins != 0 && outs != 0;
    if (both && out_bytes > in_bytes) in = out + own;
    if (both && in_bytes > out_bytes) out = in + own;
  }
  require(area_bytes(larger) <= areas.output.size() && area_bytes(in_bytes) <= areas.input.size(), "an area too small");
  const std::span<std::byte> around_output = areas.output.first(area_bytes(larger));
  const std::span<std::byte> around_input = areas.input.first(area_bytes(in_bytes));
  std::fill(around_output.begin(), around_output.end(), kUntouched);
  if (!test.in_place) std::fill(around_input.begin(), around_input.end(), kUntouched);
  if (in_bytes != 0) std::memcpy(in, model.input(rank, first), in_bytes);

  const Model::Bytes result = model.output(test, rank, first);
  images_.push_back({around_output, {around_output.begin(), around_output.end()}});
  if (!result.empty()) {
    std::memcpy(images_[0].expected.data() + (out - areas.output.data()), result.data(), result.size());
  }
  if (!test.in_place) images_.push_back({around_input, {around_input.begin(), around_input.end()}});

  Request request{.verb = test.verb, .element = test.type, .op = op_of(test, rank), .root = test.root};
  // A buffer that is not used here may be anything: nothing at all, or memory that must be left alone.
  if (ins != 0 || first % 2 == 0) request.input = in;
  if (outs != 0 || first % 2 == 0) request.output = out;
  request.input_count = ins;
  request.output_count = outs;
  requests_.push_back(request);
  if (test.verb != Verb::send_recv) return;
  requests_.push_back(request);
  requests_[0].direction = Direction::send;
  requests_[0].peer = (rank + 1) % ranks;
  requests_[1].direction = Direction::receive;
  requests_[1].peer = (rank + ranks - 1) % ranks;
}

void Trial::run(Communicator& comm) {
  if (requests_.size() == 1) {
    comm.run(requests_[0]);
    return;
  }
  std::vector<Work> works = start(comm);
  wait_all(works);
}

std::vector<Work> Trial::start(Communicator& comm) {
  std::vector<Work> works;
  for (const Request& request : requests_) works.push_back(comm.submit(request));
  return works;
}

void Trial::check() const {
  for (const Image& image : images_) {
    if (std::memcmp(image.area.data(), image.expected.data(), image.expected.size()) == 0) continue;
    const auto [found, expected] = std::mismatch(image.area.begin(), image.area.end(), image.expected.begin());
    const auto byte = found - image.area.begin();
    require(false, name_ + ": byte " + std::to_string(byte) + " of " + std::to_string(image.area.size()) + " of the " +
                       (&image == &images_[0] ? "output" : "input") + "'s area (margins of " + std::to_string(kMargin) +
                       ", elements of " + std::to_string(element_bytes_) + ") is " +
                       std::to_string(static_cast<int>(*found)) + ", not " +
                       std::to_string(static_cast<int>(*expected)));
  }
}

void run_case(Communicator& comm, Model& model, const Case& test, const Areas& areas, std::size_t first) {
  Trial trial(comm, model, test, areas, first);
  try {
    trial.run(comm);
  } catch (const std::exception& error) {
    require(false, words_of(test) + ": " + error.what());
  }
  trial.check();
}

}  // namespace tutti::testing
