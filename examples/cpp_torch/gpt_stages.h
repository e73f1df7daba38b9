// The GPT of gpt_model.h as the stages of a pipeline: which parts of it lie on a rank, and what they compute.
#pragma once

#include <torch/torch.h>
#include <tutti/train/torch_pipeline.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "gpt_model.h"

namespace examples {

// Blocks [first, end), as evenly as may be; the first place embeds, too, and the last one has the loss.
struct GptPlace {
  std::int64_t first = 0, end = 0;
  bool begins = true, ends = true;
};

class GptStage {
 public:
  // Chunk c of the stage is place c * stages + stage.
  GptStage(GptImpl& model, int stage, int stages, int chunks) : model_(model) {
    const auto layers = static_cast<std::int64_t>(model.blocks->size());
    const int places = stages * chunks;
    if (layers < places)
      throw std::runtime_error(std::to_string(layers) + " layers cannot be cut into " + std::to_string(places) +
                               " places of a pipeline; give more --layers, or fewer stages or --chunks");
    for (int place = stage; place < places; place += stages)
      places_.push_back({layers * place / places, layers * (place + 1) / places, place == 0, place + 1 == places});
  }

  // Whether a parameter of the whole, by its name, is on this stage.
  bool has(const std::string& name) const {
    const bool is_first = name.starts_with("characters.") || name.starts_with("places.");
    const bool is_block = name.starts_with("blocks.");
    const std::int64_t block = is_block ? std::stoll(name.substr(std::string("blocks.").size())) : 0;
    for (const GptPlace& place : places_) {
      if (is_block ? block >= place.first && block < place.end : is_first ? place.begins : place.ends) return true;
    }
    return false;
  }
  // The memory of all others goes.
  void drop_others() {
    const torch::NoGradGuard quiet;
    for (const auto& parameter : model_.named_parameters())
      if (!has(parameter.key())) parameter.value().set_data(at::empty({0}, parameter.value().options()));
  }

  // Of a micro-batch: what the next place gets, or the loss.
  torch::Tensor forward(int chunk, const torch::Tensor& input, const torch::Tensor& text, const torch::Tensor& next) {
    const GptPlace& place = places_[static_cast<std::size_t>(chunk)];
    torch::Tensor x = place.begins ? model_.embed(text) : input;
    for (std::int64_t block = place.first; block < place.end; ++block)
      x = model_.blocks->ptr(static_cast<std::size_t>(block))->as<BlockImpl>()->forward(x);
    return place.ends ? model_.loss(x, next) : x;
  }

 private:
  GptImpl& model_;
  std::vector<GptPlace> places_;
};

// The stages of one replica, and the examples that go through them.
class GptPipeline {
 public:
  // Collective over the stages.
  GptPipeline(tutti::Communicator& stages, GptImpl& model, const tutti::train::PipelineOptions& options)
      : stage_(model, stages.rank(), stages.size(), options.chunks),
        pipeline_(
            stages,
            [this](int microbatch, int chunk, const torch::Tensor& input) {
              const auto number = static_cast<std::size_t>(microbatch);
              const torch::Tensor made = stage_.forward(chunk, input, text_[number], next_[number]);
              return made.dim() == 0 ? made / static_cast<double>(text_.size()) : made;
            },
            options) {}
  GptPipeline(const GptPipeline&) = delete;
  GptPipeline& operator=(const GptPipeline&) = delete;

  // Collective, each: the mean loss of these examples, on the last stage; 0 on others.
  double step(const torch::Tensor& text, const torch::Tensor& next) {
    cut(text, next);
    return pipeline_.step();
  }
  double evaluate(const torch::Tensor& text, const torch::Tensor& next) {
    cut(text, next);
    return pipeline_.evaluate();
  }
  GptStage& stage() { return stage_; }
  const tutti::train::Pipeline& pipeline() const { return pipeline_.pipeline(); }

 private:
  void cut(const torch::Tensor& text, const torch::Tensor& next) {
    const std::int64_t count = pipeline_.pipeline().options().microbatches;
    if (text.size(0) % count != 0)
      throw std::runtime_error(std::to_string(text.size(0)) + " examples of a replica cannot be cut into " +
                               std::to_string(count) + " micro-batches of one size; give another --batch or " +
                               "--microbatches");
    text_ = text.chunk(count);
    next_ = next.chunk(count);
  }

  GptStage stage_;
  std::vector<torch::Tensor> text_, next_;  // by micro-batch
  tutti::train::ModulePipeline pipeline_;
};

// What this stage says, by formula.
inline void print_stage(const tutti::train::Pipeline& pipeline) {
  std::printf("along pp, stage %d of %d in a step:\n", pipeline.stage(), pipeline.stages());
  for (const tutti::train::Phrase& phrase : pipeline.sentence())
    std::printf("  %s: %lu times %lu bytes\n", phrase.what.c_str(), static_cast<unsigned long>(phrase.times),
                static_cast<unsigned long>(phrase.bytes));
}

}  // namespace examples
