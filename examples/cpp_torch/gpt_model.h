// A small GPT over characters, as modules of libtorch that are cut over the ranks of an axis; with one rank there they
// are whole. Between its parts activations are rows, one for each token: of all tokens, or of this rank's where tokens
// are cut, too.
//
// From one seed it starts with the same weights whatever it is cut over: the whole of each layer is made, in one order,
// and a rank keeps its part.
#pragma once

#include <torch/torch.h>
#include <tutti/train/torch.h>
#include <tutti/train/torch_experts.h>
#include <tutti/train/torch_tensor_parallel.h>

#include <cstdint>
#include <memory>
#include <string>

namespace examples {

constexpr std::int64_t kCharacters = 128;

// An expert, or any feed-forward that lies whole on a rank.
struct FeedImpl : torch::nn::Module {
  explicit FeedImpl(std::int64_t width) {
    up = register_module("up", torch::nn::Linear(width, 4 * width));
    down = register_module("down", torch::nn::Linear(4 * width, width));
  }
  torch::Tensor forward(const torch::Tensor& x) { return down(torch::gelu(up(x))); }
  torch::nn::Linear up{nullptr}, down{nullptr};
};
TORCH_MODULE(Feed);

struct GptShape {
  std::int64_t layers = 2, width = 64, heads = 4, context = 64;
  bool sequence = false;                                  // tokens are cut, too
  std::int64_t pieces = 1;                                // of results on their way while others are computed
  tutti::train::MixtureOptions mixture = {.experts = 0};  // in every block, in the place of its feed-forward; 0: none

  tutti::train::TensorParallelOptions cut() const { return {.sequence = sequence}; }
};

struct BlockImpl : torch::nn::Module {
  // `ep` has the experts, where there are any.
  BlockImpl(const GptShape& shape, const tutti::train::TensorRanks& tp, tutti::Communicator* ep)
      : length(shape.context),
        heads(tp->even_part_of(shape.heads, "the heads of attention").count),
        head_width(shape.width / shape.heads) {
    namespace nn = torch::nn;
    using namespace tutti::train;
    const std::int64_t width = shape.width;
    TensorParallelOptions cut = shape.cut(), stacked = cut;
    stacked.stacked = 3;
    cut.pieces = shape.pieces;
    const nn::LayerNorm norm(nn::LayerNormOptions({width}));
    before_attention = register_module("before_attention", SequenceLayerNorm(tp, norm, cut));
    before_feed = register_module("before_feed", SequenceLayerNorm(tp, norm, cut));
    attention = register_module("attention", ColumnParallelLinear(tp, nn::Linear(width, 3 * width), stacked));
    joined = register_module("joined", RowParallelLinear(tp, nn::Linear(width, width), cut));
    if (shape.mixture.experts > 0) {
      mixture = register_module("mixture",
                                Mixture<Feed>(*ep, width, shape.mixture, [&](int /*number*/) { return Feed(width); }));
      return;
    }
    up = register_module("up", ColumnParallelLinear(tp, nn::Linear(width, 4 * width), cut));
    down = register_module("down", RowParallelLinear(tp, nn::Linear(4 * width, width), cut));
  }
  torch::Tensor forward(torch::Tensor x) {
    const torch::Tensor made = attention(before_attention(x));  // of all tokens, for this rank's heads
    const auto parts = made.view({-1, length, 3, heads, head_width}).permute({2, 0, 3, 1, 4});
    const torch::Tensor seen =
        at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, /*is_causal=*/true);
    x = x + joined(seen.transpose(1, 2).reshape({made.size(0), heads * head_width}));
    const torch::Tensor rows = before_feed(x);
    return x + (mixture.is_empty() ? down(torch::gelu(up(rows))) : mixture(rows));
  }
  std::int64_t length, heads, head_width;  // heads: of this rank
  tutti::train::SequenceLayerNorm before_attention{nullptr}, before_feed{nullptr};
  tutti::train::ColumnParallelLinear attention{nullptr}, up{nullptr};
  tutti::train::RowParallelLinear joined{nullptr}, down{nullptr};
  tutti::train::Mixture<Feed> mixture{nullptr};
};
TORCH_MODULE(Block);

// Three parts, one behind the other: embed(), blocks, and logits() with their loss.
struct GptImpl : torch::nn::Module {
  GptImpl(const GptShape& shape, const tutti::train::TensorRanks& ranks, tutti::Communicator* ep = nullptr)
      : tp(ranks), sequence(shape.sequence) {
    namespace nn = torch::nn;
    using namespace tutti::train;
    TensorParallelOptions cut = shape.cut(), vocabulary = cut;
    vocabulary.vocabulary = true;
    characters = register_module("characters",
                                 VocabularyParallelEmbedding(tp, nn::Embedding(kCharacters, shape.width), vocabulary));
    places = register_module("places", nn::Embedding(shape.context, shape.width));
    blocks = register_module("blocks", nn::Sequential());
    for (std::int64_t i = 0; i < shape.layers; ++i) blocks->push_back(Unit<Block>(shape, tp, ep));
    last = register_module("last", SequenceLayerNorm(tp, nn::LayerNorm(nn::LayerNormOptions({shape.width})), cut));
    head = register_module("head", ColumnParallelLinear(tp, nn::Linear(shape.width, kCharacters), vocabulary));
  }
  // Of {examples, length} characters.
  torch::Tensor embed(const torch::Tensor& text) {
    const torch::Tensor place = torch::arange(text.size(1));
    if (!sequence) return (characters(text) + places(place)).flatten(0, 1);
    const torch::Tensor weight = tutti::train::summed_gradient(tp, places->weight);
    return characters(text) + at::embedding(weight, tutti::train::own_tokens(tp, place.repeat({text.size(0)})));
  }
  // For every token, those of this rank's characters.
  torch::Tensor logits(const torch::Tensor& rows) { return head(last(rows)); }
  // The mean over all tokens of what follows each.
  torch::Tensor loss(const torch::Tensor& rows, const torch::Tensor& next) {
    return tutti::train::vocabulary_cross_entropy(tp, logits(rows), next.flatten(), kCharacters);
  }
  torch::Tensor forward(const torch::Tensor& text, const torch::Tensor& next) {
    return loss(blocks->forward(embed(text)), next);
  }
  tutti::train::TensorRanks tp;
  bool sequence;
  tutti::train::VocabularyParallelEmbedding characters{nullptr};
  torch::nn::Embedding places{nullptr};
  torch::nn::Sequential blocks{nullptr};
  tutti::train::SequenceLayerNorm last{nullptr};
  tutti::train::ColumnParallelLinear head{nullptr};
};
TORCH_MODULE(Gpt);

}  // namespace examples
