// Models by name, with where their numbers come from.
#include "plan/model.h"

namespace tutti::plan {
namespace {

constexpr std::string_view kGpt2 = "Radford et al. 2019, Language Models are Unsupervised Multitask Learners";
constexpr std::string_view kGpt3 = "Brown et al. 2020, Language Models are Few-Shot Learners, table 2.1";
constexpr std::string_view kLlama2 = "Touvron et al. 2023, Llama 2, and its configuration files";
constexpr std::string_view kLlama3 = "Grattafiori et al. 2024, The Llama 3 Herd of Models, table 3";
constexpr std::string_view kMixtral = "Jiang et al. 2024, Mixtral of Experts, table 1";
constexpr std::string_view kDeepSeek = "DeepSeek-AI 2024, DeepSeek-V3 Technical Report, section 4.2";
constexpr std::string_view kSwitch = "Fedus et al. 2021, Switch Transformers, table 9, without cross-attention";

ModelShape gpt(const char* name, int layers, int hidden, int heads, int vocab, int positions) {
  ModelShape shape;
  shape.name = name;
  shape.layers = layers;
  shape.hidden = hidden;
  shape.heads = shape.kv_heads = heads;
  shape.head_size = hidden / heads;
  shape.ffn = 4 * hidden;
  shape.vocab = vocab;
  shape.biases = shape.dropout = shape.tied = true;
  shape.positions = positions;
  return shape;
}

ModelShape llama(const char* name, int layers, int hidden, int heads, int kv_heads, int ffn, int vocab) {
  ModelShape shape;
  shape.name = name;
  shape.layers = layers;
  shape.hidden = hidden;
  shape.heads = heads;
  shape.kv_heads = kv_heads;
  shape.head_size = hidden / heads;
  shape.ffn = ffn;
  shape.vocab = vocab;
  shape.gated = true;
  return shape;
}

ModelShape mixtral(const char* name, int layers, int hidden, int heads, int ffn, int vocab) {
  ModelShape shape = llama(name, layers, hidden, heads, 8, 0, vocab);
  shape.experts = 8;
  shape.top_k = 2;
  shape.expert_ffn = ffn;
  return shape;
}

ModelShape deepseek_v3() {
  ModelShape shape = llama("deepseek-v3", 61, 7168, 128, 128, 18432, 129280);
  shape.head_size = shape.value_size = 128;
  shape.query_rank = 1536;
  shape.kv_rank = 512;
  shape.rope_size = 64;
  shape.experts = 256;
  shape.top_k = 8;
  shape.shared_experts = 1;
  shape.expert_ffn = 2048;
  shape.dense_layers = 3;
  return shape;
}

// Encoder and decoder layers are counted as layers of one kind.
ModelShape switch_c() {
  ModelShape shape = gpt("switch-c", 30, 2080, 32, 32128, 0);
  shape.biases = false;
  shape.head_size = 64;
  shape.ffn = 0;
  shape.expert_ffn = 6144;
  shape.experts = 2048;
  shape.capacity_factor = 1.25;
  return shape;
}

}  // namespace

const std::vector<ModelPreset>& model_presets() {
  static const std::vector<ModelPreset> kModels{
      {gpt("gpt2", 12, 768, 12, 50257, 1024), kGpt2},
      {gpt("gpt2-medium", 24, 1024, 16, 50257, 1024), kGpt2},
      {gpt("gpt2-large", 36, 1280, 20, 50257, 1024), kGpt2},
      {gpt("gpt2-xl", 48, 1600, 25, 50257, 1024), kGpt2},
      {gpt("gpt3-125m", 12, 768, 12, 50257, 2048), kGpt3},
      {gpt("gpt3-350m", 24, 1024, 16, 50257, 2048), kGpt3},
      {gpt("gpt3-760m", 24, 1536, 16, 50257, 2048), kGpt3},
      {gpt("gpt3-1.3b", 24, 2048, 16, 50257, 2048), kGpt3},
      {gpt("gpt3-2.7b", 32, 2560, 32, 50257, 2048), kGpt3},
      {gpt("gpt3-6.7b", 32, 4096, 32, 50257, 2048), kGpt3},
      {gpt("gpt3-13b", 40, 5120, 40, 50257, 2048), kGpt3},
      {gpt("gpt3-175b", 96, 12288, 96, 50257, 2048), kGpt3},
      {llama("llama2-7b", 32, 4096, 32, 32, 11008, 32000), kLlama2},
      {llama("llama2-13b", 40, 5120, 40, 40, 13824, 32000), kLlama2},
      {llama("llama2-70b", 80, 8192, 64, 8, 28672, 32000), kLlama2},
      {llama("llama3-8b", 32, 4096, 32, 8, 14336, 128256), kLlama3},
      {llama("llama3-70b", 80, 8192, 64, 8, 28672, 128256), kLlama3},
      {llama("llama3-405b", 126, 16384, 128, 8, 53248, 128256), kLlama3},
      {mixtral("mixtral-8x7b", 32, 4096, 32, 14336, 32000), kMixtral},
      {mixtral("mixtral-8x22b", 56, 6144, 48, 16384, 32768), kMixtral},
      {deepseek_v3(), kDeepSeek},
      {switch_c(), kSwitch},
  };
  return kModels;
}

}  // namespace tutti::plan
