// Async calls that hold streams, and others that hold none, under way in one process: neither keeps the other waiting.
#include "device/held_streams.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "check.h"
#include "device/device_memory.h"
#include "device/fake_cuda.h"
#include "tutti/coalesced.h"
#include "tutti/tutti.h"

namespace tutti {
namespace {

using testing::all_reduce_of;
using testing::DeviceBytes;
using testing::require;
using testing::TestStream;

constexpr std::size_t kCount = 1000, kBytes = kCount * sizeof(int);

void fill(const DeviceBytes& buffer, int value) {
  const std::vector<int> values(kCount, value);
  buffer.write(values.data(), kBytes);
}

void require_filled(const DeviceBytes& buffer, int value) {
  std::vector<int> found(kCount);
  buffer.read(found.data(), kBytes);
  require(found == std::vector<int>(kCount, value), "another sum");
}

Request sum_of(const DeviceBytes& buffer, void* stream = nullptr) {
  Request request = all_reduce_of(buffer.data(), buffer.data(), kCount, DType::int32);
  request.stream = stream;
  return request;
}

// The stream that is held when the first of them is made is let go before the second is: a call that holds one would
// wait for one that counts on none, and both come from here.
TEST(CallsMadeTogether, AreOfOneKind) {
  auto* const before = reinterpret_cast<void (*)(const char*, void (*)(void*), void*)>(  //
      testing::fake_function("fake_cuda_before"));
  if (before == nullptr) GTEST_SKIP() << "only the fake driver calls back";
  testing::expect_all_ok(run_processes(2, [&](Communicator& comm) {
    const TestStream stream;
    const DeviceBytes held(kBytes), one(kBytes), two(kBytes);
    for (const DeviceBytes* buffer : {&held, &one, &two}) fill(*buffer, 1);
    comm.set_timeout(std::chrono::seconds(5));
    device::StreamGate gate = stream.hold();
    Work work = comm.submit(sum_of(held, stream.get()));
    before(
        "cuEventRecord",
        [](void* opened) {
          static_cast<device::StreamGate*>(opened)->open();
          auto& streams = device::HeldStreams::of_process();
          while (!streams.begin_loose()) std::this_thread::yield();
          streams.end_loose();
        },
        &gate);
    const Request together[] = {sum_of(one), sum_of(two)};
    std::vector<Work> works = comm.submit_all(together);
    work.wait();
    wait_all(works);
    for (const DeviceBytes* buffer : {&held, &one, &two}) require_filled(*buffer, 2);
    device::StreamGates::of_process().give_back(gate);
  }));
}

// A blocking call while rank 0 holds a stream by a receive, of what rank 1 sends afterwards: had the call the driver
// wait for all streams, none of them would end.
void call_beside_a_held_stream(Communicator& comm, const std::function<void()>& call) {
  const TestStream stream;
  const DeviceBytes received(kBytes);
  fill(received, 1);
  comm.set_timeout(std::chrono::seconds(5));
  Work work;
  if (comm.rank() == 0) {
    work = comm.submit({.verb = Verb::send_recv,
                        .output = received.data(),
                        .output_count = kCount,
                        .element = DType::int32,
                        .stream = stream.get(),
                        .direction = Direction::receive,
                        .peer = 1});
  }
  call();
  if (comm.rank() == 1) {
    const std::vector<int> sent(kCount, 7);
    comm.send(std::span(sent), 0);
    return;
  }
  work.wait();
  require_filled(received, 7);
}

// Whose launcher may load a kernel, for which the driver waits so.
TEST(BlockingCalls, AreNotLaunchedWhileAStreamIsHeld) {
  testing::expect_all_ok(run_processes(2, [](Communicator& comm) {
    const DeviceBytes buffer(kBytes);
    fill(buffer, 1);
    call_beside_a_held_stream(comm, [&] {
      comm.run(sum_of(buffer));
      require(comm.last_algorithm() != "one_launch", "launched beside a held stream");
      require_filled(buffer, 2);
    });
    comm.run(sum_of(buffer));
    require(comm.last_algorithm() == "one_launch", "not launched afterwards");
    require_filled(buffer, 4);
  }));
}

// Copies between a device and ordinary memory are such that the driver waits so.
TEST(BlockingCalls, CoalesceTensorsWhileAStreamIsHeld) {
  testing::expect_all_ok(run_processes(2, [](Communicator& comm) {
    const DeviceBytes one(kBytes), two(kBytes);
    std::vector<int> on_host(10, comm.rank());
    for (const DeviceBytes* buffer : {&one, &two}) fill(*buffer, comm.rank() + 1);
    void* const tensors[] = {one.data(), on_host.data(), two.data()};
    const std::size_t counts[] = {kCount, 10, kCount / 2};
    call_beside_a_held_stream(comm, [&] { all_reduce_coalesced(comm, tensors, counts, DType::int32, ReduceOp::sum); });
    require_filled(one, 3);
    require(on_host == std::vector<int>(10, 1), "another sum in host memory");
    std::vector<int> found(kCount), expected(kCount, comm.rank() + 1);
    std::fill_n(expected.begin(), kCount / 2, 3);
    two.read(found.data(), kBytes);
    require(found == expected, "another sum, or more than the tensor");
  }));
}

// Rank 1 waits inside the driver for the stream that rank 0's call holds, and a call without a stream has its turn
// meanwhile: whoever launched it, or started its way back, would wait for rank 1 and bring no other call forward. In a
// process of their own, as none can be forked from one that has used a device.
TEST(CallsOfThreads, PutNothingIntoStreamsWhileOneIsHeld) {
  const auto body = [](Communicator& comm) {
    const auto a_while = [] { std::this_thread::sleep_for(std::chrono::milliseconds(100)); };
    const TestStream stream, followed;
    const DeviceBytes held(kBytes), free(kBytes);
    auto unwanted = std::make_unique<DeviceBytes>(kBytes);
    comm.run(sum_of(free));  // loads the kernel
    for (const DeviceBytes* buffer : {&held, &free}) fill(*buffer, 1);
    Communicator beside = comm.duplicate();
    comm.follow_stream(followed.get());
    device::StreamGate last, first;
    if (comm.rank() == 0) {
      last = stream.hold();
      first = followed.hold();
    }
    std::vector<Work> works;
    works.push_back(comm.submit(sum_of(held, stream.get())));
    works.push_back(comm.submit(sum_of(free)));
    beside.barrier();
    if (comm.rank() == 1) {
      unwanted.reset();
    } else {
      a_while();  // until rank 1 is inside the driver
      first.open();
      a_while();  // until the call without a stream has had its turn
      last.open();
    }
    wait_all(works);
    for (const DeviceBytes* buffer : {&held, &free}) require_filled(*buffer, 2);
    beside.barrier();
    if (comm.rank() != 0) return;
    for (device::StreamGate* gate : {&first, &last}) device::StreamGates::of_process().give_back(*gate);
  };
  testing::expect_all_ok(run_processes(1, [&](Communicator&) {
    for (const RankEnd& end : run_threads(2, body)) require(end.ok(), end.message);
  }));
}

}  // namespace
}  // namespace tutti
