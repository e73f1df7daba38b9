// A small GPT over characters, trained in C++ with libtorch by data parallel or ZeRO: every rank reads other lines of
// the text, and a strategy averages gradients while backward runs, updates, and keeps the ranks alike. For stage 3 of
// ZeRO its blocks and the whole are train::Units, which the other strategies do not mind. Along another axis of a mesh
// its layers are cut (gpt_model.h), along pp the model into stages (gpt_stages.h), along ep lie experts.
//
//   tutti run -n 4 -- build-train/gpt --strategy zero1 --report
//   tutti run -n 4 -- build-train/gpt --mesh dp2.tp2 --strategy zero1    # layers cut in two, and two of that
//   tutti run -n 8 -- build-train/gpt --mesh dp2.pp2.tp2 --schedule zb-h1 --microbatches 4
//   tutti run -n 4 -- build-train/gpt --mesh dp2.ep2 --experts 8 --top-k 2
//   tutti run -n 4 -- build-train/gpt --save runs/gpt
//   tutti run -n 2 -- build-train/gpt --save runs/gpt --resume runs/gpt --steps 120
//   tutti run -n 4 -- build-train/gpt --resume runs/gpt --mesh pp2.dp2 --steps 180
//   tutti run -n 4 -- build-train/gpt --local-updates 20 --report        # replicas that meet every 20 steps
//   tutti run -n 4 -- build-train/gpt --compress int8 --advise           # gradients in fewer bytes; do they pay?
//   tutti run -n 5 -- build-train/gpt --strategy server --no-clip        # rank 0 updates, four workers compute
//
// Batches depend on (step, example) alone, so that the same is learned whatever the number of ranks. It ends with exit
// code 1 where the loss has not fallen, or ranks came to different values.
#include <torch/torch.h>
#include <tutti/train/advise.h>
#include <tutti/train/checkpoint.h>
#include <tutti/train/learning_rate.h>
#include <tutti/train/local_updates.h>
#include <tutti/train/mesh.h>
#include <tutti/train/parameter_server.h>
#include <tutti/train/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tutti/tutti.hpp>
#include <vector>

#include "gpt_model.h"
#include "gpt_settings.h"
#include "gpt_stages.h"

namespace {

namespace train = tutti::train;
using examples::Gpt;
using Settings = examples::GptSettings;
using torch::Tensor;

int stage_of(const std::string& strategy) {
  if (strategy == "dp") return 0;
  if (strategy == "zero1") return 1;
  if (strategy == "zero2") return 2;
  if (strategy == "zero3") return 3;
  throw std::runtime_error("there is no strategy '" + strategy + "'; it is one of dp, zero1, zero2, zero3 and server");
}

// ---- Who does what.

// The axes of a mesh; dp is always one.
std::vector<train::MeshAxis> axes_of(const Settings& settings, int ranks) {
  if (settings.mesh.empty()) return {{"dp", ranks}};
  std::vector<train::MeshAxis> axes = train::parse_mesh(settings.mesh);
  bool has_dp = false;
  for (const train::MeshAxis& axis : axes) {
    has_dp |= axis.name == "dp";
    if (axis.name != "dp" && axis.name != "tp" && axis.name != "pp" && axis.name != "ep")
      throw std::runtime_error("--mesh has the axis " + axis.name + "; there are dp, tp, pp and ep");
  }
  if (!has_dp) axes.insert(axes.begin(), {"dp", 1});
  return axes;
}

// Ranks along dp and ep have other examples, ranks along tp other parts of every layer, along pp other layers, and
// along ep other experts.
struct Ranks {
  Ranks(tutti::Communicator& comm, const Settings& settings)
      : mesh(comm, axes_of(settings, comm.size())),
        alone(comm.self()),
        both(group({"dp", "ep"})),
        dp(mesh.has("ep") ? *both : mesh.along("dp")),
        pp(mesh.has("pp") ? mesh.along("pp") : alone),
        ep(mesh.has("ep") ? mesh.along("ep") : alone),
        tp(std::make_shared<train::TensorParallel>(mesh.has("tp") ? mesh.along("tp") : alone)) {
    if (mesh.has("pp")) with_dense = group({"pp", "tp"});
    if (mesh.has("pp") || mesh.has("ep")) with_experts = group({"pp", "ep", "tp"});
  }

  // Of those that the mesh has.
  std::optional<tutti::Communicator> group(std::vector<std::string_view> axes) {
    std::erase_if(axes, [&](std::string_view axis) { return !mesh.has(axis); });
    return mesh.group(axes);
  }

  train::Mesh mesh;
  tutti::Communicator alone;
  std::optional<tutti::Communicator> both;
  tutti::Communicator &dp, &pp, &ep;  // dp: all that have other examples
  train::TensorRanks tp;
  // Who has a model together, of which experts are a part that is clipped by itself.
  std::optional<tutti::Communicator> with_dense, with_experts;
};

// What not every way of cutting goes with.
void require_possible(const Settings& settings, const Ranks& ranks) {
  const bool has_stages = ranks.mesh.has("pp"), has_experts = settings.shape.mixture.experts > 0;
  const std::string what = has_stages ? "--mesh with pp" : "--experts";
  if (ranks.mesh.has("ep") && !has_experts) throw std::runtime_error("--mesh with ep needs --experts N");
  if (!has_stages && !has_experts) return;
  if (settings.strategy == "zero3")
    throw std::runtime_error(what + " goes with --strategy dp, zero1 and zero2: zero3 gathers layers for one pass");
  if (settings.fewer.local_updates > 0) throw std::runtime_error(what + " goes without --local-updates");
  if (settings.batch % ranks.dp.size() != 0)
    throw std::runtime_error(what + " needs a --batch that " + std::to_string(ranks.dp.size()) +
                             " ranks can share evenly");
  if (has_experts && settings.shape.sequence)
    throw std::runtime_error("--experts needs all tokens on every rank of tp; leave out --sequence-parallel");
}

// ---- The text.

Tensor read_text(const std::string& path, std::int64_t context) {
  std::ifstream file(path);
  std::ostringstream text;
  if (!(text << file.rdbuf())) throw std::runtime_error("cannot read " + path);
  std::vector<std::int64_t> characters;
  for (const char c : text.str()) characters.push_back(static_cast<unsigned char>(c) < examples::kCharacters ? c : '?');
  if (std::ssize(characters) <= context + 1) throw std::runtime_error(path + " is too short to learn from");
  return torch::tensor(characters);
}

// This rank's examples of a step, each drawn by its number: the text, and what follows each character.
std::pair<Tensor, Tensor> batch_of(const Tensor& text, const Settings& settings, std::int64_t step, int rank,
                                   int ranks) {
  const std::int64_t context = settings.shape.context;
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
  Text(const Settings& settings) : learned(read_text(settings.text, settings.shape.context)) {
    if (settings.held_out == 0) return;
    const std::int64_t end = learned.size(0) - learned.size(0) / 10;
    held_out = learned.slice(0, end);
    learned = learned.slice(0, 0, end);
    if (held_out.size(0) <= settings.shape.context + 1)
      throw std::runtime_error(settings.text + " is too short for that");
  }
  Tensor learned, held_out;
};

// Of examples that lie evenly over what is not learned; the mean over ranks, whose values may differ for a while.
double held_out_loss(const Settings& settings, const Text& text, train::Unit<Gpt>& model, tutti::Communicator& comm,
                     examples::GptPipeline* pipeline, tutti::Communicator& stages) {
  const torch::NoGradGuard no_gradients;
  std::vector<Tensor> x, y;
  const std::int64_t room = text.held_out.size(0) - settings.shape.context - 1;
  for (std::int64_t i = 0; i < settings.held_out; ++i) {
    const std::int64_t at = room * i / settings.held_out;
    x.push_back(text.held_out.slice(0, at, at + settings.shape.context));
    y.push_back(text.held_out.slice(0, at + 1, at + settings.shape.context + 1));
  }
  double loss = pipeline != nullptr ? stages.size() * pipeline->evaluate(torch::stack(x), torch::stack(y))
                                    : model->forward(torch::stack(x), torch::stack(y)).item<double>();
  comm.all_reduce(tutti::one(loss), tutti::ReduceOp::average);
  return loss;
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
    if (!file_.is_open()) return;
    file_.precision(std::numeric_limits<double>::max_digits10);
    file_ << step << " " << loss << "\n";
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

// What is trained, and by whom: all of the model, or a stage of it; experts have a strategy of their own.
struct Training {
  train::Unit<Gpt>& model;
  train::ModuleStrategy& strategy;
  train::ModuleStrategy* experts;
  examples::GptPipeline* pipeline;
  train::LocalUpdates* local;
};

// This rank's part of a step; the sum of its examples' losses, in a pipeline on the last stage.
double learn_step(const Settings& settings, const Tensor& text, std::int64_t step, tutti::Communicator& dp,
                  const Training& training) {
  auto& [model, strategy, experts, pipeline, local] = training;
  const auto [x, y] = batch_of(text, settings, step, dp.rank(), dp.size());
  const double examples = x.defined() ? static_cast<double>(x.size(0)) : 0;
  double sum = 0;
  if (experts == nullptr && pipeline == nullptr) strategy.weight(examples);  // ranks may have one more, or none
  if (pipeline != nullptr) {
    sum = pipeline->step(x, y) * examples;
  } else if (examples > 0) {
    const Tensor loss = model->forward(x, y);
    run_backward(loss, strategy, settings.overlap);
    sum = loss.item<double>() * examples;
  }
  const double rate = train::LearningRate{.peak = settings.rate, .warmup_steps = settings.warm_up}.at(step + 1);
  if (experts != nullptr) experts->step(rate);
  if (local != nullptr) {
    strategy.step(*local, rate);
  } else {
    strategy.step(rate);
  }
  return sum;
}

void print_advice(Ranks& ranks, const train::Strategy& strategy, const train::Report& report) {
  const train::Advice advice = train::advise(
      ranks.dp, strategy.parameters(),
      {.stage = strategy.stage(), .strategy = strategy.options(), .computing_us = report.times.computing_us});
  if (ranks.mesh.all().rank() == 0) std::fputs(train::to_text(advice).c_str(), stdout);
}

// Numbers of the whole model, whatever this rank has of it.
std::size_t numbers_of(const Gpt::ContainedType& model) {
  const train::CutParameters cut(model);
  std::size_t numbers = 0;
  for (const auto& parameter : model.named_parameters()) {
    const auto found = cut.by_name.find(parameter.key());
    const auto here = static_cast<std::size_t>(parameter.value().numel());
    numbers += found == cut.by_name.end() ? here : here / found->second.count * found->second.row;
  }
  return numbers;
}

// Who saves and loads together: a replica with all of its model, or everybody.
tutti::Communicator& savers(const Settings& settings, Ranks& ranks, std::optional<train::Replicas>& replicas) {
  if (!replicas) return ranks.mesh.all();
  if (ranks.tp->size() > 1 && !(settings.save.empty() && settings.resume.empty()))
    throw std::runtime_error("--save and --resume with --local-updates need a mesh without tp");
  return replicas->inside;
}

// What was said, by the strategy along dp and by the layers along tp.
void print_report(const train::Report& strategy, const train::Report& layers) {
  std::fputs(train::to_text(strategy).c_str(), stdout);
  if (layers.ranks > 1) std::printf("along tp:\n%s", train::to_text(layers).c_str());
}

// The checkpoints of a folder: of all strategies together, experts' among them, or of local updates.
class Saved {
 public:
  Saved(tutti::Communicator& ranks, const std::string& folder, const Training& training)
      : local_(training.local), folder_(folder), checkpoints_(ranks, folder, {.keep = 2}) {
    strategies_.push_back(&training.strategy.strategy());
    if (training.experts != nullptr) strategies_.push_back(&training.experts->strategy());
  }

  train::TrainingPosition load() {
    const auto position = local_ != nullptr ? checkpoints_.load(*local_) : checkpoints_.load(strategies_);
    if (!position) throw std::runtime_error("there is no checkpoint in " + folder_ + "; run with --save first");
    return *position;
  }
  void save(const train::TrainingPosition& position) {
    if (local_ != nullptr) {
      checkpoints_.save_async(*local_, position);
    } else {
      checkpoints_.save_async(strategies_, position);
    }
  }
  void test() { checkpoints_.test(); }  // gives it its name as soon as all ranks have written
  void wait() { checkpoints_.wait(); }

 private:
  train::LocalUpdates* local_;
  std::vector<train::Strategy*> strategies_;
  std::string folder_;
  train::Checkpoints checkpoints_;
};

train::StrategyOptions options_of(const Settings& settings) {
  train::StrategyOptions options;
  if (settings.clip) options.clip_norm = 1;
  options.unused_parameters = !settings.overlap;  // step() then sends what was not told to be ready
  settings.fewer.apply_to(options, settings.steps);
  return options;
}

// ---- Over a parameter server.

// Rank 0 holds the values and updates them, the others compute: with synchronous clocks what data parallel over these
// others comes to.
void require_servable(const Settings& settings, int workers) {
  const auto require = [](bool possible, const std::string& words) {
    if (!possible) throw std::runtime_error("--strategy server " + words);
  };
  require(workers > 0, "needs two ranks at least: rank 0 is the server");
  require(settings.mesh.empty() && settings.shape.mixture.experts == 0 && settings.fewer.local_updates == 0,
          "has the whole model on every worker; leave out --mesh, --experts and --local-updates");
  require(!settings.clip && settings.warm_up == 0,
          "updates as gradients come, at one rate; it needs --no-clip, "
          "and goes without --warm-up");
  require(settings.save.empty() && settings.held_out == 0, "goes without --save and --held-out");
  require(settings.batch % workers == 0,
          "needs a --batch that " + std::to_string(workers) + " workers can share evenly");
}

void pull_all(train::ParameterServer& server, Gpt::ContainedType& model) {
  for (const auto& named : model.named_parameters())
    server.pull(server.key(named.key()),
                {named.value().data_ptr<float>(), static_cast<std::size_t>(named.value().numel())});
}

// This worker's examples; the sum of their losses.
double learn_from_server(const Settings& settings, const Tensor& text, std::int64_t step, tutti::Communicator& workers,
                         train::ParameterServer& server, train::Unit<Gpt>& model) {
  pull_all(server, *model);
  const auto [x, y] = batch_of(text, settings, step, workers.rank(), workers.size());
  model->zero_grad();
  const Tensor loss = model->forward(x, y);
  loss.backward();
  for (const auto& named : model->named_parameters()) {
    const Tensor gradient = named.value().grad().contiguous();
    server.push(server.key(named.key()), {gradient.data_ptr<float>(), static_cast<std::size_t>(gradient.numel())});
  }
  server.clock();
  return loss.item<double>() * static_cast<double>(x.size(0));
}

int run_served(const Settings& settings, tutti::Communicator& comm) {
  at::set_num_threads(static_cast<int>(settings.threads));
  torch::manual_seed(1);
  require_servable(settings, comm.size() - 1);
  const Text text(settings);
  Ranks ranks(comm, settings);
  train::Unit<Gpt> model(settings.shape, ranks.tp, &ranks.ep);
  train::TrainingPosition position;
  if (!settings.resume.empty()) {  // values; moments of an optimizer begin anew
    train::ModuleStrategy strategy(comm, *model, 0, settings.optimizer());
    position = Saved(comm, settings.resume, {model, strategy, nullptr, nullptr, nullptr}).load();
    if (comm.rank() == 0) std::printf("goes on from step %ld\n", static_cast<long>(position.step));
  }
  train::ServedParameters served;
  for (const auto& named : model->named_parameters())
    served.push_back(
        {.name = named.key(), .shape = named.value().sizes().vec(), .values = named.value().data_ptr<float>()});
  train::ParameterServer server(comm, served, settings.optimizer());
  tutti::Communicator workers = comm.split(server.serves() ? 0 : 1);
  if (server.serves()) return server.serve().dropped.empty() ? 0 : 1;
  Losses losses(settings, workers.rank() == 0);
  const std::int64_t begin = position.step;
  double first = 0, last = 0;
  const auto began = std::chrono::steady_clock::now();
  for (std::int64_t step = begin; step < settings.steps; ++step) {
    double sum = learn_from_server(settings, text.learned, step, workers, server, model);
    if (step % settings.tell != 0 && step + 1 != settings.steps) continue;
    workers.all_reduce(tutti::one(sum));
    last = sum / static_cast<double>(settings.batch);
    if (step == begin) first = last;
    losses.add(step, last);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  pull_all(server, *model);
  server.finish();
  for (const auto& named : model->named_parameters()) {
    const Tensor largest = named.value().detach().clone();
    tutti::all_reduce(workers, largest, tutti::ReduceOp::maximum);
    if (!torch::equal(largest, named.value())) throw std::runtime_error(named.key() + " differs between workers");
  }
  if (workers.rank() == 0)
    std::printf("ranks: %d, server, %.1f M numbers: loss %.3f to %.3f, %.1f ms a step, the same values on all ranks\n",
                comm.size(), static_cast<double>(numbers_of(*model)) / 1e6, first, last,
                1e3 * took.count() / static_cast<double>(std::max<std::int64_t>(1, settings.steps - begin)));
  return begin > 0 || last < 0.75 * first ? 0 : 1;
}

int run(const Settings& settings, tutti::Communicator comm) {
  if (settings.strategy == "server") return run_served(settings, comm);
  at::set_num_threads(static_cast<int>(settings.threads));  // ranks share the cores
  torch::manual_seed(1);
  const Text text(settings);
  Ranks ranks(comm, settings);
  require_possible(settings, ranks);
  const bool has_stages = ranks.mesh.has("pp"), has_experts = settings.shape.mixture.experts > 0;
  examples::GptShape shape = settings.shape;
  if (has_stages) shape.mixture.balance /= static_cast<double>(settings.microbatches);
  train::Unit<Gpt> model(shape, ranks.tp, &ranks.ep);
  const std::size_t numbers = numbers_of(*model);
  std::optional<examples::GptPipeline> pipeline;
  if (has_stages) {
    pipeline.emplace(ranks.pp, *model, settings.pipeline());
    pipeline->stage().drop_others();
  }
  const auto is_here = [&](const std::string& name) { return !pipeline || pipeline->stage().has(name); };

  train::StrategyOptions options = options_of(settings), of_experts = options;
  std::optional<train::Replicas> replicas = settings.fewer.make_replicas(ranks.dp, settings.batch);
  tutti::Communicator& own = replicas ? replicas->inside : ranks.dp;
  if (ranks.with_dense) options.model_ranks = &*ranks.with_dense;
  train::ModuleStrategy strategy(own, *model, stage_of(settings.strategy), settings.optimizer(), options,
                                 [&](const std::string& name) { return is_here(name) && !train::is_expert(name); });
  std::optional<train::ModuleStrategy> experts;
  if (has_experts) {
    if (ranks.with_experts) of_experts.model_ranks = &*ranks.with_experts;
    experts.emplace(ranks.mesh.along("dp"), *model, stage_of(settings.strategy), settings.optimizer(), of_experts,
                    [&](const std::string& name) { return is_here(name) && train::is_expert(name); });
  }
  for (train::ModuleStrategy* each : {&strategy, experts ? &*experts : nullptr})
    if (each != nullptr && has_stages) each->set_passes(static_cast<int>(settings.microbatches));
  std::optional<train::LocalUpdates> local = settings.fewer.make_local_updates(replicas, strategy.strategy());
  train::LocalUpdates* const exchanges = local ? &*local : nullptr;
  const Training training{model, strategy, experts ? &*experts : nullptr, pipeline ? &*pipeline : nullptr, exchanges};
  const std::string save = settings.fewer.folder(settings.save, replicas),
                    resume = settings.fewer.folder(settings.resume, replicas);
  tutti::Communicator& saving = savers(settings, ranks, replicas);
  // The loss of the first step ever is a note of the checkpoints, since it says how far training has come.
  train::TrainingPosition position;
  if (!resume.empty()) {
    position = Saved(saving, resume, training).load();
    if (comm.rank() == 0) std::printf("goes on from step %ld\n", static_cast<long>(position.step));
  }
  std::optional<Saved> checkpoints;
  if (!save.empty()) checkpoints.emplace(saving, save, training);
  const std::int64_t begin = position.step;
  double first = position.notes.contains("first loss") ? std::stod(position.notes["first loss"]) : 0, last = first;
  StepFigures figures;
  Losses losses(settings, comm.rank() == 0);
  std::optional<train::Mark> from;  // only where it is told: calls are timed from then on
  if (settings.report) from = train::mark(ranks.tp->communicator());
  const auto began = std::chrono::steady_clock::now();
  for (std::int64_t step = begin; step < settings.steps; ++step) {
    double sum = learn_step(settings, text.learned, step, ranks.dp, training);
    figures.add(strategy.report().times);
    if (step % settings.tell == 0 || step + 1 == settings.steps) {
      ranks.dp.all_reduce(tutti::one(sum));
      ranks.pp.all_reduce(tutti::one(sum));  // others than the last have 0
      last = settings.held_out > 0 ? held_out_loss(settings, text, model, comm, training.pipeline, ranks.pp)
                                   : sum / static_cast<double>(settings.batch);
      if (step == 0) first = last;
      losses.add(step, last);
    }
    if (!checkpoints) continue;
    position = {.step = step + 1, .notes = {{"first loss", std::to_string(first)}}};
    if (position.step % settings.save_every == 0 || position.step == settings.steps) checkpoints->save(position);
    checkpoints->test();
  }
  if (checkpoints) checkpoints->wait();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  std::optional<train::Report> layers;
  if (from)
    layers =
        train::report(*from, train::mark(ranks.tp->communicator()), std::max<std::int64_t>(1, settings.steps - begin));
  if (local) {
    local->finish();
    local->verify();
  }
  strategy.verify();
  if (experts) experts->verify();
  if (settings.advise) print_advice(ranks, strategy.strategy(), strategy.report());
  if (settings.json) {
    if (comm.rank() == 0)
      std::printf("{\"strategy\": \"%s\", \"ranks\": %d, \"numbers\": %zu, \"first_loss\": %.4f, \"loss\": %.4f, %s}\n",
                  settings.strategy.c_str(), comm.size(), numbers, first, last, figures.to_json().c_str());
    return 0;
  }
  if (comm.rank() == 0) {
    if (layers && !settings.mesh.empty()) std::fputs(ranks.mesh.to_text().c_str(), stdout);
    if (layers) print_report(local ? local->report() : strategy.report(), *layers);
    if (layers && pipeline) examples::print_stage(pipeline->pipeline());
    std::printf("ranks: %d, %s, %.1f M numbers: loss %.3f to %.3f, %.1f ms a step, the same values on all ranks\n",
                comm.size(), settings.strategy.c_str(), static_cast<double>(numbers) / 1e6, first, last,
                1e3 * took.count() / static_cast<double>(std::max<std::int64_t>(1, settings.steps - begin)));
  }
  return begin >= settings.steps || last < 0.75 * first ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
  try {
    const Settings settings = examples::gpt_settings(count, words);
    if (settings.help)
      return std::printf("%s%s%s", examples::kGptHelp, examples::kFewerBytesHelp, examples::kGptHelpEnd) < 0 ? 1 : 0;
    return run(settings, tutti::init());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
