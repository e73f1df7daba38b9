// Training without a framework: a network of three layers, with gradients written out by hand, learns to read digits
// that this program draws itself. Every rank computes the gradients of its own examples; a strategy does the rest.
//
//   tutti run -n 4 -- build/bin/digits --strategy zero1 --report
//   tutti run -n 4 -- build/bin/digits --save runs/digits            # stopped at any time, it goes on, on any ranks:
//   tutti run -n 3 -- build/bin/digits --save runs/digits --resume runs/digits --steps 400
//   tutti run -n 4 -- build/bin/digits --local-updates 20 --report   # ranks by themselves, which meet every 20 steps
//
// The same seed draws the same digits whatever the number of ranks. It ends with the share of new digits that are read
// right, and with exit code 1 where that is below 90 % or ranks came to different values.
#include <tutti/train/advise.h>
#include <tutti/train/checkpoint.h>
#include <tutti/train/local_updates.h>
#include <tutti/train/metrics.h>
#include <tutti/train/noise_scale.h>
#include <tutti/train/progress.h>
#include <tutti/train/sampler.h>
#include <tutti/train/strategy.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tutti/tutti.hpp>
#include <vector>

#include "fewer_bytes.h"

namespace {

namespace train = tutti::train;

constexpr const char* kHelp = R"(usage: digits [--strategy S] [--compress C] [--local-updates H] [--steps N] [--batch N]
              [--save DIR] [--save-every N] [--resume DIR] [--report] [--noise] [--advise] [--json] [--svg FILE]

  --strategy S  dp (data parallel; the default), zero1 (optimizer states cut over ranks), zero2 (gradients, too),
                zero3 (values, too: a layer is gathered when it is used)
  --steps N     updates (200), those before --resume among them
  --batch N     examples of all ranks in one step (128)
  --save DIR    checkpoints go there, in the background, the last two are kept
  --save-every N  steps from one to the next (50); the last step always has one
  --resume DIR  go on from the last checkpoint there, with any --strategy, on any number of ranks
  --report      what a step says to other ranks, what a rank holds, and where the time went
  --noise       whether a larger batch would be worth it, by how much the ranks' gradients differ
  --advise      which of the options below would be worth it here, by what a step computes and what calls take
  --json        the report for scripts, instead of all other output
  --svg FILE    the buckets of the last step, drawn
)";
constexpr const char* kHelpEnd = R"(
Run it on several ranks: tutti run -n 4 -- digits --strategy zero1 --report
)";

struct Arguments {
  std::string strategy = "dp", svg, save, resume;
  std::int64_t steps = 200, batch = 128, save_every = 50;
  examples::FewerBytes fewer;
  bool report = false, noise = false, advise = false, json = false, help = false;
};

Arguments parse(std::span<char*> words) {
  Arguments arguments;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string_view word = words[i];
    const auto value = [&]() -> std::string_view {
      if (i + 1 == words.size()) throw std::runtime_error(std::string(word) + " needs a value; --help tells more");
      return words[++i];
    };
    if (arguments.fewer.take(word, value)) continue;
    if (word == "--strategy") {
      arguments.strategy = value();
    } else if (word == "--steps") {
      arguments.steps = examples::number_of(word, value());
    } else if (word == "--batch") {
      arguments.batch = examples::number_of(word, value());
    } else if (word == "--save") {
      arguments.save = value();
    } else if (word == "--save-every") {
      arguments.save_every = examples::number_of(word, value());
    } else if (word == "--resume") {
      arguments.resume = value();
    } else if (word == "--svg") {
      arguments.svg = value();
    } else if (word == "--report") {
      arguments.report = true;
    } else if (word == "--noise") {
      arguments.noise = true;
    } else if (word == "--advise") {
      arguments.advise = true;
    } else if (word == "--json") {
      arguments.json = true;
    } else if (word == "--help" || word == "-h") {
      arguments.help = true;
    } else {
      throw std::runtime_error("there is no option '" + std::string(word) + "'; --help lists them");
    }
  }
  return arguments;
}

// ---- Digits of 8 x 8 pixels: a font of 5 x 7, moved about, of uneven ink, with noise.

constexpr std::size_t kSide = 8, kPixels = kSide * kSide, kDigits = 10;
constexpr std::array<const char*, kDigits> kFont = {
    "01110100011000110001100011000101110", "00100011000010000100001000010001110", "01110100010000100010001000100011111",
    "11111000100010000010000011000101110", "00010001100101010010111110001000010", "11111100001111000001000011000101110",
    "00110010001000011110100011000101110", "11111000010001000100010000100001000", "01110100011000101110100011000101110",
    "01110100011000101111000010001001100"};

struct Example {
  std::array<float, kPixels> pixels{};
  std::size_t digit = 0;
};

Example draw(std::uint64_t number) {
  std::mt19937_64 random(number);
  std::uniform_real_distribution<float> uniform(0, 1);
  Example example;
  example.digit = random() % kDigits;
  const std::size_t right = random() % 3, down = random() % 2;
  const float ink = 0.6F + 0.4F * uniform(random);
  for (float& pixel : example.pixels) pixel = 0.35F * uniform(random);
  for (std::size_t y = 0; y < 7; ++y)
    for (std::size_t x = 0; x < 5; ++x)
      if (kFont[example.digit][5 * y + x] == '1') example.pixels[kSide * (y + down) + x + right] += ink;
  return example;
}

// ---- The network: h1 = relu(W1 x + b1), h2 = relu(W2 h1 + b2), scores = W3 h2 + b3.

constexpr std::array<std::size_t, 4> kWidths = {kPixels, 96, 48, kDigits};
constexpr std::size_t kLayers = kWidths.size() - 1;

// The values that training begins with: parameter 2l is the weights of layer l, 2l + 1 its offsets.
struct FirstValues {
  FirstValues() {
    std::mt19937 random(1);
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
      const std::size_t in = kWidths[layer], out = kWidths[layer + 1];
      std::normal_distribution<float> normal(0, std::sqrt(2.0F / static_cast<float>(in)));
      std::vector<float>& weights = values.emplace_back(in * out);
      for (float& weight : weights) weight = normal(random);
      values.emplace_back(out);
      const std::string name = "layer" + std::to_string(layer);
      const auto rows = static_cast<std::int64_t>(out), columns = static_cast<std::int64_t>(in);
      parameters.push_back({.name = name + ".weight", .shape = {rows, columns}, .unit = layer});
      parameters.push_back({.name = name + ".bias", .shape = {rows}, .unit = layer});
    }
    for (std::size_t i = 0; i < values.size(); ++i) parameters[i].values = values[i].data();
  }

  std::vector<std::vector<float>> values;
  train::Parameters parameters;
};

using Rows = std::vector<std::vector<float>>;  // one row per example

// outputs[l] is what layer l makes; the last one's are scores. gather() and release() matter to zero3 only, and there
// to all ranks alike, be the batch empty or not.
void forward(train::Strategy& strategy, const std::vector<Example>& batch, std::array<Rows, kLayers>& outputs) {
  for (std::size_t layer = 0; layer < kLayers; ++layer) {
    const std::size_t in = kWidths[layer], out = kWidths[layer + 1];
    strategy.gather(layer);
    const auto weights = strategy.values_as<const float>(2 * layer),
               offsets = strategy.values_as<const float>(2 * layer + 1);
    outputs[layer].assign(batch.size(), std::vector<float>(out));
    for (std::size_t e = 0; e < batch.size(); ++e) {
      const float* x = layer == 0 ? batch[e].pixels.data() : outputs[layer - 1][e].data();
      for (std::size_t o = 0; o < out; ++o) {
        float sum = offsets[o];
        for (std::size_t i = 0; i < in; ++i) sum += weights[o * in + i] * x[i];
        outputs[layer][e][o] = layer + 1 < kLayers ? std::max(0.0F, sum) : sum;
      }
    }
    strategy.release(layer);
  }
}

// Turns scores into the gradient of the mean loss; returns the loss.
double loss_and_gradient(const std::vector<Example>& batch, Rows& scores) {
  double loss = 0;
  for (std::size_t e = 0; e < batch.size(); ++e) {
    std::vector<float>& row = scores[e];
    const float largest = *std::max_element(row.begin(), row.end());
    float sum = 0;
    for (float& score : row) sum += score = std::exp(score - largest);
    for (float& score : row) score /= sum;
    loss -= std::log(std::max(row[batch[e].digit], 1e-12F));
    row[batch[e].digit] -= 1;
    for (float& score : row) score /= static_cast<float>(batch.size());
  }
  return batch.empty() ? 0 : loss / static_cast<double>(batch.size());
}

// From the last layer to the first; each gradient travels while those before it are computed.
void backward(train::Strategy& strategy, const std::vector<Example>& batch, const std::array<Rows, kLayers>& outputs,
              Rows errors) {
  for (std::size_t layer = kLayers; layer-- > 0;) {
    const std::size_t in = kWidths[layer], out = kWidths[layer + 1];
    strategy.gather(layer);
    const auto weights = strategy.values_as<const float>(2 * layer);
    const auto of_weights = strategy.gradient_as<float>(2 * layer),
               of_offsets = strategy.gradient_as<float>(2 * layer + 1);
    Rows before(batch.size(), std::vector<float>(in));
    for (std::size_t e = 0; e < batch.size(); ++e) {
      const float* x = layer == 0 ? batch[e].pixels.data() : outputs[layer - 1][e].data();
      for (std::size_t o = 0; o < out; ++o) {
        const float error = errors[e][o];
        of_offsets[o] += error;
        for (std::size_t i = 0; i < in; ++i) {
          of_weights[o * in + i] += error * x[i];
          before[e][i] += error * weights[o * in + i];
        }
      }
      for (std::size_t i = 0; layer > 0 && i < in; ++i)
        if (x[i] <= 0) before[e][i] = 0;  // of relu
    }
    strategy.release(layer);
    if (batch.empty()) continue;
    strategy.ready(2 * layer + 1);
    strategy.ready(2 * layer);
    errors = std::move(before);
  }
}

train::Strategy make(const Arguments& arguments, tutti::Communicator& comm, const train::Parameters& parameters) {
  const std::string& name = arguments.strategy;
  const train::Optimizer optimizer = train::AdamW{.learning_rate = 3e-3};
  train::StrategyOptions options;
  options.clip_norm = 5;
  options.measure_noise = arguments.noise;
  arguments.fewer.apply_to(options, arguments.steps);
  options.bucket_bytes = 16 << 10;  // small, so that this small network has several
  if (name == "dp") return train::data_parallel(comm, parameters, optimizer, options);
  if (name == "zero1") return train::zero(1, comm, parameters, optimizer, options);
  if (name == "zero2") return train::zero(2, comm, parameters, optimizer, options);
  if (name == "zero3") return train::zero(3, comm, parameters, optimizer, options);
  throw std::runtime_error("there is no strategy '" + name + "'; it is one of dp, zero1, zero2 and zero3");
}

// This rank's part of the examples with these numbers, dealt out one by one.
std::vector<Example> part_of(const tutti::Communicator& comm, const std::vector<std::int64_t>& numbers) {
  std::vector<Example> part;
  for (auto i = static_cast<std::size_t>(comm.rank()); i < numbers.size(); i += static_cast<std::size_t>(comm.size()))
    part.push_back(draw(static_cast<std::uint64_t>(numbers[i])));
  return part;
}

double share_read_right(tutti::Communicator& comm, train::Strategy& strategy) {
  constexpr int kNew = 1000;
  std::vector<std::int64_t> numbers(kNew);
  std::iota(numbers.begin(), numbers.end(), 1'000'000'000);
  const std::vector<Example> part = part_of(comm, numbers);
  std::array<Rows, kLayers> outputs;
  forward(strategy, part, outputs);
  double right = 0;
  for (std::size_t e = 0; e < part.size(); ++e) {
    const std::vector<float>& scores = outputs.back()[e];
    const auto best = std::max_element(scores.begin(), scores.end()) - scores.begin();
    right += static_cast<std::size_t>(best) == part[e].digit ? 1 : 0;
  }
  comm.all_reduce(tutti::one(right));
  return right / kNew;
}

train::TrainingPosition resumed_from(const std::string& folder, tutti::Communicator& comm, train::Strategy& strategy,
                                     train::LocalUpdates* local) {
  train::Checkpoints checkpoints(comm, folder);
  const auto position = local != nullptr ? checkpoints.load(*local) : checkpoints.load(strategy);
  if (!position) throw std::runtime_error("there is no checkpoint in " + folder + "; run with --save first");
  return *position;
}

// Saves in the background, and tells when a checkpoint has its name.
class Saving {
 public:
  Saving(const Arguments& arguments, tutti::Communicator& comm, train::LocalUpdates* local, bool tells)
      : arguments_(arguments), local_(local), tells_(tells) {
    if (!arguments.save.empty()) checkpoints_.emplace(comm, arguments.save, train::CheckpointOptions{.keep = 2});
  }

  // After every step.
  void step(train::Strategy& strategy, const train::TrainingPosition& position) {
    if (!checkpoints_) return;
    if (under_way_ && checkpoints_->test()) tell();
    if (position.step % arguments_.save_every != 0 && position.step != arguments_.steps) return;
    finish();
    if (local_ != nullptr) {
      checkpoints_->save_async(*local_, position);
    } else {
      checkpoints_->save_async(strategy, position);
    }
    under_way_ = position.step;
  }
  void finish() {
    if (!under_way_) return;
    checkpoints_->wait();
    tell();
  }

 private:
  void tell() {
    if (tells_) std::printf("saved step %lld\n", static_cast<long long>(*under_way_));
    std::fflush(stdout);
    under_way_.reset();
  }

  const Arguments& arguments_;
  train::LocalUpdates* local_;
  bool tells_;
  std::optional<train::Checkpoints> checkpoints_;
  std::optional<std::int64_t> under_way_;
};

// What all ranks have seen, in a line every so many steps; how fast it went is in the report's.
class Telling {
 public:
  Telling(const Arguments& arguments, tutti::Communicator& comm, std::int64_t first_step)
      : arguments_(arguments), comm_(comm), progress_{.total_steps = arguments.steps, .first_step = first_step} {}

  // After every step, on all ranks: the mean loss of this rank's examples.
  void step(std::int64_t step, double loss, std::size_t examples, double norm) {
    constexpr std::int64_t kSteps = 50;  // from line to line
    if (examples > 0) metrics_.add("loss", loss, examples);
    if (comm_.rank() == 0) metrics_.add("norm", norm);
    progress_.examples += static_cast<double>(arguments_.batch);
    progress_.step = step;
    if (arguments_.json || (step % kSteps != 0 && step != arguments_.steps)) return;
    const std::vector<train::Metric> seen = metrics_.reduce(comm_);
    metrics_.clear();
    if (arguments_.report)
      progress_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
    if (comm_.rank() == 0) std::printf("%s\n", train::to_text(progress_, seen).c_str());
  }

 private:
  const Arguments& arguments_;
  tutti::Communicator& comm_;
  train::Progress progress_;
  train::Metrics metrics_{{{.name = "loss"}, {.name = "norm"}}};
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

// Up to `steps` steps, from the position on. `own` are the ranks of this replica.
void learn(const Arguments& arguments, tutti::Communicator& comm, tutti::Communicator& own, train::Strategy& strategy,
           train::LocalUpdates* local, train::TrainingPosition position, bool tells) {
  constexpr std::int64_t kExamples = 6000;
  // Numbers of whole batches: with a few examples only, some ranks may have none.
  train::Sampler sampler({.examples = kExamples, .batch = arguments.batch, .seed = 1}, 0, 1);
  sampler.set_position(position.sampler);
  Saving saving(arguments, own, local, tells);
  Telling telling(arguments, comm, position.step);
  train::NoiseScale noise;
  // A replica's own ranks are compared, each of which has its share of the replica's.
  const double share = static_cast<double>(arguments.batch) / comm.size();
  while (position.step < arguments.steps) {
    const std::vector<Example> batch = part_of(comm, sampler.next());
    // Ranks may have one example more than others, or none: the mean is over examples.
    strategy.weight(static_cast<double>(batch.size()));
    strategy.zero_gradients();
    std::array<Rows, kLayers> outputs;
    forward(strategy, batch, outputs);
    const double loss = loss_and_gradient(batch, outputs.back());
    backward(strategy, batch, outputs, outputs.back());
    const train::StepResult result = local != nullptr ? local->step().inner : strategy.step();
    ++position.step;
    telling.step(position.step, loss, batch.size(), result.gradient_norm);
    if (arguments.noise)
      noise.add({.small_batch = share,
                 .small_squares = result.rank_squares,
                 .large_batch = share * own.size(),
                 .large_squares = result.gradient_norm * result.gradient_norm});
    position.sampler = sampler.position();
    saving.step(strategy, position);
  }
  saving.finish();
  if (arguments.noise && tells) std::printf("%s\n", noise.to_text(share * own.size()).c_str());
}

int run(Arguments arguments, tutti::Communicator comm) {
  const FirstValues first;
  // Replicas of so many ranks each, or all ranks train as one.
  std::optional<train::Replicas> replicas = arguments.fewer.make_replicas(comm, arguments.batch);
  tutti::Communicator& own = replicas ? replicas->inside : comm;
  if (arguments.noise && own.size() == 1)
    throw std::runtime_error("--noise compares gradients of ranks that train as one; run it on 2 of them or more");
  train::Strategy strategy = make(arguments, own, first.parameters);
  std::optional<train::LocalUpdates> local = arguments.fewer.make_local_updates(replicas, strategy);
  for (std::string* folder : {&arguments.save, &arguments.resume}) *folder = arguments.fewer.folder(*folder, replicas);
  const bool tells = comm.rank() == 0 && !arguments.json;
  train::TrainingPosition position;
  if (!arguments.resume.empty()) {
    position = resumed_from(arguments.resume, own, strategy, local ? &*local : nullptr);
    if (tells) std::printf("goes on from step %lld\n", static_cast<long long>(position.step));
  }
  learn(arguments, comm, own, strategy, local ? &*local : nullptr, position, tells);
  if (local) {
    local->finish();
    local->verify();
  }
  strategy.verify();
  if (arguments.advise) {
    const train::Advice advice = train::advise(comm, first.parameters,
                                               {.stage = strategy.stage(),
                                                .strategy = strategy.options(),
                                                .computing_us = strategy.report().times.computing_us});
    if (tells) std::fputs(train::to_text(advice).c_str(), stdout);
  }
  const double right = share_read_right(comm, strategy);
  if (comm.rank() == 0) {
    const train::Report report = local ? local->report() : strategy.report();
    if (arguments.json) std::fputs(train::to_json(report).c_str(), stdout);
    if (arguments.report && tells) std::fputs(train::to_text(report).c_str(), stdout);
    if (!arguments.svg.empty() && !(std::ofstream(arguments.svg) << train::to_svg(report)))
      throw std::runtime_error("cannot write " + arguments.svg);
  }
  if (tells) {
    std::printf("ranks: %d, %s: %.1f %% of 1000 new digits are read right, the same values on all ranks\n", comm.size(),
                arguments.strategy.c_str(), 100 * right);
  }
  return right >= 0.9 ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
  try {
    const Arguments arguments = parse({words, static_cast<std::size_t>(count)});
    if (arguments.help) return std::printf("%s%s%s", kHelp, examples::kFewerBytesHelp, kHelpEnd) < 0 ? 1 : 0;
    return run(arguments, tutti::init());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
