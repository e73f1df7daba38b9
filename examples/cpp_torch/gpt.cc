// A small GPT over characters, trained in C++ with libtorch by data parallel or ZeRO: every rank reads other lines of
// the text, and a strategy averages gradients while backward runs, updates, and keeps the ranks alike. For stage 3 of
// ZeRO its blocks and the whole are train::Units, which the other strategies do not mind.
//
//   tutti run -n 4 -- build-train/gpt --strategy zero1 --report
//   tutti run -n 4 -- build-train/gpt --save runs/gpt
//   tutti run -n 2 -- build-train/gpt --save runs/gpt --resume runs/gpt --steps 120
//   tutti run -n 4 -- build-train/gpt --local-updates 20 --report        # replicas that meet every 20 steps
//   tutti run -n 4 -- build-train/gpt --compress int8 --advise           # gradients in fewer bytes; do they pay?
//
// Batches depend on (step, example) alone, so that the same is learned whatever the number of ranks. It ends with exit
// code 1 where the loss has not fallen, or ranks came to different values.
#include <torch/torch.h>
#include <tutti/train/advise.h>
#include <tutti/train/checkpoint.h>
#include <tutti/train/learning_rate.h>
#include <tutti/train/local_updates.h>
#include <tutti/train/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tutti/tutti.hpp>
#include <vector>

#include "../train/fewer_bytes.h"

namespace {

namespace nn = torch::nn;
namespace train = tutti::train;
using torch::Tensor;

constexpr const char* kHelp =
    R"(usage: gpt [--strategy S] [--steps N] [--batch N] [--text FILE] [--report | --json]
           [--layers N] [--width N] [--heads N] [--context N] [--threads N] [--no-clip] [--no-overlap]
           [--rate X] [--warm-up N] [--held-out N] [--losses FILE] [--advise]
           [--save DIR] [--save-every N] [--resume DIR]
           [--compress C] [--local-updates H [--replica-ranks N] [--fragments N] [--overlap N] [--few-bits]]

  --strategy S  dp (data parallel; the default), zero1 (optimizer states cut over ranks), zero2 (gradients, too),
                zero3 (values, too)
  --steps N     updates (60), those before --resume among them
  --batch N     examples of all ranks in one step (16)
  --layers N    blocks (2); --width N of them, a multiple of the heads (64); --heads N of attention (4)
  --context N   characters of an example (64)
  --threads N   of each rank (1)
  --no-clip     gradients are taken as long as they are
  --no-overlap  gradients travel after backward instead of during it, to see what that is worth
  --rate X      of learning (0.002), reached after --warm-up N steps (0)
  --held-out N  the last tenth of the text is not learned, and the loss that is told is that of N examples there
  --losses FILE all losses that are told, of step and loss a line
  --text FILE   what is learned (the text of the examples for PyTorch)
  --save DIR    checkpoints go there, in the background, the last two are kept
  --save-every N  steps from one to the next (20); the last step always has one
  --resume DIR  go on from the last checkpoint there, with any --strategy, on any number of ranks
  --report      what a step says to other ranks, what a rank holds, and where the time went
  --json        figures for scripts instead, times are medians; whether the loss falls does not matter then
  --advise      which of the options below would be worth it here, by what a step computes and what calls take
)";
constexpr const char* kHelpEnd = R"(
Run it on several ranks: tutti run -n 4 -- gpt --strategy zero1 --report
)";

struct Settings {
  std::string strategy = "dp", text = GPT_TEXT, save, resume, losses;
  std::int64_t steps = 60, batch = 16, layers = 2, width = 64, heads = 4, context = 64, threads = 1, save_every = 20;
  std::int64_t warm_up = 0, held_out = 0;
  double rate = 2e-3;
  examples::FewerBytes fewer;
  bool report = false, advise = false, json = false, clip = true, overlap = true, help = false;
};

Settings parse(int count, char** words) {
  Settings settings;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto value = [&]() -> std::string {
      if (i + 1 == count) throw std::runtime_error(word + " needs a value; --help tells more");
      return words[++i];
    };
    const auto number = [&] { return examples::number_of(word, value()); };
    if (settings.fewer.take(word, value)) continue;
    if (word == "--strategy") {
      settings.strategy = value();
    } else if (word == "--text") {
      settings.text = value();
    } else if (word == "--save") {
      settings.save = value();
    } else if (word == "--save-every") {
      settings.save_every = number();
    } else if (word == "--resume") {
      settings.resume = value();
    } else if (word == "--steps") {
      settings.steps = number();
    } else if (word == "--batch") {
      settings.batch = number();
    } else if (word == "--layers") {
      settings.layers = number();
    } else if (word == "--width") {
      settings.width = number();
    } else if (word == "--heads") {
      settings.heads = number();
    } else if (word == "--context") {
      settings.context = number();
    } else if (word == "--threads") {
      settings.threads = number();
    } else if (word == "--rate") {
      settings.rate = examples::real_of(word, value());
    } else if (word == "--warm-up") {
      settings.warm_up = number();
    } else if (word == "--held-out") {
      settings.held_out = number();
    } else if (word == "--losses") {
      settings.losses = value();
    } else if (word == "--advise") {
      settings.advise = true;
    } else if (word == "--no-clip") {
      settings.clip = false;
    } else if (word == "--no-overlap") {
      settings.overlap = false;
    } else if (word == "--json") {
      settings.json = true;
    } else if (word == "--report") {
      settings.report = true;
    } else if (word == "--help" || word == "-h") {
      settings.help = true;
    } else {
      throw std::runtime_error("there is no option '" + word + "'; --help lists them");
    }
  }
  if (settings.width % settings.heads != 0)
    throw std::runtime_error("--width takes a multiple of the heads, " + std::to_string(settings.heads));
  return settings;
}

int stage_of(const std::string& strategy) {
  if (strategy == "dp") return 0;
  if (strategy == "zero1") return 1;
  if (strategy == "zero2") return 2;
  if (strategy == "zero3") return 3;
  throw std::runtime_error("there is no strategy '" + strategy + "'; it is one of dp, zero1, zero2 and zero3");
}

// ---- The model.

constexpr std::int64_t kCharacters = 128;

struct BlockImpl : nn::Module {
  BlockImpl(std::int64_t width, std::int64_t heads) : heads(heads) {
    before_attention = register_module("before_attention", nn::LayerNorm(nn::LayerNormOptions({width})));
    before_feed = register_module("before_feed", nn::LayerNorm(nn::LayerNormOptions({width})));
    attention = register_module("attention", nn::Linear(width, 3 * width));
    joined = register_module("joined", nn::Linear(width, width));
    up = register_module("up", nn::Linear(width, 4 * width));
    down = register_module("down", nn::Linear(4 * width, width));
  }
  Tensor forward(Tensor x) {
    const std::int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
    const auto parts =
        attention(before_attention(x)).view({batch, length, 3, heads, width / heads}).permute({2, 0, 3, 1, 4});
    const Tensor seen = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, /*is_causal=*/true);
    x = x + joined(seen.transpose(1, 2).reshape({batch, length, width}));
    return x + down(torch::gelu(up(before_feed(x))));
  }
  std::int64_t heads;
  nn::LayerNorm before_attention{nullptr}, before_feed{nullptr};
  nn::Linear attention{nullptr}, joined{nullptr}, up{nullptr}, down{nullptr};
};
TORCH_MODULE(Block);

struct GptImpl : nn::Module {
  explicit GptImpl(const Settings& settings) {
    const std::int64_t width = settings.width;
    characters = register_module("characters", nn::Embedding(kCharacters, width));
    places = register_module("places", nn::Embedding(settings.context, width));
    blocks = register_module("blocks", nn::Sequential());
    for (std::int64_t i = 0; i < settings.layers; ++i) blocks->push_back(train::Unit<Block>(width, settings.heads));
    last = register_module("last", nn::LayerNorm(nn::LayerNormOptions({width})));
    head = register_module("head", nn::Linear(width, kCharacters));
  }
  Tensor forward(const Tensor& text) {
    return head(last(blocks->forward(characters(text) + places(torch::arange(text.size(1))))));
  }
  nn::Embedding characters{nullptr}, places{nullptr};
  nn::Sequential blocks{nullptr};
  nn::LayerNorm last{nullptr};
  nn::Linear head{nullptr};
};
TORCH_MODULE(Gpt);

// ---- The text.

Tensor read_text(const std::string& path, std::int64_t context) {
  std::ifstream file(path);
  std::ostringstream text;
  if (!(text << file.rdbuf())) throw std::runtime_error("cannot read " + path);
  std::vector<std::int64_t> characters;
  for (const char c : text.str()) characters.push_back(static_cast<unsigned char>(c) < kCharacters ? c : '?');
  if (std::ssize(characters) <= context + 1) throw std::runtime_error(path + " is too short to learn from");
  return torch::tensor(characters);
}

// This rank's examples of a step, each drawn by its number: the text, and what follows each character.
std::pair<Tensor, Tensor> batch_of(const Tensor& text, const Settings& settings, std::int64_t step, int rank,
                                   int ranks) {
  const std::int64_t context = settings.context;
  std::vector<Tensor> x, y;
  for (std::int64_t i = rank; i < settings.batch; i += ranks) {
    const auto number = static_cast<std::uint64_t>(step * settings.batch + i);
    const std::uint64_t mixed = (number + 1) * 0x9e3779b97f4a7c15ULL;
    const auto at = static_cast<std::int64_t>((mixed >> 20) % static_cast<std::uint64_t>(text.size(0) - context - 1));
    x.push_back(text.slice(0, at, at + context));
    y.push_back(text.slice(0, at + 1, at + context + 1));
  }
  if (x.empty()) return {};
  return {torch::stack(x), torch::stack(y)};
}

// What is learned, and a part at the end that is not.
struct Text {
  Text(const Settings& settings) : learned(read_text(settings.text, settings.context)) {
    if (settings.held_out == 0) return;
    const std::int64_t end = learned.size(0) - learned.size(0) / 10;
    held_out = learned.slice(0, end);
    learned = learned.slice(0, 0, end);
    if (held_out.size(0) <= settings.context + 1) throw std::runtime_error(settings.text + " is too short for that");
  }
  Tensor learned, held_out;
};

Tensor loss_of(train::Unit<Gpt>& model, const Tensor& x, const Tensor& y) {
  return nn::functional::cross_entropy(model->forward(x).flatten(0, 1), y.flatten());
}

// Of examples that lie evenly over what is not learned; the mean over ranks, whose values may differ for a while.
double held_out_loss(const Settings& settings, const Text& text, train::Unit<Gpt>& model, tutti::Communicator& comm) {
  const torch::NoGradGuard no_gradients;
  std::vector<Tensor> x, y;
  const std::int64_t room = text.held_out.size(0) - settings.context - 1;
  for (std::int64_t i = 0; i < settings.held_out; ++i) {
    const std::int64_t at = room * i / settings.held_out;
    x.push_back(text.held_out.slice(0, at, at + settings.context));
    y.push_back(text.held_out.slice(0, at + 1, at + settings.context + 1));
  }
  double loss = loss_of(model, torch::stack(x), torch::stack(y)).item<double>();
  comm.all_reduce(tutti::one(loss), tutti::ReduceOp::average);
  return loss;
}

train::TrainingPosition resumed_from(const std::string& folder, tutti::Communicator& comm, train::Strategy& strategy,
                                     train::LocalUpdates* local) {
  train::Checkpoints checkpoints(comm, folder);
  const auto position = local != nullptr ? checkpoints.load(*local) : checkpoints.load(strategy);
  if (!position) throw std::runtime_error("there is no checkpoint in " + folder + "; run with --save first");
  return *position;
}

// The losses that were told, for people and for --losses.
class Losses {
 public:
  Losses(const Settings& settings, bool tells) : tells_(tells && !settings.json) {
    if (!tells || settings.losses.empty()) return;
    file_.open(settings.losses);
    if (!file_) throw std::runtime_error("cannot write " + settings.losses);
  }
  void add(std::int64_t step, double loss) {
    if (tells_) std::printf("step %4ld: loss %.4f\n", static_cast<long>(step), loss);
    if (file_.is_open()) file_ << step << " " << loss << "\n";
  }

 private:
  bool tells_;
  std::ofstream file_;
};

// What a step of this rank took, the median of all but the first ones, which find out and allocate.
class StepFigures {
 public:
  void add(const train::StepTimes& times) { steps_.push_back(times); }
  std::string to_json() const {
    std::ostringstream json;
    json << "\"step_ms\": " << median(&train::StepTimes::total_us)
         << ", \"computing_ms\": " << median(&train::StepTimes::computing_us)
         << ", \"waiting_ms\": " << median(&train::StepTimes::waiting_us)
         << ", \"updating_ms\": " << median(&train::StepTimes::updating_us);
    return json.str();
  }

 private:
  double median(double train::StepTimes::*part) const {
    if (steps_.empty()) return 0;
    const std::size_t skipped = std::min<std::size_t>(3, steps_.size() - 1);
    std::vector<double> ms;
    for (std::size_t i = skipped; i < steps_.size(); ++i) ms.push_back(steps_[i].*part / 1e3);
    std::ranges::nth_element(ms, ms.begin() + std::ssize(ms) / 2);
    return ms[ms.size() / 2];
  }
  std::vector<train::StepTimes> steps_;
};

// Backward, during which gradients travel, or not yet.
void run_backward(const Tensor& loss, train::ModuleStrategy& strategy, bool overlap) {
  if (overlap) {
    loss.backward();
    return;
  }
  const auto pause = strategy.no_sync();
  loss.backward();
}

// This rank's part of a step; the sum of its examples' losses.
double learn_step(const Settings& settings, const Tensor& text, std::int64_t step, tutti::Communicator& comm,
                  train::Unit<Gpt>& model, train::ModuleStrategy& strategy, train::LocalUpdates* local) {
  const auto [x, y] = batch_of(text, settings, step, comm.rank(), comm.size());
  const double examples = x.defined() ? static_cast<double>(x.size(0)) : 0;
  strategy.weight(examples);  // ranks may have one more than others, or none
  double sum = 0;
  if (examples > 0) {
    const Tensor loss = loss_of(model, x, y);
    run_backward(loss, strategy, settings.overlap);
    sum = loss.item<double>() * examples;
  }
  const double rate = train::LearningRate{.peak = settings.rate, .warmup_steps = settings.warm_up}.at(step + 1);
  if (local != nullptr) {
    strategy.step(*local, rate);
  } else {
    strategy.step(rate);
  }
  return sum;
}

void print_advice(tutti::Communicator& comm, const train::Strategy& strategy, const train::Report& report) {
  const train::Advice advice = train::advise(
      comm, strategy.parameters(),
      {.stage = strategy.stage(), .strategy = strategy.options(), .computing_us = report.times.computing_us});
  if (comm.rank() == 0) std::fputs(train::to_text(advice).c_str(), stdout);
}

int run(const Settings& settings, tutti::Communicator comm) {
  at::set_num_threads(static_cast<int>(settings.threads));  // ranks share the cores
  torch::manual_seed(1);
  const Text text(settings);
  train::Unit<Gpt> model(settings);
  std::size_t numbers = 0;
  for (const Tensor& parameter : model->parameters()) numbers += static_cast<std::size_t>(parameter.numel());

  train::StrategyOptions options;
  if (settings.clip) options.clip_norm = 1;
  options.unused_parameters = !settings.overlap;  // step() then sends what was not told to be ready
  settings.fewer.apply_to(options, settings.steps);
  std::optional<train::Replicas> replicas = settings.fewer.make_replicas(comm, settings.batch);
  tutti::Communicator& own = replicas ? replicas->inside : comm;
  train::ModuleStrategy strategy(own, *model, stage_of(settings.strategy), train::AdamW{.learning_rate = settings.rate},
                                 options);
  std::optional<train::LocalUpdates> local = settings.fewer.make_local_updates(replicas, strategy.strategy());
  train::LocalUpdates* const exchanges = local ? &*local : nullptr;
  const std::string save = settings.fewer.folder(settings.save, replicas),
                    resume = settings.fewer.folder(settings.resume, replicas);
  // The loss of the first step ever is a note of the checkpoints, since it says how far training has come.
  train::TrainingPosition position;
  if (!resume.empty()) {
    position = resumed_from(resume, own, strategy.strategy(), exchanges);
    if (comm.rank() == 0) std::printf("goes on from step %ld\n", static_cast<long>(position.step));
  }
  std::optional<train::Checkpoints> checkpoints;
  if (!save.empty()) checkpoints.emplace(own, save, train::CheckpointOptions{.keep = 2});
  const std::int64_t begin = position.step;
  double first = position.notes.contains("first loss") ? std::stod(position.notes["first loss"]) : 0, last = first;
  StepFigures figures;
  Losses losses(settings, comm.rank() == 0);
  const auto began = std::chrono::steady_clock::now();
  for (std::int64_t step = begin; step < settings.steps; ++step) {
    double sum = learn_step(settings, text.learned, step, comm, model, strategy, exchanges);
    figures.add(strategy.report().times);
    if (step % 20 == 0 || step + 1 == settings.steps) {
      comm.all_reduce(tutti::one(sum));
      last = settings.held_out > 0 ? held_out_loss(settings, text, model, comm)
                                   : sum / static_cast<double>(settings.batch);
      if (step == 0) first = last;
      losses.add(step, last);
    }
    if (!checkpoints) continue;
    position = {.step = step + 1, .notes = {{"first loss", std::to_string(first)}}};
    if (position.step % settings.save_every == 0 || position.step == settings.steps) {
      if (local) {
        checkpoints->save_async(*local, position);
      } else {
        checkpoints->save_async(strategy.strategy(), position);
      }
    }
    checkpoints->test();  // gives it its name as soon as all ranks have written
  }
  if (checkpoints) checkpoints->wait();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  if (local) {
    local->finish();
    local->verify();
  }
  strategy.verify();
  if (settings.advise) print_advice(comm, strategy.strategy(), strategy.report());
  if (settings.json) {
    if (comm.rank() == 0)
      std::printf("{\"strategy\": \"%s\", \"ranks\": %d, \"numbers\": %zu, \"first_loss\": %.4f, \"loss\": %.4f, %s}\n",
                  settings.strategy.c_str(), comm.size(), numbers, first, last, figures.to_json().c_str());
    return 0;
  }
  if (comm.rank() == 0) {
    if (settings.report) std::fputs(train::to_text(local ? local->report() : strategy.report()).c_str(), stdout);
    std::printf("ranks: %d, %s, %.1f M numbers: loss %.3f to %.3f, %.1f ms a step, the same values on all ranks\n",
                comm.size(), settings.strategy.c_str(), static_cast<double>(numbers) / 1e6, first, last,
                1e3 * took.count() / static_cast<double>(std::max<std::int64_t>(1, settings.steps - begin)));
  }
  return begin >= settings.steps || last < 0.75 * first ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
  try {
    const Settings settings = parse(count, words);
    if (settings.help) return std::printf("%s%s%s", kHelp, examples::kFewerBytesHelp, kHelpEnd) < 0 ? 1 : 0;
    return run(settings, tutti::init());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
