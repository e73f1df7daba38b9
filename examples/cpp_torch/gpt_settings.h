// What gpt is asked for: its options, and their words.
#pragma once

#include <tutti/train/optimizer.h>
#include <tutti/train/pipeline.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "../train/fewer_bytes.h"
#include "gpt_model.h"

namespace examples {

namespace train = tutti::train;

inline constexpr const char* kGptHelp =
    R"(usage: gpt [--mesh M [--sequence-parallel] [--pieces N]] [--strategy S] [--steps N] [--batch N] [--text FILE]
           [--layers N] [--width N] [--heads N] [--context N] [--threads N] [--no-clip] [--no-overlap] [--sgd]
           [--rate X] [--warm-up N] [--held-out N] [--tell N] [--losses FILE] [--advise] [--report | --json]
           [--save DIR] [--save-every N] [--resume DIR]
           [--schedule S] [--microbatches N] [--chunks N] [--experts N [--top-k N] [--capacity X] [--balance X]]
           [--compress C] [--local-updates H [--replica-ranks N] [--fragments N] [--overlap N] [--few-bits]]

  --strategy S  dp (data parallel; the default), zero1 (optimizer states cut over ranks), zero2 (gradients, too),
                zero3 (values, too); over the axis dp of the mesh. server: rank 0 is a synchronous parameter server
  --mesh M      axes that multiply to the ranks, such as dp2.tp2: tp cuts every layer, pp the model into stages, dp and
                ep the batch; experts lie along ep (dp alone)
  --schedule S  of stages: gpipe, 1f1b (the default), interleaved or zb-h1; with --microbatches N of a replica's batch
                (4), and for interleaved --chunks N of the model on every stage (2)
  --experts N   in every block in the place of its feed-forward; each character goes to the --top-k N best (2). With
                --capacity X an expert takes X times its even share (all that come); --balance X of the loss that
                keeps loads even (0.01)
  --sequence-parallel  tp cuts tokens, too, where all its ranks would have the same
  --pieces N    results of layers are computed and summed in so many (1)
  --steps N     updates (60), those before --resume among them
  --batch N     examples of all ranks in one step (16)
  --layers N    blocks (2); --width N of them, a multiple of the heads (64); --heads N of attention (4)
  --context N   characters of an example (64)
  --threads N   of each rank (1)
  --no-clip     gradients are taken as long as they are
  --no-overlap  gradients travel after backward instead of during it, to see what that is worth
  --rate X      of learning (0.002), reached after --warm-up N steps (0)
  --sgd         gradient descent in the place of AdamW
  --held-out N  the last tenth of the text is not learned, and the loss that is told is that of N examples there
  --tell N      steps from one loss that is told to the next (20)
  --losses FILE all losses that are told, of step and loss a line
  --text FILE   what is learned (the text of the examples for PyTorch)
  --save DIR    checkpoints go there, in the background, the last two are kept
  --save-every N  steps from one to the next (20); the last step always has one
  --resume DIR  go on from the last checkpoint there, with any --strategy, on any number of ranks and any mesh
  --report      who is where on the mesh, what a step says to other ranks, what a rank holds, and where the time went
  --json        figures for scripts instead, times are medians; whether the loss falls does not matter then
  --advise      which of the options below would be worth it here, by what a step computes and what calls take
)";
inline constexpr const char* kGptHelpEnd = R"(
Run it on several ranks: tutti run -n 4 -- gpt --strategy zero1 --report
)";

struct GptSettings {
  std::string mesh, strategy = "dp", text = GPT_TEXT, save, resume, losses;
  GptShape shape;
  std::int64_t steps = 60, batch = 16, threads = 1, save_every = 20, warm_up = 0, held_out = 0, tell = 20;
  double rate = 2e-3;
  std::int64_t microbatches = 4, chunks = 2;
  train::PipelineSchedule schedule = train::PipelineSchedule::one_f_one_b;
  FewerBytes fewer;
  bool report = false, advise = false, json = false, clip = true, overlap = true, sgd = false, help = false;

  train::Optimizer optimizer() const {
    if (sgd) return train::Sgd{.learning_rate = rate};
    return train::AdamW{.learning_rate = rate};
  }
  train::PipelineOptions pipeline() const {
    const bool interleaves = schedule == train::PipelineSchedule::interleaved;
    return {.schedule = schedule,
            .microbatches = static_cast<int>(microbatches),
            .chunks = interleaves ? static_cast<int>(chunks) : 1};
  }
};

inline train::PipelineSchedule schedule_of(const std::string& word) {
  for (std::size_t i = 0; i < train::kPipelineSchedules; ++i)
    if (train::kPipelineWords[i] == word) return static_cast<train::PipelineSchedule>(i);
  throw std::runtime_error("there is no schedule '" + word + "'; it is one of gpipe, 1f1b, interleaved and zb-h1");
}

inline GptSettings gpt_settings(int count, char** words) {
  GptSettings settings;
  settings.shape.mixture = {.experts = 0, .top_k = 2, .balance = 0.01};
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto value = [&]() -> std::string {
      if (i + 1 == count) throw std::runtime_error(word + " needs a value; --help tells more");
      return words[++i];
    };
    const auto number = [&] { return number_of(word, value()); };
    if (settings.fewer.take(word, value)) continue;
    if (word == "--strategy") {
      settings.strategy = value();
    } else if (word == "--mesh") {
      settings.mesh = value();
    } else if (word == "--schedule") {
      settings.schedule = schedule_of(value());
    } else if (word == "--microbatches") {
      settings.microbatches = number();
    } else if (word == "--chunks") {
      settings.chunks = number();
    } else if (word == "--experts") {
      settings.shape.mixture.experts = static_cast<int>(number());
    } else if (word == "--top-k") {
      settings.shape.mixture.top_k = static_cast<int>(number());
    } else if (word == "--capacity") {
      settings.shape.mixture.capacity_factor = real_of(word, value());
    } else if (word == "--balance") {
      settings.shape.mixture.balance = real_of(word, value());
    } else if (word == "--sequence-parallel") {
      settings.shape.sequence = true;
    } else if (word == "--pieces") {
      settings.shape.pieces = number();
    } else if (word == "--sgd") {
      settings.sgd = true;
    } else if (word == "--tell") {
      settings.tell = number();
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
      settings.shape.layers = number();
    } else if (word == "--width") {
      settings.shape.width = number();
    } else if (word == "--heads") {
      settings.shape.heads = number();
    } else if (word == "--context") {
      settings.shape.context = number();
    } else if (word == "--threads") {
      settings.threads = number();
    } else if (word == "--rate") {
      settings.rate = real_of(word, value());
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
  if (settings.shape.width % settings.shape.heads != 0)
    throw std::runtime_error("--width takes a multiple of the heads, " + std::to_string(settings.shape.heads));
  return settings;
}

}  // namespace examples
