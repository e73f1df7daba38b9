#include "tools/demo_timing.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <span>

#include "tutti/local.h"

namespace tutti::tools {
namespace {

constexpr std::size_t kNameBytes = 32;

// What one rank measured; lies in memory that the forked ranks share with the demo.
struct Measured {
  double median_us;
  char algorithm[kNameBytes];
};

// Memory for the results of all ranks.
class Board {
 public:
  explicit Board(int ranks) : bytes_(static_cast<std::size_t>(ranks) * sizeof(Measured)) {
    memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
  }
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;
  ~Board() { ::munmap(memory_, bytes_); }

  Measured& at(int rank) { return static_cast<Measured*>(memory_)[rank]; }

 private:
  std::size_t bytes_;
  void* memory_;
};

// Whole numbers, so that the sum is exact in any order and can be compared for equality.
float element(int rank, std::size_t index) {
  return static_cast<float>((index * 7 + static_cast<std::size_t>(rank) * 13) % 101);
}

float plain_sum(int ranks, std::size_t index) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += element(rank, index);
  return sum;
}

void require_all_ok(const std::vector<RankEnd>& ends) {
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    if (ends[rank].ok()) continue;
    const std::string what =
        ends[rank].signal != 0 ? fmt::format("ended by signal {}", ends[rank].signal) : ends[rank].message;
    throw Error(ErrorCode::system, fmt::format("rank {} failed: {}", rank, what), static_cast<int>(rank));
  }
}

double median_us_of(Communicator& communicator, std::span<float> input, std::span<float> output) {
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t kBytesInAll = 256 << 20;
  const std::size_t calls = std::clamp<std::size_t>(kBytesInAll / input.size_bytes(), 21, 2000);  // equal on all ranks
  std::vector<double> times_us;
  for (std::size_t call = 0; call < calls + calls / 4; ++call) {
    const Clock::time_point start = Clock::now();
    communicator.all_reduce(std::span<const float>(input), output);
    const std::chrono::duration<double, std::micro> took = Clock::now() - start;
    if (call >= calls / 4) times_us.push_back(took.count());  // the first calls warm up
  }
  const auto middle = times_us.begin() + static_cast<std::ptrdiff_t>(times_us.size() / 2);
  std::nth_element(times_us.begin(), middle, times_us.end());
  return *middle;
}

void measure(Communicator& communicator, Memory memory, std::size_t bytes, Measured& measured) {
  const std::size_t count = bytes / sizeof(float);
  if (memory == Memory::symmetric) {
    const auto input = communicator.allocate<float>(count), output = communicator.allocate<float>(count);
    measured.median_us = median_us_of(communicator, input.span(), output.span());
  } else {
    std::vector<float> input(count), output(count);
    measured.median_us = median_us_of(communicator, input, output);
  }
  const std::string_view name = communicator.last_algorithm();
  std::memcpy(measured.algorithm, name.data(), std::min(name.size(), kNameBytes - 1));
}

}  // namespace

std::string check_sum(int ranks, const std::string& algorithm, std::size_t count) {
  Options options;
  options.algorithm = algorithm;
  options.deterministic = algorithm.empty();  // a named algorithm may reduce in an order of its own
  const auto ends = run_processes(
      ranks,
      [&](Communicator& communicator) {
        std::vector<float> values(count);
        for (std::size_t i = 0; i < count; ++i) values[i] = element(communicator.rank(), i);
        communicator.all_reduce(std::span(values));
        for (std::size_t i = 0; i < count; ++i) {
          if (values[i] == plain_sum(communicator.size(), i)) continue;
          throw std::runtime_error(
              fmt::format("element {} is {}, not {}", i, values[i], plain_sum(communicator.size(), i)));
        }
      },
      options);
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    if (!ends[rank].ok()) return fmt::format("rank {}: {} (signal {})", rank, ends[rank].message, ends[rank].signal);
  }
  return {};
}

Timing time_sum(int ranks, TransportKind transport, Memory memory, std::size_t bytes) {
  Options options;
  options.transport = transport;
  Board board(ranks);
  require_all_ok(run_processes(
      ranks, [&](Communicator& communicator) { measure(communicator, memory, bytes, board.at(communicator.rank())); },
      options, true));
  Timing timing{bytes, 0, board.at(0).algorithm};
  for (int rank = 0; rank < ranks; ++rank) timing.median_us = std::max(timing.median_us, board.at(rank).median_us);
  return timing;
}

}  // namespace tutti::tools
