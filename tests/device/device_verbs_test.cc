// Every verb on buffers that lie on a device, on all ranks or on some, against what it gives in host memory.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "check.h"
#include "device/device_memory.h"
#include "device/two_places.h"
#include "verbs/product.h"

namespace tutti {
namespace {

using testing::DeviceBytes;
using testing::Listed;
using testing::Model;
using testing::Ranks;
using testing::require;
using testing::run_on_device;
using testing::Trial;
using testing::TwoPlaces;
using testing::Where;

// Ranks that are processes come first: a child that is forked once this process has used a driver cannot use it.
constexpr Ranks kForked[] = {Ranks::processes, Ranks::tcp, Ranks::mixed};

class DeviceVerbs : public ::testing::TestWithParam<Ranks> {
 protected:
  // Large buffers take their time, and differ in nothing but the kernel.
  static std::size_t most_bytes(DType type) {
    return type == DType::float32 || type == DType::bfloat16 ? std::size_t{700} << 10 : std::size_t{80} << 10;
  }
  static auto make_inputs(int ranks, std::size_t firsts) {
    std::vector<std::shared_ptr<const Model::Inputs>> inputs;
    for (std::size_t t = 0; t < kDTypes; ++t) {
      const auto type = static_cast<DType>(t);
      inputs.push_back(Model::make_inputs(type, ranks, most_bytes(type) / size_of(type) + firsts));
    }
    return inputs;
  }
  // `where_of` is asked for each (rank, number of the call).
  static void run_part(Ranks kind, int ranks, int group, const std::function<Where(int, std::size_t)>& where_of) {
    constexpr std::size_t kFirsts = 61;
    const auto inputs = make_inputs(ranks, kFirsts);
    testing::expect_all_ok(testing::run_ranks(kind, ranks, [&](Communicator& comm) {
      testing::test_driver();
      std::vector<std::byte> one(testing::area_bytes(most_bytes(DType::float32))), other(one.size());
      const TwoPlaces input(one), output(other);
      for (std::size_t t = 0; t < kDTypes; ++t) {
        const auto type = static_cast<DType>(t);
        Model model(type, ranks, inputs[t]);
        std::size_t number = 0;
        for (const Listed& listed : testing::part_of_product(type, ranks, group)) {
          ++number;
          const std::size_t bytes = listed.test.count * size_of(type) *
                                    (testing::takes_chunks(listed.test.verb) ? static_cast<std::size_t>(ranks) : 1);
          if (bytes > most_bytes(type)) continue;
          const Trial trial(comm, model, listed.test, {input.host(), output.host()}, 7 * number % kFirsts);
          run_on_device(comm, trial, input, output, where_of(comm.rank(), number), number % 3 == 0);
          trial.check();
        }
      }
    }));
  }
};

TEST_P(DeviceVerbs, GiveWhatTheyGiveInHostMemory) {
  int group = 0;
  for (const int ranks : {1, 2, 3, 4}) run_part(GetParam(), ranks, group++, [](int, std::size_t) { return Where{}; });
}

TEST_P(DeviceVerbs, TakeAnyMixtureOfPlaces) {
  const auto where = [](int rank, std::size_t number) {
    const std::size_t way = (static_cast<std::size_t>(rank) + number) % 4;
    return Where{way % 2 == 1, way / 2 == 1};
  };
  for (const int ranks : {2, 5}) run_part(GetParam(), ranks, ranks, where);
}

// Chunks of different lengths, strewn about, in place and not; what is between them stays as it was.
struct Strewn {
  Strewn(int ranks, unsigned seed) : counts(static_cast<std::size_t>(ranks)), displacements(counts.size()) {
    std::mt19937 random(seed);
    constexpr std::size_t kLengths[] = {0, 1, 7, 500, 9001};
    std::vector<std::size_t> order(counts.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t i : order) {
      counts[i] = kLengths[random() % std::size(kLengths)];
      displacements[i] = total += random() % 100;
      total += counts[i];
    }
    total += 3;
  }
  Parts parts() const { return {counts, displacements}; }

  std::vector<std::size_t> counts, displacements;
  std::size_t total = 0;
};

// The request over two arrays, once in host memory and once on the device: the same must be left in both.
void compare(Communicator& comm, Request request, std::vector<std::int32_t>& input, std::vector<std::int32_t>& output) {
  std::vector<std::int32_t> first_input = input, first_output = output;
  comm.run(request);
  const std::vector<std::int32_t> host_input = input, host_output = output;
  input = first_input;
  output = first_output;
  const TwoPlaces one(std::as_writable_bytes(std::span(input))), other(std::as_writable_bytes(std::span(output)));
  one.upload();
  other.upload();
  request.input = moved(request.input, one, other);
  request.output = moved(request.output, one, other);
  comm.run(request);
  one.download();
  other.download();
  require(input == host_input, std::string(name_of(request.verb)) + "_v: the input is another");
  require(output == host_output, std::string(name_of(request.verb)) + "_v: the output is another");
}

TEST_P(DeviceVerbs, ChunksMayLieAnywhere) {
  testing::expect_all_ok(testing::run_ranks(GetParam(), 3, [](Communicator& comm) {
    testing::test_driver();
    const auto own = static_cast<std::size_t>(comm.rank());
    for (unsigned round = 0; round < 8; ++round) {
      const Strewn all(comm.size(), round);  // the same on all ranks
      const int root = static_cast<int>(round) % comm.size();
      const bool in_place = round % 2 == 1;
      for (const Verb verb : {Verb::all_gather, Verb::gather, Verb::scatter, Verb::reduce_scatter}) {
        const bool collects = verb == Verb::all_gather || verb == Verb::gather;
        std::vector<std::int32_t> whole(all.total), part(all.counts[own]);
        std::iota(whole.begin(), whole.end(), 100 * comm.rank());
        std::iota(part.begin(), part.end(), -7000 * comm.rank());
        std::int32_t* const chunk = whole.data() + all.displacements[own];
        const bool has_whole = verb == Verb::all_gather || verb == Verb::reduce_scatter || comm.rank() == root;
        void* const own_part = in_place && has_whole && !part.empty() ? static_cast<void*>(chunk) : part.data();
        Request request{.verb = verb, .element = DType::int32, .root = root, .uneven = true};
        request.input = collects ? own_part : whole.data();
        request.output = collects ? static_cast<void*>(whole.data()) : own_part;
        request.input_count = collects ? part.size() : whole.size();
        request.output_count = collects ? whole.size() : part.size();
        (collects ? request.output_parts : request.input_parts) = all.parts();
        if (collects) {
          compare(comm, request, part, whole);
        } else {
          compare(comm, request, whole, part);
        }
      }
      // From everybody as much as it has for this rank.
      std::vector<Strewn> sent;
      for (int rank = 0; rank < comm.size(); ++rank) sent.emplace_back(comm.size(), 50 * round + 7u * rank);
      Strewn received(comm.size(), 1000 + round);
      received.total = 0;
      for (std::size_t i = 0; i < sent.size(); ++i) {
        received.counts[i] = sent[i].counts[own];
        received.displacements[i] = received.total + 5;
        received.total += received.counts[i] + 5;
      }
      std::vector<std::int32_t> input(sent[own].total), output(received.total, -1);
      std::iota(input.begin(), input.end(), 100 * comm.rank());
      Request request{.verb = Verb::all_to_all, .element = DType::int32, .uneven = true};
      request.input = input.data();
      request.output = output.data();
      request.input_count = input.size();
      request.output_count = output.size();
      request.input_parts = sent[own].parts();
      request.output_parts = received.parts();
      compare(comm, request, input, output);
    }
  }));
}

INSTANTIATE_TEST_SUITE_P(Forked, DeviceVerbs, ::testing::ValuesIn(kForked),
                         [](const auto& test) { return testing::name_of(test.param); });
INSTANTIATE_TEST_SUITE_P(OfOneProcess, DeviceVerbs, ::testing::Values(Ranks::threads),
                         [](const auto& test) { return testing::name_of(test.param); });

}  // namespace
}  // namespace tutti
