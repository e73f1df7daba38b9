// Models out of files: a Hugging Face config.json, or keys as the options are named.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/nearest_names.h"
#include "base/place_in_text.h"
#include "plan/json_places.h"
#include "plan/model.h"
#include "tutti/error.h"

namespace tutti::plan {
namespace {

using nlohmann::json;

constexpr int kMostNumber = 1 << 30;

// What a model_type of Hugging Face says by itself: its configuration files leave it out, or may.
struct HuggingFaceKind {
  std::string_view type;
  bool gated = true;    // three matrices in its MLP
  bool biases = false;  // behind products
  bool tied = false;    // where tie_word_embeddings is left out
  bool learned_positions = false;
};
constexpr HuggingFaceKind kKinds[] = {
    {"llama"},
    {"mistral"},
    {"mixtral"},
    {"qwen2"},
    {"qwen2_moe"},
    {"qwen3"},
    {"qwen3_moe"},
    {"deepseek_v2"},
    {"deepseek_v3"},
    {"kimi_k2"},
    {"phi3"},
    {"olmo"},
    {"olmo2"},
    {"olmoe"},
    {"granite"},
    {"stablelm"},
    {"baichuan"},
    {"internlm2"},
    {"gemma", true, false, true},
    {"gemma2", true, false, true},
    {"gemma3_text", true, false, true},
    {"cohere", true, false, true},
    {"gpt2", false, true, true, true},
    {"gpt_bigcode", false, true, true, true},
    {"gpt_neo", false, true, true, true},
    {"gpt_neox", false, true, false},
    {"gptj", false, true, false},
    {"opt", false, true, true, true},
    {"bloom", false, true, true},
    {"falcon", false, false, false},
    {"phi", false, true, false},
    {"starcoder2", false, true, true},
    {"mpt", false, false, true},
};

class ModelReader {
 public:
  ModelReader(std::string_view text, std::string file, std::optional<bool> gated)
      : text_(text), file_(std::move(file)), gated_(gated) {
    try {
      json_ = json::parse(text);
    } catch (const json::parse_error& error) {
      fail(":" + place_in_text(text, error.byte == 0 ? 0 : error.byte - 1) + ": this is no JSON from here on");
    } catch (const json::exception&) {
      fail(at(place_of_overflow(text)) + "this number is larger than any that there is");
    }
    if (!json_.is_object()) fail(": a model is an object: { \"layers\": 32, \"hidden\": 4096, ... }");
  }

  ModelShape read() {
    const bool theirs = json_.contains("model_type") || json_.contains("hidden_size") || json_.contains("n_embd") ||
                        json_.contains("d_model");
    ModelShape shape = theirs ? read_hugging_face() : read_own();
    try {
      require_possible(shape);
    } catch (const Error& error) {
      fail(std::string(": ") + error.what());
    }
    return shape;
  }

 private:
  // Of the first of these keys that is there; `otherwise` where none is.
  int number(std::initializer_list<const char*> keys, int otherwise) {
    for (const char* key : keys) {
      const auto found = json_.find(key);
      if (found == json_.end() || found->is_null()) continue;
      if (!found->is_number_integer() || found->get<std::int64_t>() < 0 || found->get<std::int64_t>() > kMostNumber)
        fail_at(key, "is " + found->dump() + "; a whole number belongs there");
      return found->get<int>();
    }
    return otherwise;
  }
  int needed(std::initializer_list<const char*> keys) {
    const int found = number(keys, -1);
    if (found < 0) fail(std::string(": \"") + *keys.begin() + "\" is missing");
    return found;
  }
  int width(std::initializer_list<const char*> keys) {
    const int found = needed(keys);
    if (found >= 1 && found <= kMostHidden) return found;
    const auto said = [&](const char* key) { return json_.contains(key) && !json_[key].is_null(); };
    fail_at(*std::ranges::find_if(keys, said),
            "is " + std::to_string(found) + "; a width from 1 to " + std::to_string(kMostHidden) + " belongs there");
  }
  // Where it is left out heads share the width.
  int head_size(const char* key, const ModelShape& shape) {
    if (shape.heads < 1) return 0;  // which is refused with the rest of the shape
    const int shared = shape.hidden / shape.heads, said = number({key}, -1);
    if (said >= 0 || shape.hidden % shape.heads == 0) return said >= 0 ? said : shared;
    fail(": " + std::to_string(shape.heads) + " heads do not share a width of " + std::to_string(shape.hidden) +
         " evenly; give heads that divide it, or \"" + key + "\"");
  }
  double fraction(const char* key, double otherwise) {
    const auto found = json_.find(key);
    if (found == json_.end() || found->is_null()) return otherwise;
    if (!found->is_number()) fail_at(key, "is " + found->dump() + "; a number belongs there");
    return found->get<double>();
  }
  bool flag(const char* key, bool otherwise) {
    const auto found = json_.find(key);
    if (found == json_.end() || found->is_null()) return otherwise;
    if (!found->is_boolean()) fail_at(key, "is " + found->dump() + "; true or false belongs there");
    return found->get<bool>();
  }
  std::string word(const char* key, const std::string& otherwise) {
    const auto found = json_.find(key);
    return found != json_.end() && found->is_string() ? found->get<std::string>() : otherwise;
  }

  // Of a type that nobody knows the caller must say how its MLP is made; the rest has the usual keys.
  HuggingFaceKind kind_of(const std::string& type) const {
    const auto found = std::ranges::find(kKinds, std::string_view(type), &HuggingFaceKind::type);
    if (found != std::end(kKinds)) return *found;
    if (gated_) return {type, *gated_};
    std::vector<std::string_view> names;
    for (const HuggingFaceKind& kind : kKinds) names.push_back(kind.type);
    fail(at(place_of_key(text_, "model_type")) + none_called("model_type", type, names) +
         "; give --gated 0 or 1 for its MLP, and its sizes are read as if it had the usual matrices, or give them all "
         "by "
         "--layers, --hidden, ... without --model");
  }

  ModelShape read_hugging_face() {
    ModelShape shape;
    const std::string type = word("model_type", "");
    const HuggingFaceKind kind = kind_of(type);
    shape.name = word("_name_or_path", "");
    if (shape.name.empty()) shape.name = type.empty() ? file_ : type;
    shape.layers = needed({"num_hidden_layers", "n_layer", "num_layers", "n_layers"});
    shape.hidden = width({"hidden_size", "n_embd", "n_embed", "d_model"});
    shape.heads = needed({"num_attention_heads", "n_head", "num_heads", "n_heads"});
    shape.vocab = needed({"vocab_size"});
    if (const int width = number({"word_embed_proj_dim"}, shape.hidden); width != shape.hidden)
      fail_at("word_embed_proj_dim", "is " + std::to_string(width) + "; embeddings as wide as layers are planned, " +
                                         std::to_string(shape.hidden));
    read_heads(type, shape);
    const std::int64_t expanded = static_cast<std::int64_t>(number({"expansion_ratio"}, 4)) * shape.hidden;
    if (expanded > kMostNumber)
      fail_at("expansion_ratio", "makes a width of " + std::to_string(expanded) + "; up to 2^30 are planned");
    shape.ffn = number({"intermediate_size", "ffn_dim", "ffn_hidden_size", "n_inner"}, static_cast<int>(expanded));
    shape.gated = kind.gated;
    shape.biases = kind.biases;
    shape.tied = flag("tie_word_embeddings", kind.tied);
    shape.positions = kind.learned_positions ? number({"n_positions", "max_position_embeddings"}, 0) : 0;
    for (const char* key : {"resid_pdrop", "residual_dropout", "hidden_dropout", "dropout", "resid_dropout"})
      shape.dropout = shape.dropout || fraction(key, 0) > 0;
    read_experts(shape);
    return shape;
  }

  void read_heads(const std::string& type, ModelShape& shape) {
    shape.kv_heads = number({"num_key_value_heads", "num_kv_heads", "n_head_kv"}, shape.heads);
    // The first ones of this type share one head of keys and values, whatever the key says.
    const bool shares = type == "falcon" && !flag("new_decoder_architecture", false);
    if (flag("multi_query", false) && (shares || type == "gpt_bigcode")) shape.kv_heads = 1;
    shape.kv_rank = number({"kv_lora_rank"}, 0);
    shape.query_rank = number({"q_lora_rank"}, 0);
    if (shape.kv_rank > 0) {
      shape.head_size = needed({"qk_nope_head_dim"});
      shape.rope_size = needed({"qk_rope_head_dim"});
      shape.value_size = needed({"v_head_dim"});
    } else {
      shape.head_size = head_size("head_dim", shape);
    }
  }

  void read_experts(ModelShape& shape) {
    shape.experts = number({"num_local_experts", "n_routed_experts", "num_experts"}, 0);
    shape.top_k = number({"num_experts_per_tok"}, 1);
    shape.expert_ffn = number({"moe_intermediate_size"}, shape.ffn);
    shape.dense_layers = number({"first_k_dense_replace"}, 0);
    shape.expert_every = std::max(1, number({"decoder_sparse_step", "moe_layer_freq"}, 1));
    shape.shared_experts = number({"n_shared_experts"}, 0);
    const int shared = number({"shared_expert_intermediate_size"}, 0);
    if (shared == 0) return;
    if (shape.expert_ffn == 0 || shared % shape.expert_ffn != 0)
      fail_at("shared_expert_intermediate_size", "is " + std::to_string(shared) +
                                                     "; as many times the width of an expert, " +
                                                     std::to_string(shape.expert_ffn) + ", are planned");
    shape.shared_experts = shared / shape.expert_ffn;
  }

  ModelShape read_own() {
    static const std::vector<std::string_view> kKeys{
        "name",       "layers",         "hidden",       "heads",        "kv_heads",        "head_size", "ffn",
        "vocab",      "gated",          "biases",       "tied",         "positions",       "experts",   "top_k",
        "expert_ffn", "shared_experts", "dense_layers", "expert_every", "capacity_factor", "imbalance", "dropout"};
    for (const auto& [key, value] : json_.items())
      if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end())
        fail(at(place_of_key(text_, key)) + none_called("key", key, kKeys));
    ModelShape shape;
    shape.name = word("name", file_);
    shape.layers = needed({"layers"});
    shape.hidden = width({"hidden"});
    shape.heads = number({"heads"}, usual_heads(shape.hidden));
    shape.kv_heads = number({"kv_heads"}, shape.heads);
    shape.head_size = head_size("head_size", shape);
    shape.ffn = number({"ffn"}, 4 * shape.hidden);
    shape.vocab = needed({"vocab"});
    shape.gated = flag("gated", false);
    shape.dropout = flag("dropout", !shape.gated);
    shape.biases = flag("biases", false);
    shape.tied = flag("tied", false);
    shape.positions = number({"positions"}, 0);
    shape.experts = number({"experts"}, 0);
    shape.top_k = number({"top_k"}, 1);
    shape.expert_ffn = number({"expert_ffn"}, shape.ffn);
    shape.shared_experts = number({"shared_experts"}, 0);
    shape.dense_layers = number({"dense_layers"}, 0);
    shape.expert_every = number({"expert_every"}, 1);
    shape.imbalance = fraction("imbalance", 1);
    shape.capacity_factor = fraction("capacity_factor", shape.imbalance);
    for (const char* key : {"top_k", "imbalance", "capacity_factor"})
      if (shape.experts == 0 && fraction(key, 1) != 1)
        fail_at(key, "is about experts, and this model has none; leave it out, or give \"experts\"");
    return shape;
  }

  // ":3:7: "; ": " where the place is not known.
  std::string at(std::optional<std::size_t> place) const {
    return (place ? ":" + place_in_text(text_, *place) : std::string()) + ": ";
  }
  [[noreturn]] void fail_at(const std::string& key, const std::string& why) const {
    fail(at(place_of_key(text_, key)) + "\"" + key + "\" " + why);
  }
  [[noreturn]] void fail(const std::string& why) const { throw Error(ErrorCode::invalid_argument, file_ + why); }

  std::string_view text_;
  std::string file_;
  std::optional<bool> gated_;
  json json_;
};

}  // namespace

ModelShape model_from_json(std::string_view text, const std::string& file, std::optional<bool> gated) {
  return ModelReader(text, file, gated).read();
}

}  // namespace tutti::plan
