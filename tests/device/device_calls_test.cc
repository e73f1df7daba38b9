// Calls on device memory as a program makes them: with streams of its own, as messages, and when they fail.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "check.h"
#include "device/copy.h"
#include "device/device_memory.h"
#include "device/fake_cuda.h"
#include "tutti/coalesced.h"
#include "tutti/reduce_local.h"
#include "tutti/streams.h"
#include "tutti/tutti.h"

namespace tutti {
namespace {

using testing::DeviceBytes;
using testing::fake;
using testing::PinnedFloats;
using testing::Ranks;
using testing::require;
using testing::TestStream;

constexpr std::size_t kCount = 5000;

// An array on the device.
class Floats {
 public:
  explicit Floats(std::vector<float> values) : memory_(values.size() * sizeof(float)), count_(values.size()) {
    memory_.write(values.data(), memory_.size());
  }
  std::byte* bytes() const { return memory_.data(); }
  float* data() const { return reinterpret_cast<float*>(memory_.data()); }
  std::size_t size() const { return count_; }
  std::span<float> span() const { return {data(), count_}; }
  std::vector<float> read() const {
    std::vector<float> values(count_);
    memory_.read(values.data(), memory_.size());
    return values;
  }
  void write(const std::vector<float>& values) const { memory_.write(values.data(), memory_.size()); }

 private:
  DeviceBytes memory_;
  std::size_t count_;
};

std::vector<float> filled(float value, std::size_t count = kCount) { return std::vector<float>(count, value); }

Request all_reduce_of(const Floats& input, const Floats& output, void* stream = nullptr) {
  return {.verb = Verb::all_reduce,
          .input = input.data(),
          .output = output.data(),
          .input_count = input.size(),
          .output_count = output.size(),
          .element = DType::float32,
          .stream = stream};
}

Request message_of(const Floats& buffer, int peer, Direction direction, void* stream) {
  const bool sends = direction == Direction::send;
  return {.verb = Verb::send_recv,
          .input = sends ? buffer.data() : nullptr,
          .output = sends ? nullptr : buffer.data(),
          .input_count = sends ? buffer.size() : 0,
          .output_count = sends ? 0 : buffer.size(),
          .element = DType::float32,
          .stream = stream,
          .direction = direction,
          .up_to = !sends,
          .peer = peer};
}

// What the call throws.
Error error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  throw std::runtime_error("no error was thrown");
}

class DeviceCalls : public ::testing::TestWithParam<Ranks> {
 protected:
  static void run(int ranks, const RankFunction& body) {
    testing::expect_all_ok(testing::run_ranks(GetParam(), ranks, body));
  }
};

TEST_P(DeviceCalls, AsyncCallsAreALinkOfTheirStream) {
  run(3, [](Communicator& comm) {
    const TestStream stream;
    const Floats input(filled(0)), output(filled(-1));
    const PinnedFloats seen(kCount);
    for (int round = 0; round < 5; ++round) {
      const auto values = filled(static_cast<float>(comm.rank() + round));
      device::StreamGate gate = stream.hold();
      stream.write(input.bytes(), values.data(), kCount * sizeof(float));
      Work work = comm.submit(all_reduce_of(input, output, stream.get()));
      stream.read(seen.data(), output.bytes(), kCount * sizeof(float));
      comm.barrier();  // the host goes on, and so do other calls, while the stream is held
      require(!work.test(), "a call ended before its stream came to it");
      gate.open();
      work.wait();
      stream.synchronize();
      require(seen.values() == filled(static_cast<float>(3 + 3 * round)),
              "the stream went on before the call had ended");
      device::StreamGates::of_process().give_back(gate);
    }
  });
}

TEST_P(DeviceCalls, CallsOnOtherStreamsDoNotWait) {
  run(2, [](Communicator& comm) {
    const TestStream held, free;
    const Floats one(filled(1)), two(filled(2));
    comm.run(all_reduce_of(two, two, free.get()));  // loads the kernel, for which a driver lets all streams end
    device::StreamGate gate = held.hold();
    Work work = comm.submit(all_reduce_of(one, one, held.get()));
    for (int call = 0; call < 3; ++call) comm.run(all_reduce_of(two, two, free.get()));
    require(two.read() == filled(32), "another sum");
    require(!work.test(), "a call ended before its stream came to it");
    gate.open();
    work.wait();
    require(one.read() == filled(2), "another sum of the call that was held");
    device::StreamGates::of_process().give_back(gate);
  });
}

// Whoever gives memory back waits inside the driver for all streams, and keeps others from putting work into any. So
// what lets the stream go on must have been put there before.
TEST_P(DeviceCalls, AThreadThatFreesMemoryIsNotWaitedFor) {
  run(2, [](Communicator& comm) {
    const TestStream stream;
    const Floats buffer(filled(0)), received(filled(0)), short_one(filled(-1, kCount + 10));
    for (int round = 0; round < 10; ++round) {
      auto unwanted = std::make_unique<Floats>(filled(0));
      const Floats sent(filled(static_cast<float>(comm.rank())));
      buffer.write(filled(static_cast<float>(round)));
      std::vector<Work> works;
      works.push_back(comm.submit(all_reduce_of(buffer, buffer, stream.get())));
      works.push_back(comm.submit(all_reduce_of(received, received)));
      const Request messages[] = {message_of(short_one, 1 - comm.rank(), Direction::receive, stream.get()),
                                  message_of(sent, 1 - comm.rank(), Direction::send, stream.get())};
      for (Work& work : comm.submit_all(messages)) works.push_back(std::move(work));
      unwanted.reset();
      wait_all(works);
      stream.synchronize();
      require(buffer.read() == filled(static_cast<float>(2 * round)), "another sum");
      std::vector<float> expected = filled(static_cast<float>(1 - comm.rank()));
      expected.resize(kCount + 10, -1);
      require(short_one.read() == expected, "another message, or more than it");
    }
  });
}

// None of them has begun then, and what others would have brought back is not.
TEST(CallsMadeTogether, AreRefusedTogetherWhereMemoryCannotBeRegistered) {
  auto* const fail = fake<void(const char*, int, int)>("fake_cuda_fail");
  if (fail == nullptr) GTEST_SKIP() << "a real driver does not fail on demand";
  testing::expect_all_ok(run_processes(1, [&](Communicator& comm) {
    constexpr std::size_t kMore = 100 * kCount;  // which takes other memory
    const TestStream stream;
    const Floats few(filled(1)), many(filled(1, kMore));
    comm.submit(all_reduce_of(few, few, stream.get())).wait();
    few.write(filled(2));
    const Floats output(filled(3));
    const Request together[] = {all_reduce_of(few, output, stream.get()), all_reduce_of(many, many, stream.get())};
    fail("cuMemHostRegister_v2", device::kCuOutOfMemory, 100);
    const Error error = error_of([&] { static_cast<void>(comm.submit_all(together)); });
    fail("cuMemHostRegister_v2", device::kCuOutOfMemory, 0);
    require(error.code() == ErrorCode::system, error.what());
    stream.synchronize();
    require(output.read() == filled(3), "the other call brought something back");
    for (Work& work : comm.submit_all(together)) work.wait();
    require(output.read() == filled(2), "the next calls are not served");
  }));
}

// Ranks that are threads share a context: what one of them waits for inside the driver must not be a stream that
// another's call holds until the first has made that call, too. In a process of their own, as none can be forked from
// one that has used a device.
TEST(CallsOfThreads, HoldNoStreamUnlessTheyAreGivenOne) {
  const auto call = [](Communicator& comm, const Floats& buffer, const Floats& received) {
    std::vector<Work> works;
    works.push_back(comm.submit(all_reduce_of(buffer, buffer)));
    works.push_back(comm.submit(message_of(received, 1 - comm.rank(), Direction::receive, nullptr)));
    return works;
  };
  const auto body = [&](Communicator& comm) {
    const Floats buffer(filled(1)), received(filled(-1, kCount + 10));
    Communicator beside = comm.duplicate();
    for (int round = 0; round < 4; ++round) {
      auto unwanted = std::make_unique<Floats>(filled(0));
      std::vector<Work> works;
      const bool waits = comm.rank() == round % 2;
      if (!waits) works = call(comm, buffer, received);
      beside.barrier();
      if (waits) {
        unwanted.reset();
        std::vector<float> copied(kCount);
        device::copy_anywhere(copied.data(), buffer.data(), kCount * sizeof(float));
        works = call(comm, buffer, received);
      }
      comm.send(std::span<const float>(filled(static_cast<float>(round))), 1 - comm.rank());
      wait_all(works);
      require(buffer.read() == filled(static_cast<float>(2 << round)), "another sum");
      std::vector<float> expected = filled(static_cast<float>(round));
      expected.resize(kCount + 10, -1);
      require(received.read() == expected, "another message, or more than it");
    }
  };
  testing::expect_all_ok(run_processes(1, [&](Communicator&) {
    for (const RankEnd& end : testing::run_ranks(Ranks::threads, 2, body, testing::impatient(3000)))
      require(end.ok(), end.message);
  }));
}

TEST_P(DeviceCalls, BlockingCallsComeAfterTheirStream) {
  run(2, [](Communicator& comm) {
    const TestStream stream;
    const Floats buffer(filled(0));
    for (int round = 0; round < 20; ++round) {
      const auto values = filled(static_cast<float>(comm.rank() + round));
      stream.write(buffer.bytes(), values.data(), kCount * sizeof(float));
      comm.run(all_reduce_of(buffer, buffer, stream.get()));
      require(buffer.read() == filled(static_cast<float>(1 + 2 * round)), "not the stream's values");
    }
  });
}

TEST_P(DeviceCalls, AStreamMayBeSetForAllThatFollow) {
  run(2, [](Communicator& comm) {
    const TestStream stream;
    const Floats buffer(filled(0));
    comm.set_stream(stream.get());
    require(comm.stream() == stream.get(), "another stream");
    const PinnedFloats seen(kCount);
    for (int round = 0; round < 10; ++round) {
      const auto values = filled(static_cast<float>(comm.rank() + round));
      stream.write(buffer.bytes(), values.data(), kCount * sizeof(float));
      if (round % 2 == 0) {
        comm.all_reduce(buffer.span());
      } else {
        Work work = comm.all_reduce_async(buffer.span());
        stream.read(seen.data(), buffer.bytes(), kCount * sizeof(float));
        work.wait();
        stream.synchronize();
        require(seen.values() == filled(static_cast<float>(1 + 2 * round)), "the stream went on before the call");
      }
      require(buffer.read() == filled(static_cast<float>(1 + 2 * round)), "not the stream's values");
    }
    require(comm.duplicate().stream() == nullptr, "another group has the stream, too");
  });
}

TEST_P(DeviceCalls, TensorsAreCoalescedAfterWhatTheStreamHolds) {
  run(2, [](Communicator& comm) {
    const TestStream stream;
    comm.set_stream(stream.get());
    const Floats one(filled(0, 10)), two(filled(0, 1000));
    for (int round = 0; round < 10; ++round) {
      const auto values = filled(static_cast<float>(comm.rank() + round), 1000);
      stream.write(one.bytes(), values.data(), one.size() * sizeof(float));
      stream.write(two.bytes(), values.data(), two.size() * sizeof(float));
      void* const tensors[] = {one.data(), two.data()};
      const std::size_t counts[] = {one.size(), two.size()};
      all_reduce_coalesced(comm, tensors, counts, DType::float32, ReduceOp::sum);
      const auto sum = static_cast<float>(1 + 2 * round);
      require(one.read() == filled(sum, 10) && two.read() == filled(sum, 1000), "what the stream held is not in it");
    }
  });
}

TEST_P(DeviceCalls, MessagesTouchOnlyWhatHasCome) {
  run(2, [](Communicator& comm) {
    const int other = 1 - comm.rank();
    for (const std::size_t count : {std::size_t{1}, std::size_t{300}, std::size_t{200'000}}) {
      const Floats sent(filled(static_cast<float>(comm.rank() + 1), count));
      const Floats received(filled(-1, count + 10));
      std::vector<Work> works;
      works.push_back(comm.send_async(sent.span(), other, 5));
      const Received found = comm.probe(other, 5, DType::float32);
      require(found.count == count, "the probe counts wrong");
      require(comm.recv_up_to(received.span(), other, 5).count == count, "another length");
      wait_all(works);
      std::vector<float> expected = filled(static_cast<float>(other + 1), count);
      expected.resize(count + 10, -1);
      require(received.read() == expected, "another message, or more than it");
    }
  });
}

TEST_P(DeviceCalls, MessagesKeepTheirOrderAndReachTheirSender) {
  run(2, [](Communicator& comm) {
    for (const int peer : {comm.rank(), 1 - comm.rank()}) {
      const TestStream stream;
      const Floats first(filled(0)), later(filled(2));
      const auto values = filled(1);
      std::vector<float> host = filled(3);
      device::StreamGate gate = stream.hold();
      stream.write(first.bytes(), values.data(), kCount * sizeof(float));
      std::vector<Work> works;
      works.push_back(comm.submit({.verb = Verb::send_recv,
                                   .input = first.data(),
                                   .input_count = kCount,
                                   .element = DType::float32,
                                   .stream = stream.get(),
                                   .direction = Direction::send,
                                   .peer = peer}));
      works.push_back(comm.send_async(later.span(), peer));
      works.push_back(comm.send_async(host, peer));
      gate.open();
      for (float expected = 1; expected < 4; ++expected) {
        const Floats received(filled(-1));
        comm.recv(received.span(), peer);
        require(received.read() == filled(expected), "messages overtook each other");
      }
      wait_all(works);
      device::StreamGates::of_process().give_back(gate);
    }
  });
}

TEST_P(DeviceCalls, OperatorsOfOnesOwnRunOnTheHost) {
  struct Large {
    std::array<float, 20'000> values;
  };
  run(3, [](Communicator& comm) {
    const auto op = Op::of<float>([](float a, float b) { return a * 10 + b; }, false);
    const Floats buffer(filled(static_cast<float>(comm.rank() + 1)));
    comm.all_reduce(buffer.span(), op);
    require(buffer.read() == filled(123), "another order");
    const auto sum = Op::of<Large>([](const Large& a, const Large& b) {
      Large both = a;
      for (std::size_t i = 0; i < both.values.size(); ++i) both.values[i] += b.values[i];
      return both;
    });
    const Floats large(filled(static_cast<float>(comm.rank() + 1), 20'000));
    auto* const one = reinterpret_cast<Large*>(large.data());
    comm.all_reduce(std::span<Large>(one, 1), sum);
    require(large.read() == filled(6, 20'000), "another sum");
  });
}

TEST_P(DeviceCalls, TensorsAreCoalescedWhereverTheyLie) {
  run(2, [](Communicator& comm) {
    const Floats one(filled(1, 10)), two(filled(2, 1000));
    std::vector<float> three = filled(3, 33);
    void* const tensors[] = {one.data(), three.data(), two.data()};
    const std::size_t counts[] = {one.size(), three.size(), two.size()};
    all_reduce_coalesced(comm, tensors, counts, DType::float32, ReduceOp::sum);
    require(one.read() == filled(2, 10) && two.read() == filled(4, 1000) && three == filled(6, 33), "another sum");
  });
}

TEST_P(DeviceCalls, ABlockingCallThatFailsLeavesTheOutput) {
  run(2, [](Communicator& comm) {
    const std::size_t count = comm.rank() == 0 ? kCount : kCount - 1;
    const Floats input(filled(1, count)), output(filled(-1, count));
    const Error error = error_of([&] { comm.run(all_reduce_of(input, output)); });
    require(error.code() == ErrorCode::mismatch, error.what());
    require(output.read() == filled(-1, count), "the output was touched");
    require(std::string(error.what()).find("as it was") != std::string::npos, error.what());
  });
}

TEST_P(DeviceCalls, AnAsyncCallThatFailsLetsItsStreamGoOn) {
  run(2, [](Communicator& comm) {
    const TestStream stream;
    const std::size_t count = comm.rank() == 0 ? kCount : kCount - 1;
    const Floats input(filled(1, count)), output(filled(-1, count));
    Work work = comm.submit(all_reduce_of(input, output, stream.get()));
    const PinnedFloats seen(count);
    stream.read(seen.data(), input.bytes(), count * sizeof(float));
    const Error error = error_of([&] { work.wait(); });
    require(error.code() == ErrorCode::mismatch, error.what());
    require(std::string(error.what()).find("as it was") == std::string::npos, error.what());
    stream.synchronize();
    require(seen.values() == filled(1, count), "the stream did not go on");
  });
}

INSTANTIATE_TEST_SUITE_P(Forked, DeviceCalls, ::testing::Values(Ranks::processes, Ranks::tcp),
                         [](const auto& test) { return testing::name_of(test.param); });

// The default stream of another context is another one, and the call would not come after it.
TEST(BadCalls, MemoryOfAContextThatIsNotThePrimaryOneIsRefused) {
  auto* const other_context = fake<void*(int)>("fake_cuda_other_context");
  if (other_context == nullptr) GTEST_SKIP() << "only the fake driver has another context to lend";
  testing::expect_all_ok(run_processes(1, [&](Communicator& comm) {
    const Floats known(filled(1));
    const device::Driver& driver = testing::test_driver();
    device::CuAddress address = 0;
    {
      const device::Current current(driver, static_cast<device::CuContext>(other_context(0)));
      driver.check(driver.cuMemAlloc_v2(&address, kCount * sizeof(float)), "memory of another context");
    }
    auto* const foreign = reinterpret_cast<float*>(address);
    for (const bool is_input : {false, true}) {
      Request request = all_reduce_of(known, known);
      if (is_input) {
        request.input = foreign;
      } else {
        request.output = foreign;
      }
      for (const bool async : {false, true}) {
        const Error error = error_of([&] {
          if (async) {
            comm.submit(request).wait();
          } else {
            comm.run(request);
          }
        });
        require(error.code() == ErrorCode::invalid_argument, error.what());
        require(
            std::string(error.what()).find("a context of device 0 that is not its primary one") != std::string::npos,
            error.what());
      }
    }
    comm.run(all_reduce_of(known, known));
    require(known.read() == filled(1), "the next call is not served");
  }));
}

// What is broken in these stays so: each is a process of its own.
TEST(BrokenDevices, AreToldToAllRanks) {
  if (testing::on_real_device()) GTEST_SKIP() << "a real device is not broken on purpose";
  const auto ends = run_processes(2, [](Communicator& comm) {
    const TestStream stream;
    const Floats input(filled(1)), output(filled(-1));
    comm.barrier();
    if (comm.rank() == 1) {
      stream.hold();  // for ever
      Work work = comm.submit(all_reduce_of(input, output, stream.get()));
      fake<void(int)>("fake_cuda_break")(700);
      const Error error = error_of([&] { work.wait(); });
      require(error.code() == ErrorCode::system, error.what());
      require(std::string(error.what()).find("CUDA_ERROR_ILLEGAL_ADDRESS") != std::string::npos, error.what());
    } else {
      const Error error = error_of([&] { comm.run(all_reduce_of(input, output)); });
      require(error.code() == ErrorCode::peer_failed && error.peer() == 1, error.what());
    }
  });
  testing::expect_all_ok(ends);
}

TEST(BrokenDevices, AStreamThatNeverComesToItIsToldAfterTheTimeout) {
  const auto ends = testing::run_ranks(Ranks::processes, 2, [](Communicator& comm) {
    const TestStream stream;
    const Floats input(filled(1)), output(filled(-1));
    device::StreamGate gate = stream.hold();
    comm.set_timeout(std::chrono::milliseconds(300));
    const Error error = error_of([&] { comm.run(all_reduce_of(input, output, stream.get())); });
    require(error.code() == ErrorCode::timeout || error.code() == ErrorCode::peer_failed, error.what());
    if (error.code() == ErrorCode::timeout)
      require(std::string(error.what()).find("the work of the stream") != std::string::npos, error.what());
    gate.open();
    stream.synchronize();
  });
  testing::expect_all_ok(ends);
}

// The call is given one stream, and comes after the other, too; a default stream is that of the memory's device.
TEST(Streams, AreOrderedWithEachOther) {
  testing::expect_all_ok(run_processes(1, [](Communicator& comm) {
    const TestStream writing, given;
    const Floats buffer(filled(0));
    for (int round = 1; round < 5; ++round) {
      const bool by_default = round % 2 == 0;
      const auto values = filled(static_cast<float>(round));
      device::StreamGate gate = writing.hold();
      writing.write(buffer.bytes(), values.data(), kCount * sizeof(float));
      order_streams({given.get(), buffer.data()}, {writing.get(), buffer.data()});
      if (by_default) order_streams({nullptr, buffer.data()}, {given.get(), nullptr});
      const Floats output(filled(-1));
      Work work = comm.submit(all_reduce_of(buffer, output, by_default ? nullptr : given.get()));
      bool ended = false;
      for (int look = 0; look < 100; ++look) ended = ended || work.test();
      gate.open();
      work.wait();
      require(!ended, "the call ended before the other stream came to it");
      require(output.read() == values, "not the stream's values");
      device::StreamGates::of_process().give_back(gate);
    }
  }));
}

TEST(CallsInC, HaveStreamsAndMemoryOfADevice) {
  testing::expect_all_ok(run_processes(1, [](Communicator&) {
    const auto ok = [](tutti_code code) { require(code == TUTTI_OK, tutti_error_message()); };
    tutti_comm comm = nullptr;
    void *memory = nullptr, *stream = &comm;
    ok(tutti_init(nullptr, &comm));
    ok(tutti_get_stream(comm, &stream));
    require(stream == nullptr, "a stream from the beginning");
    ok(tutti_alloc_device(comm, kCount * sizeof(float), 0, &memory));
    const TestStream own;
    ok(tutti_set_stream(comm, own.get()));
    ok(tutti_get_stream(comm, &stream));
    require(stream == own.get(), "another stream");
    const auto values = filled(3);
    own.write(static_cast<std::byte*>(memory), values.data(), kCount * sizeof(float));
    ok(tutti_all_reduce(comm, memory, memory, kCount, TUTTI_FLOAT32, TUTTI_SUM, nullptr));
    std::vector<float> found(kCount);
    device::copy_anywhere(found.data(), memory, kCount * sizeof(float));
    require(found == values, "not the stream's values");
    require(tutti_alloc_device(comm, 4, 99, &stream) == TUTTI_INVALID_ARGUMENT, "a device that there is not");
    ok(tutti_free(comm, memory));
    require(tutti_free(comm, memory) == TUTTI_INVALID_ARGUMENT, "freed twice");
    ok(tutti_comm_free(&comm));
  }));
}

TEST(BadCalls, GetASentence) {
  const auto says = [](const Error& error, const char* words) {
    require(std::string(error.what()).find(words) != std::string::npos, error.what());
  };
  testing::expect_all_ok(run_processes(1, [&](Communicator& comm) {
    device::Driver old = testing::test_driver();
    old.missing = "cuStreamWaitValue32_v2";
    says(error_of([&] { old.require_complete(); }), "lacks cuStreamWaitValue32_v2");

    const Floats one(filled(1)), two(filled(2));
    says(error_of([&] { reduce_local(one.data(), two.data(), one.data(), kCount, DType::float32, ReduceOp::sum); }),
         "lies in device memory");

    auto freed = std::make_unique<Floats>(filled(1));
    const Request stale = all_reduce_of(*freed, two);
    comm.run(stale);
    freed.reset();
    says(error_of([&] { comm.run(stale); }), "all_reduce: input was in memory of device 0 in an earlier call");
    comm.run(all_reduce_of(one, two));

    auto* const capture = fake<void(void*, int)>("fake_cuda_capture");
    if (capture == nullptr) return;
    const TestStream stream;
    capture(stream.get(), 1);
    const Error error = error_of([&] { comm.run(all_reduce_of(one, two, stream.get())); });
    require(error.code() == ErrorCode::unsupported, error.what());
    says(error, "all_reduce: the stream is being captured");
    capture(stream.get(), 0);
    comm.run(all_reduce_of(one, two, stream.get()));
    require(two.read() == filled(1), "the next call is not served");
  }));
}

}  // namespace
}  // namespace tutti
