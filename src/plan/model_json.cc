// Models out of files: a Hugging Face config.json, or keys as the options are named.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/nearest_names.h"
#include "base/place_in_text.h"
#include "plan/model.h"
#include "tutti/error.h"

namespace tutti::plan {
namespace {

using nlohmann::json;

class ModelReader {
 public:
  ModelReader(std::string_view text, std::string file) : file_(std::move(file)) {
    try {
      json_ = json::parse(text);
    } catch (const json::parse_error& error) {
      fail(":" + place_in_text(text, error.byte == 0 ? 0 : error.byte - 1) + ": this is no JSON from here on");
    }
    if (!json_.is_object()) fail(": a model is an object: { \"layers\": 32, \"hidden\": 4096, ... }");
  }

  ModelShape read() {
    const bool theirs = json_.contains("model_type") || json_.contains("hidden_size") || json_.contains("n_embd");
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
      if (!found->is_number_integer() || found->get<std::int64_t>() < 0 || found->get<std::int64_t>() > (1 << 30))
        fail(std::string(": \"") + key + "\" is " + found->dump() + "; a whole number belongs there");
      return found->get<int>();
    }
    return otherwise;
  }
  int needed(std::initializer_list<const char*> keys) {
    const int found = number(keys, -1);
    if (found < 0) fail(std::string(": \"") + *keys.begin() + "\" is missing");
    return found;
  }
  double fraction(const char* key, double otherwise) {
    const auto found = json_.find(key);
    if (found == json_.end()) return otherwise;
    if (!found->is_number()) fail(std::string(": \"") + key + "\" is " + found->dump() + "; a number belongs there");
    return found->get<double>();
  }
  bool flag(const char* key, bool otherwise) {
    const auto found = json_.find(key);
    if (found == json_.end() || found->is_null()) return otherwise;
    if (!found->is_boolean())
      fail(std::string(": \"") + key + "\" is " + found->dump() + "; true or false belongs there");
    return found->get<bool>();
  }
  std::string word(const char* key, const std::string& otherwise) {
    const auto found = json_.find(key);
    return found != json_.end() && found->is_string() ? found->get<std::string>() : otherwise;
  }

  ModelShape read_hugging_face() {
    ModelShape shape;
    const std::string type = word("model_type", "");
    shape.name = word("_name_or_path", "");
    if (shape.name.empty()) shape.name = type.empty() ? file_ : type;
    shape.layers = needed({"num_hidden_layers", "n_layer"});
    shape.hidden = needed({"hidden_size", "n_embd"});
    shape.heads = needed({"num_attention_heads", "n_head"});
    shape.vocab = needed({"vocab_size"});
    shape.kv_heads = number({"num_key_value_heads"}, shape.heads);
    shape.ffn = number({"intermediate_size", "n_inner"}, 4 * shape.hidden);
    const bool old_gpt = json_.contains("n_embd") || type.starts_with("gpt");
    shape.biases = old_gpt;
    shape.gated = !old_gpt && word("hidden_act", "silu") != "gelu" && word("hidden_act", "silu") != "relu";
    shape.tied = flag("tie_word_embeddings", old_gpt);
    shape.positions = old_gpt ? number({"n_positions"}, 0) : 0;
    shape.experts = number({"num_local_experts", "n_routed_experts", "num_experts"}, 0);
    shape.top_k = number({"num_experts_per_tok"}, 1);
    shape.shared_experts = number({"n_shared_experts"}, 0);
    shape.expert_ffn = number({"moe_intermediate_size"}, shape.ffn);
    shape.dense_layers = number({"first_k_dense_replace"}, 0);
    shape.kv_rank = number({"kv_lora_rank"}, 0);
    shape.query_rank = number({"q_lora_rank"}, 0);
    const int usual = shape.heads > 0 ? shape.hidden / shape.heads : 0;
    if (shape.kv_rank > 0) {
      shape.head_size = needed({"qk_nope_head_dim"});
      shape.rope_size = needed({"qk_rope_head_dim"});
      shape.value_size = needed({"v_head_dim"});
    } else {
      shape.head_size = number({"head_dim"}, usual);
    }
    return shape;
  }

  ModelShape read_own() {
    static const std::vector<std::string_view> kKeys{
        "name",       "layers",         "hidden",       "heads",        "kv_heads",        "head_size", "ffn",
        "vocab",      "gated",          "biases",       "tied",         "positions",       "experts",   "top_k",
        "expert_ffn", "shared_experts", "dense_layers", "expert_every", "capacity_factor", "imbalance"};
    for (const auto& [key, value] : json_.items())
      if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) fail(": " + none_called("key", key, kKeys));
    ModelShape shape;
    shape.name = word("name", file_);
    shape.layers = needed({"layers"});
    shape.hidden = needed({"hidden"});
    shape.heads = number({"heads"}, std::max(1, shape.hidden / 128));
    shape.kv_heads = number({"kv_heads"}, shape.heads);
    shape.head_size = number({"head_size"}, shape.heads > 0 ? shape.hidden / shape.heads : 0);
    shape.ffn = number({"ffn"}, 4 * shape.hidden);
    shape.vocab = needed({"vocab"});
    shape.gated = flag("gated", false);
    shape.biases = flag("biases", false);
    shape.tied = flag("tied", false);
    shape.positions = number({"positions"}, 0);
    shape.experts = number({"experts"}, 0);
    shape.top_k = number({"top_k"}, 1);
    shape.expert_ffn = number({"expert_ffn"}, shape.ffn);
    shape.shared_experts = number({"shared_experts"}, 0);
    shape.dense_layers = number({"dense_layers"}, 0);
    shape.expert_every = number({"expert_every"}, 1);
    shape.capacity_factor = fraction("capacity_factor", 1);
    shape.imbalance = fraction("imbalance", 1);
    return shape;
  }

  [[noreturn]] void fail(const std::string& why) const { throw Error(ErrorCode::invalid_argument, file_ + why); }

  std::string file_;
  json json_;
};

}  // namespace

ModelShape model_from_json(std::string_view text, const std::string& file) { return ModelReader(text, file).read(); }

}  // namespace tutti::plan
