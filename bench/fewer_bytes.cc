// What sending fewer bytes gains: all_reduce of floats as they are and quantised, in turns, as a rank of any job.
//
//   tutti run -n 2 -- build/bin/fewer_bytes_bench            over shared memory
//   RATE=1gbit bench/fewer_bytes.sh 2                        between hosts made of network namespaces
//
// Times are medians over rounds of the slowest rank's; arguments are sizes in bytes.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tutti/train/quantised.h"
#include "tutti/tutti.hpp"

namespace {

using tutti::train::QuantisedReducer;
using tutti::train::QuantisedType;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 7;

struct Contender {
  std::string name;
  std::function<void()> call;
  std::vector<double> milliseconds = {};
};

double timed(tutti::Communicator& comm, const std::function<void()>& call) {
  comm.barrier();
  const Clock::time_point began = Clock::now();
  call();
  double took = std::chrono::duration<double, std::milli>(Clock::now() - began).count();
  comm.all_reduce(std::span(&took, 1), tutti::ReduceOp::maximum);
  return took;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void compare(tutti::Communicator& comm, std::size_t bytes) {
  std::vector<float> values(bytes / sizeof(float));
  const auto fill = [&] {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i * 7 + 3) % 1013) / 1013 - 0.5F;
  };
  std::vector<Contender> contenders;
  contenders.push_back({"float32", [&] { comm.all_reduce(values, tutti::ReduceOp::average); }});
  std::vector<QuantisedReducer> reducers;
  const std::pair<const char*, QuantisedType> types[] = {
      {"int8", QuantisedType::int8}, {"e4m3", QuantisedType::e4m3}, {"int4", QuantisedType::int4}};
  reducers.reserve(std::size(types));
  for (const auto& [name, type] : types) {
    QuantisedReducer& reducer = reducers.emplace_back(comm, tutti::train::Quantise{.type = type});
    contenders.push_back({name, [&] { reducer.all_reduce(values, tutti::ReduceOp::average); }});
  }
  for (int round = -1; round < kRounds; ++round) {  // the first warms up
    for (Contender& contender : contenders) {
      fill();
      const double took = timed(comm, contender.call);
      if (round >= 0) contender.milliseconds.push_back(took);
    }
  }
  if (comm.rank() != 0) return;
  const double plain = median(contenders.front().milliseconds);
  for (const Contender& contender : contenders) {
    const double took = median(contender.milliseconds);
    std::printf("%12zu  %-8s  %10.3f ms  %6.2f x\n", bytes, contender.name.c_str(), took, plain / took);
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    tutti::Communicator comm = tutti::init();
    std::vector<std::size_t> sizes;
    for (int i = 1; i < argc; ++i) sizes.push_back(std::strtoull(argv[i], nullptr, 10));
    if (sizes.empty()) sizes = {1 << 20, 64 << 20};
    if (comm.rank() == 0)
      std::printf("# all_reduce, %d ranks: bytes of float32, type, median, times as fast\n", comm.size());
    for (const std::size_t bytes : sizes) compare(comm, bytes);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
