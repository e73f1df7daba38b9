// How fast optimizers, sums of squares and codes of few bits go through memory, next to memcpy of as many bytes.
//
// Names read optimizer/rule/type of gradients/type of the rounded copy (float32: none)/elements. memcpy/rule/... reads
// and writes together as many bytes as the step of that rule does. 65536 elements of AdamW are 1 MB, which the second
// cache holds; 16 million are 256 MB. quantise/ and dequantise/ are of 16 million float32, 64 MB, and memcpy/codes/ of
// as many bytes as they read and write. TUTTI_KERNELS_TARGET is as in kernels_bench. torch_optimizer_bench.py is the
// same for torch.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "kernels/kernels.h"
#include "kernels/optimizers.h"
#include "kernels/quantise.h"
#include "kernels/targets.h"

namespace tutti {
namespace {

using kernels::OptimizerRule;

constexpr std::size_t kElements[] = {1 << 16, 1 << 24};

struct OptimizerCase {
  const char* name;
  OptimizerRule rule;
  std::size_t states;
  DType gradient, values;
  std::size_t count;

  // Master and states are read and written.
  std::size_t bytes() const {
    const std::size_t copy = values == DType::float32 ? 0 : size_of(values);
    return count * (2 * sizeof(float) * (1 + states) + size_of(gradient) + copy);
  }
  std::string title(const char* kind) const {
    std::string text = std::string(kind) + "/" + name + "/";
    return text.append(name_of(gradient)).append("/").append(name_of(values)).append("/").append(std::to_string(count));
  }
};

// On pages of its own, as large arrays of training are, but with starts that do not compete for the same cache sets.
class Array {
 public:
  Array(std::size_t bytes, std::size_t index)
      : memory_(static_cast<std::byte*>(std::aligned_alloc(kPage, (bytes / kPage + 2) * kPage))),
        begin_(memory_.get() + index % 8 * 5 * 64) {
    for (std::size_t i = 0; i < bytes / sizeof(float); ++i) floats()[i] = 0.01F;
  }
  float* floats() { return reinterpret_cast<float*>(begin_); }

 private:
  static constexpr std::size_t kPage = 4096;
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::byte* begin_;
};

void count_bytes(benchmark::State& state, std::size_t moved) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * moved));
}

void bench_optimizer(benchmark::State& state, const OptimizerCase& c) {
  const std::size_t bytes = c.count * sizeof(float);
  // Gradients as 16-bit floats are other numbers, but ordinary ones.
  Array master(bytes, 0), first(bytes, 1), second(bytes, 2), gradient(bytes, 3), values(bytes, 4);
  const kernels::OptimizerFunction run = kernels::find_optimizer(c.rule, c.gradient, c.values);
  const kernels::OptimizerArrays arrays{.master = master.floats(),
                                        .gradient = gradient.floats(),
                                        .states = {first.floats(), second.floats()},
                                        .values = values.floats()};
  kernels::OptimizerStep step{.learning_rate = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
  for (auto _ : state) {
    run(step, arrays, c.count);
    ++step.number;
    benchmark::ClobberMemory();
  }
  count_bytes(state, c.bytes());
}

void bench_memcpy(benchmark::State& state, std::size_t moved) {
  Array source(moved / 2, 0), destination(moved / 2, 1);
  for (auto _ : state) {
    std::memcpy(destination.floats(), source.floats(), moved / 2);
    benchmark::ClobberMemory();
  }
  count_bytes(state, moved);
}

void bench_squares(benchmark::State& state, DType type, std::size_t count) {
  Array values(count * sizeof(float), 0);
  for (auto _ : state) benchmark::DoNotOptimize(kernels::sum_of_squares(values.floats(), type, count));
  count_bytes(state, count * size_of(type));
}

struct CodeCase {
  const char* name;
  kernels::CodeFormat format;
  bool stochastic = false;

  std::size_t bytes() const { return kCount * sizeof(float) + kernels::code_bytes(format, kCount); }
  std::string title(const char* kind) const {
    return std::string(kind) + "/" + name + (stochastic ? "/stochastic" : "");
  }
  static constexpr std::size_t kCount = 1 << 24;
};

void bench_quantise(benchmark::State& state, const CodeCase& c) {
  Array values(c.kCount * sizeof(float), 0), codes(c.kCount * sizeof(float), 1);
  for (std::size_t i = 0; i < c.kCount; ++i) values.floats()[i] = static_cast<float>(i % 1021) - 510;
  auto* const to = reinterpret_cast<std::byte*>(codes.floats());
  for (auto _ : state) {
    benchmark::DoNotOptimize(kernels::quantise(c.format, values.floats(), c.kCount, to, {.stochastic = c.stochastic}));
    benchmark::ClobberMemory();
  }
  count_bytes(state, c.bytes());
}

void bench_dequantise(benchmark::State& state, const CodeCase& c) {
  Array values(c.kCount * sizeof(float), 0), codes(c.kCount * sizeof(float), 1);
  auto* const from = reinterpret_cast<std::byte*>(codes.floats());
  kernels::quantise(c.format, values.floats(), c.kCount, from);
  for (auto _ : state) {
    kernels::dequantise(c.format, from, c.kCount, values.floats(), true);
    benchmark::ClobberMemory();
  }
  count_bytes(state, c.bytes());
}

void add_codes() {
  using benchmark::RegisterBenchmark;
  using kernels::CodeType;
  for (const CodeCase& c : {CodeCase{"int8", {CodeType::int8, 128}}, CodeCase{"int8", {CodeType::int8, 128}, true},
                            CodeCase{"int4", {CodeType::int4, 128}}, CodeCase{"e4m3", {CodeType::e4m3, 128}},
                            CodeCase{"e5m2", {CodeType::e5m2, 128}}, CodeCase{"e3m0", {CodeType::e3m0, 128}}}) {
    if (!c.stochastic) RegisterBenchmark(c.title("memcpy/codes").c_str(), bench_memcpy, c.bytes());
    RegisterBenchmark(c.title("quantise").c_str(), bench_quantise, c);
    if (!c.stochastic) RegisterBenchmark(c.title("dequantise").c_str(), bench_dequantise, c);
  }
}

void add_all() {
  using benchmark::RegisterBenchmark;
  constexpr DType kPlain = DType::float32, kHalf = DType::bfloat16;
  for (const std::size_t count : kElements) {
    for (const OptimizerCase& c : {OptimizerCase{"adamw", OptimizerRule::adamw, 2, kPlain, kPlain, count},
                                   OptimizerCase{"adamw", OptimizerRule::adamw, 2, kHalf, kHalf, count},
                                   OptimizerCase{"adam", OptimizerRule::adam, 2, kPlain, kPlain, count},
                                   OptimizerCase{"sgd", OptimizerRule::sgd, 0, kPlain, kPlain, count},
                                   OptimizerCase{"momentum", OptimizerRule::momentum, 1, kPlain, kPlain, count},
                                   OptimizerCase{"lion", OptimizerRule::lion, 1, kPlain, kPlain, count}}) {
      RegisterBenchmark(c.title("memcpy").c_str(), bench_memcpy, c.bytes());
      RegisterBenchmark(c.title("optimizer").c_str(), bench_optimizer, c);
    }
    for (const DType type : {kPlain, kHalf}) {
      const std::string name = "squares/" + std::string(name_of(type)) + "/" + std::to_string(count);
      RegisterBenchmark(name.c_str(), bench_squares, type, count);
    }
  }
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  const char* const target = std::getenv("TUTTI_KERNELS_TARGET");
  const std::size_t index = target == nullptr ? 0 : std::strtoul(target, nullptr, 10);
  tutti::kernels::use_target(index);
  benchmark::Initialize(&argc, argv);
  benchmark::AddCustomContext("target", tutti::kernels::target_name(index));
  tutti::add_all();
  tutti::add_codes();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
