// Large buffers on a device that come over in slices, and go back so, while the call is under way: by messages and in
// memory, in one piece and in several.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "check.h"
#include "device/device_memory.h"
#include "device/fake_cuda.h"
#include "device/staging.h"
#include "device/two_places.h"
#include "effort.h"
#include "verbs/model.h"

namespace tutti {
namespace {

using testing::Case;
using testing::DeviceBytes;
using testing::error_of;
using testing::fake;
using testing::Model;
using testing::Ranks;
using testing::require;
using testing::TwoPlaces;
using testing::Where;

// Of each chunk: more than two slices, and no whole number of anything.
constexpr std::size_t kElements = 1'100'003, kBytes = kElements * sizeof(float);
static_assert(kBytes > device::Staging::kFewestBytesInSlices);

struct Way {
  Ranks ranks;
  int threads;
};
constexpr Way kWays[] = {{Ranks::processes, 1}, {Ranks::tcp, 1}, {Ranks::tcp, 3}, {Ranks::mixed, 1}};

Options options_of(const Way& way) {
  Options options;
  options.tcp_threads = way.threads;
  options.timeout = std::chrono::seconds(30);
  return options;
}

class Slices : public ::testing::TestWithParam<Way> {
 protected:
  static void run(int ranks, const RankFunction& body) {
    testing::expect_all_ok(testing::run_ranks(GetParam().ranks, ranks, body, options_of(GetParam())));
  }
};

void try_verb(Communicator& comm, Verb verb, Model& model, const TwoPlaces& input, const TwoPlaces& output,
              int number) {
  for (const bool in_place : {false, true}) {
    const Case test{verb, DType::float32, ReduceOp::sum, kElements, number % comm.size(), in_place};
    const testing::Trial trial(comm, model, test, {input.host(), output.host()}, 0);
    const int way = (number + comm.rank()) % 3;
    testing::run_on_device(comm, trial, input, output, {way != 1, way != 2}, number % 2 == 1);
    trial.check();
    ++number;
  }
}

TEST_P(Slices, GiveWhatTheVerbsPromise) {
  constexpr int kRanks = 3;
  const auto inputs = Model::make_inputs(DType::float32, kRanks, kRanks * kElements);
  for (const int ranks : {2, kRanks}) {
    if (testing::kSanitized && ranks == kRanks) continue;
    run(ranks, [&](Communicator& comm) {
      testing::test_driver();
      if (auto* const seed = fake<void(unsigned)>("fake_cuda_seed")) seed(static_cast<unsigned>(comm.rank()));
      Model model(DType::float32, ranks, inputs);
      std::vector<std::byte> one(testing::area_bytes(kBytes * static_cast<std::size_t>(ranks))), other(one.size());
      const TwoPlaces input(one), output(other);
      int number = 0;
      for (const Verb verb : {Verb::all_reduce, Verb::broadcast, Verb::reduce, Verb::scatter, Verb::gather,
                              Verb::all_gather, Verb::reduce_scatter, Verb::all_to_all, Verb::scan})
        try_verb(comm, verb, model, input, output, number++);
    });
  }
}

// Returns when it holds; fails where that takes for ever.
template <class Condition>
void await(const char* what, Condition&& condition) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(20));
  while (!condition()) {
    require(!deadline.passed(), std::string("no ") + what);
    ::usleep(200);
  }
}

// The end of the memory does not come over, for as long as this lives or until it is let go.
class EndHeld {
 public:
  explicit EndHeld(const DeviceBytes& memory) {
    hold_(reinterpret_cast<unsigned long long>(memory.data()) + memory.size() - sizeof(float));
  }
  ~EndHeld() { let_go(); }
  EndHeld(const EndHeld&) = delete;
  EndHeld& operator=(const EndHeld&) = delete;

  // A real device does not wait on demand.
  static bool possible() { return fake<void(unsigned long long)>("fake_cuda_hold_copies") != nullptr; }
  void let_go() { hold_(0); }

 private:
  void (*hold_)(unsigned long long) = fake<void(unsigned long long)>("fake_cuda_hold_copies");
};

TEST_P(Slices, ACallBeginsBeforeAllOfItsInputIsThere) {
  run(2, [](Communicator& comm) {
    testing::test_driver();
    if (!EndHeld::possible()) return;
    std::vector<float> data(4 * kElements, comm.rank() == 0 ? 5.0f : 0.0f), token(1);
    const std::size_t bytes = data.size() * sizeof(float);
    if (comm.rank() == 0) {
      const DeviceBytes on_device(bytes);
      on_device.write(data.data(), bytes);
      EndHeld held(on_device);
      const std::span input(reinterpret_cast<float*>(on_device.data()), data.size());
      Work work = comm.broadcast_async(input, 0);
      comm.recv(std::span(token), 1);
      held.let_go();
      work.wait();
    } else {
      Work work = comm.broadcast_async(data, 0);
      await("data before all of the input was there", [&] {
        static_cast<void>(work.test());
        return *static_cast<volatile float*>(data.data()) == 5.0f;
      });
      require(!work.test(), "the call ended before all of its input was there");
      comm.send(std::span(token), 0);
      work.wait();
      require(data == std::vector<float>(data.size(), 5.0f), "what was broadcast");
    }
  });
}

// Rank 1 has its buffers in host memory: else one launch might do it all.
TEST_P(Slices, OutputGoesBackBeforeAllOfItIsThere) {
  run(2, [](Communicator& comm) {
    testing::test_driver();
    if (!EndHeld::possible()) return;
    std::vector<float> data(4 * kElements, comm.rank() == 0 ? 1.0f : 2.0f);
    const std::size_t bytes = data.size() * sizeof(float);
    if (comm.rank() == 0) {
      const DeviceBytes on_device(bytes);
      on_device.write(data.data(), bytes);
      EndHeld held(on_device);
      Work work = comm.all_reduce_async(std::span(reinterpret_cast<float*>(on_device.data()), data.size()));
      await("sums on the device before all of the input was there", [&] {
        static_cast<void>(work.test());
        float first = 0;
        on_device.read(&first, sizeof first);
        return first == 3.0f;
      });
      held.let_go();
      work.wait();
      on_device.read(data.data(), bytes);
    } else {
      comm.all_reduce(std::span(data));
    }
    require(data == std::vector<float>(data.size(), 3.0f), "sums");
  });
}

// A rank that fails while slices go back: nobody writes to its buffer afterwards.
TEST_P(Slices, NothingIsWrittenOnceACallHasFailed) {
  run(2, [](Communicator& comm) {
    testing::test_driver();
    auto* const fail = fake<void(const char*, int, int)>("fake_cuda_fail");
    auto* const pace = fake<void(int)>("fake_cuda_pace");
    if (fail == nullptr) return;
    std::vector<float> data(4 * kElements, 1.0f);
    const std::size_t bytes = data.size() * sizeof(float);
    comm.barrier();
    if (comm.rank() == 1) {
      const Error error = error_of([&] {
        comm.all_reduce(std::span(data));
        comm.barrier();
      });
      require(error.peer() == 0, error.what());
      return;
    }
    const DeviceBytes on_device(bytes);
    on_device.write(data.data(), bytes);
    pace(1000);
    // The second of several: the first is still on its way when the call fails.
    static auto* const fails = fail;
    fake<void(const char*, void (*)(void*), void*)>("fake_cuda_before")(
        "cuMemcpyHtoDAsync_v2", [](void*) { fails("cuMemcpyHtoDAsync_v2", 999, 1); }, nullptr);
    const Error error =
        error_of([&] { comm.all_reduce(std::span(reinterpret_cast<float*>(on_device.data()), data.size())); });
    require(std::string(error.what()).find("copying the output") != std::string::npos, error.what());
    std::vector<float> later(data.size());
    on_device.read(data.data(), bytes);
    ::usleep(20'000);
    on_device.read(later.data(), bytes);
    require(data == later, "somebody writes to the buffer of a call that has failed");
  });
}

INSTANTIATE_TEST_SUITE_P(, Slices, ::testing::ValuesIn(kWays), [](const auto& way) {
  return testing::name_of(way.param.ranks) + (way.param.threads == 1 ? "" : "_in_parts");
});

}  // namespace
}  // namespace tutti
