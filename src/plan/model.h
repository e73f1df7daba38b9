// A transformer as the planner sees it: its matrices, and what follows from them alone, parameters and floating-point
// operations. Real matrices are counted: SwiGLU has three, grouped queries have narrow keys and values, latent
// attention has its projections, a layer of experts has all of theirs to store and top_k of them to compute.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::plan {

struct ModelShape {
  std::string name;
  int layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_size = 0, ffn = 0, vocab = 0;
  bool gated = false;      // SwiGLU: three matrices instead of two
  bool biases = false;     // behind products, and with norms
  bool dropout = false;    // behind attention and MLP
  bool tied = false;       // embedding and logits are one matrix
  int positions = 0;       // learned ones
  int experts = 0;         // 0: no layer has any
  int top_k = 1;           // that a token goes to
  int shared_experts = 0;  // that every token goes to besides
  int expert_ffn = 0;
  int dense_layers = 0;  // the first so many have no experts
  int expert_every = 1;  // behind these, one in so many has experts: the last of them
  double capacity_factor = 1, imbalance = 1;
  int query_rank = 0, kv_rank = 0, rope_size = 0, value_size = 0;  // of latent attention, where kv_rank is not 0

  bool has_experts(int layer) const {
    return experts > 0 && layer >= dense_layers && (layer - dense_layers + 1) % expert_every == 0;
  }
  int query_width() const { return heads * (head_size + rope_size); }
  int value_width() const { return heads * (kv_rank > 0 ? value_size : head_size); }
  int kv_width() const { return kv_heads * head_size; }
  // Tensor parallelism cuts keys and values between heads; more ranks than those have copies.
  int kv_pieces(int tp) const { return kv_rank > 0 ? tp : std::min(tp, kv_heads); }

  bool operator==(const ModelShape&) const = default;
};

// A product of a token's numbers with a matrix of `in` by `out`, which tensor parallelism cuts along one of them.
struct ModelMatrix {
  std::string_view name;
  double in = 0, out = 0;
  bool cut = true;          // by tensor parallelism; else every rank has all of it
  bool cut_in = false;      // along `in`: row-parallel
  bool of_experts = false;  // one for every expert, of which a token meets top_k
  int most_pieces = 0;      // more ranks than that have copies; 0: any number of ranks has pieces

  int pieces(int tp) const { return !cut ? 1 : most_pieces > 0 ? std::min(tp, most_pieces) : tp; }
};

// Of a layer, in the order of forward, attention itself left out, which has no parameters.
std::vector<ModelMatrix> matrices_of(const ModelShape& model, int layer);

// One tensor of the model, as a training program registers it: matrices, biases, norms.
struct ModelTensor {
  std::string name;
  std::uint64_t elements = 0;  // on a rank
  int layer = 0;               // -1: before the first; as many as there are layers: behind the last
  bool of_experts = false;
  int copies = 1;  // of experts: as many alike

  double all_elements() const { return static_cast<double>(elements) * copies; }
  // Which the output layer may be one matrix with; learned positions are not part of it.
  bool is_embedding() const { return layer < 0 && name == "embedding"; }
};
// Of a rank that has 1 / tp of what is cut, and experts / ep experts; in the order of forward.
std::vector<ModelTensor> tensors_of(const ModelShape& model, int tp = 1, int ep = 1);
// The same with all experts of a layer as one tensor of so many copies, for whom their sum will do.
std::vector<ModelTensor> counted_tensors_of(const ModelShape& model, int tp = 1, int ep = 1);

struct ParameterCounts {
  double all = 0, active = 0;  // that a token meets
};
ParameterCounts parameters_of(const ModelShape& model);

// What a rank has of a model, counted once for all plans that cut it alike.
struct CountedModel {
  CountedModel(const ModelShape& model, int tp_ranks, int ep_ranks)
      : tp(tp_ranks), ep(ep_ranks), tensors(counted_tensors_of(model, tp, ep)), parameters(parameters_of(model).all) {}

  int tp = 1, ep = 1;
  std::vector<ModelTensor> tensors;
  double parameters = 0;  // of all ranks together
};

// Of one sequence forward: products with matrices, scores and what they weigh, and logits.
struct ForwardFlops {
  double matrices = 0, attention = 0, logits = 0;

  double sum() const { return matrices + attention + logits; }
};
ForwardFlops forward_flops(const ModelShape& model, double sequence);

// Throws Error(invalid_argument) that says which number is wrong, and what would be right.
void require_possible(const ModelShape& model);
inline constexpr int kMostLayers = 100'000;  // each of which is counted
inline constexpr int kMostHidden = 1 << 24;
void require_possible_layers(const ModelShape& model);
// Heads of 128 numbers, or as many fewer as it takes to divide the width.
int usual_heads(int hidden);

struct ModelPreset {
  ModelShape shape;
  std::string_view source;  // where its numbers come from
};
const std::vector<ModelPreset>& model_presets();
// Throws Error(invalid_argument) with the nearest names.
const ModelShape& find_model(const std::string& name);

// A model's file as JSON: a Hugging Face config.json, or keys as the options are named (layers, hidden, heads,
// kv_heads, ffn, vocab, ...). Throws Error(invalid_argument): "FILE:3:7: ..." of what is wrong where it stands, else
// "FILE: ...".
// Of a model_type that is not known `gated` must say whether its MLP is.
ModelShape model_from_json(std::string_view text, const std::string& file, std::optional<bool> gated = {});

}  // namespace tutti::plan
