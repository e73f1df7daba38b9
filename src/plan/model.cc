#include "plan/model.h"

#include <algorithm>

#include "base/formatted.h"
#include "base/nearest_names.h"
#include "tutti/error.h"

namespace tutti::plan {
namespace {

[[noreturn]] void refuse_model(const std::string& why) { throw Error(ErrorCode::invalid_argument, why); }

void add_attention(const ModelShape& model, std::vector<ModelMatrix>& matrices) {
  const double hidden = model.hidden;
  if (model.kv_rank == 0) {
    matrices.push_back({"query", hidden, static_cast<double>(model.query_width())});
    for (const char* name : {"key", "value"})
      matrices.push_back({name, hidden, static_cast<double>(model.kv_width()), true, false, false, model.kv_heads});
  } else {  // latent: down to a rank that all heads share, and up again
    if (model.query_rank > 0) matrices.push_back({"query down", hidden, static_cast<double>(model.query_rank), false});
    const double from = model.query_rank > 0 ? model.query_rank : hidden;
    matrices.push_back({"query up", from, static_cast<double>(model.query_width())});
    matrices.push_back({"key and value down", hidden, static_cast<double>(model.kv_rank + model.rope_size), false});
    matrices.push_back({"key and value up", static_cast<double>(model.kv_rank),
                        static_cast<double>(model.heads * (model.head_size + model.value_size))});
  }
  matrices.push_back({"attention out", static_cast<double>(model.value_width()), hidden, true, true});
}

void add_mlp(const ModelShape& model, double ffn, bool of_experts, std::vector<ModelMatrix>& matrices) {
  const double hidden = model.hidden;
  if (model.gated) matrices.push_back({"gate", hidden, ffn, true, false, of_experts});
  matrices.push_back({"up", hidden, ffn, true, false, of_experts});
  matrices.push_back({"down", ffn, hidden, true, true, of_experts});
}

// What of a matrix with its bias a rank of `tp` has: a bias behind a row-parallel product is everybody's.
std::uint64_t elements_of(const ModelMatrix& matrix, bool biases, int tp) {
  const double cut = matrix.pieces(tp);
  const double bias = !biases ? 0 : matrix.cut && !matrix.cut_in ? matrix.out / cut : matrix.out;
  return static_cast<std::uint64_t>(matrix.in * matrix.out / cut + bias);
}

// Widths that are products of others.
void require_possible_widths(const ModelShape& model) {
  constexpr std::int64_t kMost = 1 << 30;
  if (model.hidden > kMostHidden)
    refuse_model(
        formatted("model %s: --hidden is %d; up to %d is planned", model.name.c_str(), model.hidden, kMostHidden));
  const auto product = [](int a, std::int64_t b) { return static_cast<std::int64_t>(a) * b; };
  if (product(model.heads, static_cast<std::int64_t>(model.head_size) + model.rope_size + model.value_size) > kMost ||
      product(model.expert_ffn, model.shared_experts) > kMost)
    refuse_model("model " + model.name +
                 ": its heads, or its shared experts, are wider than 2^30 together; give fewer, or narrower ones");
}

}  // namespace

std::vector<ModelMatrix> matrices_of(const ModelShape& model, int layer) {
  std::vector<ModelMatrix> matrices;
  add_attention(model, matrices);
  if (!model.has_experts(layer)) {
    add_mlp(model, model.ffn, false, matrices);
    return matrices;
  }
  matrices.push_back({"router", static_cast<double>(model.hidden), static_cast<double>(model.experts), false});
  add_mlp(model, model.expert_ffn, true, matrices);
  if (model.shared_experts > 0) add_mlp(model, model.expert_ffn * model.shared_experts, false, matrices);
  return matrices;
}

std::vector<ModelTensor> counted_tensors_of(const ModelShape& model, int tp, int ep) {
  std::vector<ModelTensor> tensors;
  const auto vocab = static_cast<std::uint64_t>(model.vocab), hidden = static_cast<std::uint64_t>(model.hidden);
  const std::uint64_t cut_vocab = (vocab + static_cast<std::uint64_t>(tp) - 1) / static_cast<std::uint64_t>(tp);
  const std::uint64_t norm = hidden * (model.biases ? 2 : 1);
  tensors.push_back({"embedding", cut_vocab * hidden, -1});
  if (model.positions > 0) tensors.push_back({"positions", static_cast<std::uint64_t>(model.positions) * hidden, -1});
  for (int layer = 0; layer < model.layers; ++layer) {
    const std::string prefix = "layer " + std::to_string(layer) + " ";
    tensors.push_back({prefix + "attention norm", norm, layer});
    for (const ModelMatrix& matrix : matrices_of(model, layer)) {
      if (matrix.name == "router" || (!model.has_experts(layer) && matrix.name == (model.gated ? "gate" : "up")))
        tensors.push_back({prefix + "norm", norm, layer});
      tensors.push_back({prefix + std::string(matrix.name),
                         elements_of(matrix, model.biases && matrix.name != "router", tp), layer, matrix.of_experts,
                         matrix.of_experts ? model.experts / ep : 1});
    }
  }
  tensors.push_back({"last norm", norm, model.layers});
  if (!model.tied) tensors.push_back({"logits", cut_vocab * hidden, model.layers});
  return tensors;
}

std::vector<ModelTensor> tensors_of(const ModelShape& model, int tp, int ep) {
  std::vector<ModelTensor> tensors;
  for (const ModelTensor& counted : counted_tensors_of(model, tp, ep)) {
    ModelTensor tensor = counted;
    tensor.copies = 1;
    for (int copy = 0; copy < counted.copies; ++copy) {
      if (counted.copies > 1) tensor.name = counted.name + " " + std::to_string(copy);
      tensors.push_back(tensor);
    }
  }
  return tensors;
}

ParameterCounts parameters_of(const ModelShape& model) {
  ParameterCounts counts;
  for (const ModelTensor& tensor : counted_tensors_of(model)) {
    const double elements = tensor.all_elements();
    counts.all += elements;
    counts.active += tensor.of_experts ? elements * model.top_k / model.experts : elements;
  }
  return counts;
}

ForwardFlops forward_flops(const ModelShape& model, double sequence) {
  ForwardFlops flops;
  for (int layer = 0; layer < model.layers; ++layer) {
    for (const ModelMatrix& matrix : matrices_of(model, layer))
      flops.matrices += 2 * sequence * matrix.in * matrix.out * (matrix.of_experts ? model.top_k : 1);
  }
  flops.attention = 2 * sequence * sequence * model.layers * (model.query_width() + model.value_width());
  flops.logits = 2 * sequence * model.hidden * model.vocab;
  return flops;
}

void require_possible(const ModelShape& model) {
  const struct {
    const char* name;
    int value;
  } positive[] = {{"layers", model.layers},     {"hidden", model.hidden},
                  {"heads", model.heads},       {"vocab", model.vocab},
                  {"kv-heads", model.kv_heads}, {"head-size", model.head_size},
                  {"top-k", model.top_k},       {"expert-every", model.expert_every}};
  for (const auto& [name, value] : positive)
    if (value < 1)
      refuse_model(formatted("model %s: --%s is %d; give a number from 1", model.name.c_str(), name, value));
  require_possible_layers(model);
  require_possible_widths(model);
  if (model.ffn < 1 && (model.experts == 0 || model.dense_layers > 0 || model.expert_every > 1))
    refuse_model("model " + model.name + ": --ffn is missing; 4 times --hidden is usual");
  if (model.heads % model.kv_heads != 0)
    refuse_model(
        formatted("model %s: %d heads do not share %d heads of keys and values evenly; --kv-heads must divide "
                  "--heads",
                  model.name.c_str(), model.heads, model.kv_heads));
  if (model.experts > 0 && model.top_k > model.experts)
    refuse_model(formatted("model %s: a token cannot go to %d of %d experts; --top-k is %d at most", model.name.c_str(),
                           model.top_k, model.experts, model.experts));
  if (model.experts > 0 && model.expert_ffn < 1)
    refuse_model("model " + model.name + ": --expert-ffn is missing; --ffn is taken where it is given");
  if (!(model.capacity_factor > 0) || !(model.imbalance >= 1))
    refuse_model("model " + model.name + ": --capacity-factor is above 0, --imbalance (most over mean) from 1");
}

void require_possible_layers(const ModelShape& model) {
  if (model.layers > kMostLayers)
    refuse_model(formatted("model %s: %d layers; up to %d are planned", model.name.c_str(), model.layers, kMostLayers));
}

int usual_heads(int hidden) {
  constexpr int kHead = 128;
  int heads = std::max(1, hidden / kHead);
  while (hidden % heads != 0) --heads;
  return heads;
}

const ModelShape& find_model(const std::string& name) {
  std::vector<std::string_view> names;
  for (const ModelPreset& preset : model_presets()) {
    if (preset.shape.name == name) return preset.shape;
    names.push_back(preset.shape.name);
  }
  refuse_model(none_called("model", name, names) + "; or name a file, or give --layers, --hidden, ...");
}

}  // namespace tutti::plan
