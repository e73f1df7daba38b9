// What ranks that are processes on one GPU get out of it: all_reduce of float32 by one kernel of one rank, which reads
// all inputs and writes all outputs through CUDA IPC while the others wait for a flag in shared memory.
//
//   nvcc -O3 -arch=sm_90 -o gpu_probe bench/gpu_probe.cu && ./gpu_probe
//
// Each line is one number of ranks, size and way: who launches (the last to arrive, or always rank 0), and whether the
// ranks keep the GPU busy with kernels of their own meanwhile. Needs a CUDA toolkit; nothing of the library.
#include <cuda_runtime.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr int kMostRanks = 8;
constexpr std::size_t kMostBytes = std::size_t{64} << 20;

#define CHECK(call)                                                       \
  do {                                                                    \
    const cudaError_t result_ = (call);                                   \
    if (result_ != cudaSuccess) {                                         \
      std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorName(result_)); \
      std::exit(1);                                                       \
    }                                                                     \
  } while (0)

struct Shared {
  std::atomic<std::uint64_t> arrived{0}, done{0}, meeting{0};
  cudaIpcMemHandle_t handles[kMostRanks][2];
};

struct Buffers {
  float4* inputs[kMostRanks];
  float4* outputs[kMostRanks];
};

template <int kRanks>
__global__ void all_reduce(Buffers buffers, std::size_t quads) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < quads; i += stride) {
    float4 part[kRanks];
#pragma unroll
    for (int rank = 0; rank < kRanks; ++rank) part[rank] = __ldcs(&buffers.inputs[rank][i]);
#pragma unroll
    for (int width = 1; width < kRanks; width *= 2) {
#pragma unroll
      for (int rank = 0; rank + width < kRanks; rank += 2 * width) {
        part[rank].x += part[rank + width].x;
        part[rank].y += part[rank + width].y;
        part[rank].z += part[rank + width].z;
        part[rank].w += part[rank + width].w;
      }
    }
#pragma unroll
    for (int rank = 0; rank < kRanks; ++rank) __stcs(&buffers.outputs[rank][i], part[0]);
  }
}

// A kernel of the program's own, some 100 us long.
__global__ void compute(float* value) {
  float x = *value;
  for (int i = 0; i < 60000; ++i) x = x * 0.999f + 0.5f;
  *value = x;
}

void launch(int ranks, const Buffers& buffers, std::size_t quads, cudaStream_t stream) {
  const int blocks = static_cast<int>(std::min<std::size_t>((quads + 511) / 512, 132 * 4));
  if (ranks == 2) all_reduce<2><<<blocks, 512, 0, stream>>>(buffers, quads);
  if (ranks == 4) all_reduce<4><<<blocks, 512, 0, stream>>>(buffers, quads);
  if (ranks == 8) all_reduce<8><<<blocks, 512, 0, stream>>>(buffers, quads);
}

double now_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void wait_for(const std::atomic<std::uint64_t>& word, std::uint64_t value) {
  for (int spins = 0; word.load(std::memory_order_acquire) < value; ++spins) {
    if (spins % 1000 == 999) sched_yield();
  }
}

void run_rank(Shared& shared, int ranks, int rank) {
  Buffers buffers{};
  void* own[2];
  for (int side = 0; side < 2; ++side) {
    CHECK(cudaMalloc(&own[side], kMostBytes));
    CHECK(cudaMemset(own[side], 0, kMostBytes));
    CHECK(cudaIpcGetMemHandle(&shared.handles[rank][side], own[side]));
  }
  std::uint64_t meetings = 0;
  const auto meet = [&] {
    shared.meeting.fetch_add(1, std::memory_order_acq_rel);
    wait_for(shared.meeting, static_cast<std::uint64_t>(ranks) * ++meetings);
  };
  meet();
  for (int peer = 0; peer < ranks; ++peer) {
    for (int side = 0; side < 2; ++side) {
      void* mapped = own[side];
      if (peer != rank)
        CHECK(cudaIpcOpenMemHandle(&mapped, shared.handles[peer][side], cudaIpcMemLazyEnablePeerAccess));
      (side == 0 ? buffers.inputs : buffers.outputs)[peer] = static_cast<float4*>(mapped);
    }
  }
  cudaStream_t stream, own_work;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&own_work, cudaStreamNonBlocking));
  float* value = nullptr;
  CHECK(cudaMalloc(&value, sizeof *value));
  std::uint64_t calls = 0;
  for (const bool busy : {false, true}) {
    for (const bool fixed : {false, true}) {
      std::atomic<bool> stop{false};
      std::thread load;
      meet();
      if (busy) {
        load = std::thread([&] {
          cudaEvent_t behind;
          CHECK(cudaEventCreateWithFlags(&behind, cudaEventDisableTiming | cudaEventBlockingSync));
          while (!stop) {
            for (int i = 0; i < 4; ++i) compute<<<1, 1, 0, own_work>>>(value);
            CHECK(cudaEventRecord(behind, own_work));
            CHECK(cudaEventSynchronize(behind));
          }
        });
      }
      for (const std::size_t bytes :
           {std::size_t{64}, std::size_t{1} << 20, std::size_t{16} << 20, std::size_t{64} << 20}) {
        std::vector<double> times;
        const int rounds = bytes > (1 << 20) ? 60 : 200;
        meet();
        for (int round = 0; round < rounds; ++round) {
          const double begin = now_us();
          ++calls;
          const std::uint64_t place = shared.arrived.fetch_add(1, std::memory_order_acq_rel);
          const bool launches =
              fixed ? rank == 0 : place % static_cast<std::uint64_t>(ranks) == static_cast<std::uint64_t>(ranks) - 1;
          if (launches) {
            wait_for(shared.arrived, calls * static_cast<std::uint64_t>(ranks));
            launch(ranks, buffers, bytes / sizeof(float4), stream);
            CHECK(cudaGetLastError());
            CHECK(cudaStreamSynchronize(stream));
            shared.done.store(calls, std::memory_order_release);
          } else {
            wait_for(shared.done, calls);
          }
          if (round >= 10) times.push_back(now_us() - begin);
        }
        std::sort(times.begin(), times.end());
        if (rank == 0) {
          std::printf("%d ranks  %9zu B  %-6s  %-4s launches  median %8.1f us  p90 %8.1f  max %8.1f\n", ranks, bytes,
                      busy ? "busy" : "idle", fixed ? "rank 0" : "last", times[times.size() / 2],
                      times[times.size() * 9 / 10], times.back());
          std::fflush(stdout);
        }
      }
      meet();
      stop = true;
      if (load.joinable()) load.join();
    }
  }
  meet();
}

}  // namespace

int main() {
  for (const int ranks : {2, 4, 8}) {
    auto* const shared =
        new (mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Shared;
    std::vector<pid_t> children;
    for (int rank = 0; rank < ranks; ++rank) {
      const pid_t child = fork();
      if (child == 0) {
        run_rank(*shared, ranks, rank);
        _exit(0);
      }
      children.push_back(child);
    }
    for (const pid_t child : children) waitpid(child, nullptr, 0);
  }
  return 0;
}
