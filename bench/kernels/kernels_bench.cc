// How fast the kernels move bytes, next to memcpy.
//
// Every benchmark counts the bytes it reads and writes, so that the ratio of its bytes per second to those of memcpy
// at the same size of one operand is how near it comes to memory speed. Names read kernel/type/op/sources/destinations/
// bytes of one operand. TUTTI_KERNELS_TARGET=1 benches the second best instruction set instead of the best, and so on.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/targets.h"

namespace tutti {
namespace {

constexpr std::size_t kOperandBytes[] = {4 << 10, 32 << 10, 256 << 10, 16 << 20};

// Equal operands, each on its own pages, with starts that do not compete for the same cache sets.
class Operands {
 public:
  Operands(std::size_t count, std::size_t bytes) {
    for (std::size_t i = 0; i < count; ++i) {
      std::byte* const memory = static_cast<std::byte*>(std::aligned_alloc(4096, bytes + 8192));
      std::memset(memory, 0, bytes + 8192);
      owned_.emplace_back(memory);
      pointers_.push_back(memory + (i % 8) * 5 * 64);
    }
  }
  void** data() { return pointers_.data(); }
  const void* const* sources() const { return const_cast<const void* const*>(pointers_.data()); }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::vector<std::unique_ptr<std::byte, Free>> owned_;
  std::vector<void*> pointers_;
};

void count_bytes(benchmark::State& state, std::size_t moved) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * moved));
}

void bench_memcpy(benchmark::State& state, std::size_t bytes) {
  Operands operands(2, bytes);
  for (auto _ : state) {
    std::memcpy(operands.data()[0], operands.data()[1], bytes);
    benchmark::ClobberMemory();
  }
  count_bytes(state, 2 * bytes);
}

struct ReduceCase {
  DType type;
  ReduceOp op;
  std::size_t sources;
  std::size_t destinations;
  std::uint32_t divisor;
  std::size_t bytes;

  std::string name() const {
    std::string result = "reduce/";
    result.append(name_of(type)).append("/").append(name_of(op));
    if (divisor > 1) result.append("_by_").append(std::to_string(divisor));
    for (const std::size_t n : {sources, destinations, bytes}) result.append("/").append(std::to_string(n));
    return result;
  }
};

void bench_reduce(benchmark::State& state, const ReduceCase& c) {
  Operands sources(c.sources, c.bytes);
  Operands destinations(c.destinations, c.bytes);
  const kernels::ReduceFunction reduce = kernels::find_reduce(c.type, c.op);
  for (auto _ : state) {
    reduce(destinations.data(), c.destinations, sources.sources(), c.sources, c.bytes / size_of(c.type), c.divisor);
    benchmark::ClobberMemory();
  }
  count_bytes(state, (c.sources + c.destinations) * c.bytes);
}

void bench_copy(benchmark::State& state, std::size_t destination_count, std::size_t bytes) {
  Operands source(1, bytes);
  Operands destinations(destination_count, bytes);
  for (auto _ : state) {
    kernels::copy(destinations.data(), destination_count, source.data()[0], bytes);
    benchmark::ClobberMemory();
  }
  count_bytes(state, (1 + destination_count) * bytes);
}

void bench_scale(benchmark::State& state, DType type, std::size_t bytes) {
  Operands operands(2, bytes);
  const kernels::ScaleFunction scale = kernels::find_scale(type);
  for (auto _ : state) {
    scale(operands.data()[0], operands.data()[1], bytes / size_of(type), 0.3);
    benchmark::ClobberMemory();
  }
  count_bytes(state, 2 * bytes);
}

void bench_convert(benchmark::State& state, DType from, DType to, std::size_t bytes) {
  const std::size_t count = bytes / std::max(size_of(from), size_of(to));
  Operands operands(2, bytes);
  const kernels::ConvertFunction convert = kernels::find_convert(from, to);
  for (auto _ : state) {
    convert(operands.data()[0], operands.data()[1], count);
    benchmark::ClobberMemory();
  }
  count_bytes(state, count * (size_of(from) + size_of(to)));
}

void add_reductions(std::size_t bytes) {
  const auto add = [&](DType type, ReduceOp op, std::size_t sources, std::size_t destinations, std::uint32_t divisor) {
    const ReduceCase c{type, op, sources, destinations, divisor, bytes};
    benchmark::RegisterBenchmark(c.name().c_str(), bench_reduce, c);
  };
  constexpr DType kTypes[] = {
#define X(name, size) DType::name,
      TUTTI_DTYPES(X)
#undef X
  };
  for (const DType type : kTypes) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::maximum, ReduceOp::bxor}) {
      if (kernels::supports(type, op)) add(type, op, 2, 1, 1);
    }
    if (!kernels::supports(type, ReduceOp::average)) continue;
    add(type, ReduceOp::average, 2, 1, 2);
    add(type, ReduceOp::average, 2, 1, 3);
  }
  for (const DType type : {DType::float32, DType::bfloat16, DType::float16}) {
    add(type, ReduceOp::sum, 2, 2, 1);
    for (const std::size_t n : {3, 4, 8, 16}) {
      add(type, ReduceOp::sum, n, 1, 1);
      add(type, ReduceOp::sum, n, n, 1);
    }
  }
}

void add_all() {
  using benchmark::RegisterBenchmark;
  for (const std::size_t bytes : kOperandBytes) {
    const std::string size = std::to_string(bytes);
    RegisterBenchmark(("memcpy/" + size).c_str(), bench_memcpy, bytes);
    for (const std::size_t n : {1, 2, 4}) {
      RegisterBenchmark(("copy/" + std::to_string(n) + "/" + size).c_str(), bench_copy, n, bytes);
    }
    add_reductions(bytes);
    for (const DType type : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
      const std::string name(name_of(type));
      RegisterBenchmark(("scale/" + name + "/" + size).c_str(), bench_scale, type, bytes);
      for (const DType to : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
        if (type == to) continue;
        const std::string pair = name + "/" + std::string(name_of(to));
        RegisterBenchmark(("convert/" + pair + "/" + size).c_str(), bench_convert, type, to, bytes);
      }
    }
  }
  for (const std::size_t bytes : {8, 64, 256}) {
    RegisterBenchmark(("memcpy/" + std::to_string(bytes)).c_str(), bench_memcpy, bytes);
    RegisterBenchmark(("copy/1/" + std::to_string(bytes)).c_str(), bench_copy, 1, bytes);
    const ReduceCase c{DType::float32, ReduceOp::sum, 2, 1, 1, bytes};
    RegisterBenchmark(c.name().c_str(), bench_reduce, c);
  }
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  const char* const target = std::getenv("TUTTI_KERNELS_TARGET");
  if (target != nullptr) tutti::kernels::use_target(std::strtoul(target, nullptr, 10));
  benchmark::Initialize(&argc, argv);
  benchmark::AddCustomContext("target",
                              tutti::kernels::target_name(target != nullptr ? std::strtoul(target, nullptr, 10) : 0));
  tutti::add_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
