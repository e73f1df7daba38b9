// Models: parameters and operations by real matrices, files, names, refusals.
#include "plan/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tutti/error.h"

namespace tutti::plan {
namespace {

using testing::HasSubstr;

std::string why_not(const std::string& text) {
  try {
    model_from_json(text, "m.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Model, HasTheParametersThatItsAuthorsState) {
  const struct {
    const char* name;
    double all, active, within;
  } stated[] = {{"gpt2", 124.4e6, 124.4e6, 0.002},       {"gpt3-175b", 175e9, 175e9, 0.003},
                {"llama2-7b", 6.738e9, 6.738e9, 0.001},  {"llama3-8b", 8.03e9, 8.03e9, 0.001},
                {"llama3-70b", 70.55e9, 70.55e9, 0.001}, {"llama3-405b", 405.9e9, 405.9e9, 0.002},
                {"mixtral-8x7b", 46.7e9, 12.9e9, 0.003}, {"deepseek-v3", 671e9, 37e9, 0.02},
                {"switch-c", 1571e9, 1e9, 0.01}};
  for (const auto& [name, all, active, within] : stated) {
    const ParameterCounts counts = parameters_of(find_model(name));
    EXPECT_NEAR(counts.all, all, within * all) << name;
    if (std::string_view(name) != "switch-c") {
      EXPECT_NEAR(counts.active, active, 0.03 * active) << name;
    }
  }
}

TEST(Model, ComputesWhatTheFormulaSays) {
  const ModelShape& model = find_model("gpt3-175b");
  const double h = model.hidden, layers = model.layers, s = 2048, words = model.vocab;
  EXPECT_NEAR(3 * forward_flops(model, s).sum(),
              72 * s * layers * h * h * (1 + s / (6 * h) + words / (12 * layers * h)), 1e-6 * 72 * s * layers * h * h);
}

TEST(Model, IsCutByTensorAndExpertParallelism) {
  const ModelShape& model = find_model("mixtral-8x7b");
  double whole = 0, cut = 0;
  for (const ModelTensor& tensor : tensors_of(model)) whole += static_cast<double>(tensor.elements);
  for (const ModelTensor& tensor : tensors_of(model, 4, 8)) cut += static_cast<double>(tensor.elements);
  EXPECT_GT(cut, whole / 32);
  EXPECT_LT(cut, whole / 20);
}

TEST(Model, IsReadFromAConfigurationOfHuggingFace) {
  const ModelShape read = model_from_json(R"({"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
    "hidden_act": "silu", "tie_word_embeddings": false, "rope_theta": 5e5})",
                                          "config.json");
  ModelShape expected = find_model("llama3-8b");
  expected.name = "llama";
  expected.expert_ffn = read.expert_ffn;  // of no experts
  EXPECT_EQ(read, expected);
  const ModelShape own = model_from_json(R"({"layers": 4, "hidden": 256, "vocab": 1000})", "m.json");
  EXPECT_EQ(own.heads, 2);
  EXPECT_EQ(own.ffn, 1024);
}

// Configurations as they are published, but for what nothing is read of.
TEST(Model, OfHuggingFaceHasTheParametersThatItIsKnownFor) {
  const struct {
    const char* text;
    double all, active;
  } configs[] = {
      {R"({"model_type": "opt", "_name_or_path": "facebook/opt-6.7b", "activation_function": "relu", "dropout": 0.1,
           "ffn_dim": 16384, "hidden_size": 4096, "max_position_embeddings": 2048, "num_attention_heads": 32,
           "num_hidden_layers": 32, "vocab_size": 50272, "word_embed_proj_dim": 4096})",
       6.66e9, 6.66e9},
      {R"({"model_type": "phi", "hidden_act": "gelu_new", "hidden_size": 2560, "intermediate_size": 10240,
           "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32, "resid_pdrop": 0.1,
           "tie_word_embeddings": false, "vocab_size": 51200})",
       2.78e9, 2.78e9},
      {R"({"model_type": "bloom", "hidden_dropout": 0.0, "n_embed": 14336, "n_layer": 70, "num_attention_heads": 112,
           "vocab_size": 250880})",
       1.762e11, 1.762e11},
      {R"({"model_type": "bloom", "hidden_size": 14336, "n_layer": 70, "n_head": 112, "vocab_size": 250880})", 1.762e11,
       1.762e11},
      {R"({"model_type": "falcon", "bias": false, "hidden_size": 4544, "multi_query": true, "num_kv_heads": 71,
           "new_decoder_architecture": false, "num_attention_heads": 71, "num_hidden_layers": 32,
           "vocab_size": 65024})",
       7.2e9, 7.2e9},
      {R"({"model_type": "gemma", "head_dim": 256, "hidden_act": "gelu", "hidden_size": 3072,
           "intermediate_size": 24576, "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 16,
           "vocab_size": 256000})",
       8.54e9, 8.54e9},
      {R"({"model_type": "qwen2_moe", "decoder_sparse_step": 1, "hidden_act": "silu", "hidden_size": 2048,
           "intermediate_size": 5632, "moe_intermediate_size": 1408, "num_attention_heads": 16, "num_experts": 60,
           "num_experts_per_tok": 4, "num_hidden_layers": 24, "num_key_value_heads": 16,
           "shared_expert_intermediate_size": 5632, "tie_word_embeddings": false, "vocab_size": 151936})",
       1.43e10, 2.7e9},
      {R"({"model_type": "mixtral", "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336,
           "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8,
           "num_local_experts": 8, "tie_word_embeddings": false, "vocab_size": 32000})",
       4.67e10, 1.29e10},
      {R"({"model_type": "gpt_neox", "hidden_act": "gelu_fast", "hidden_size": 6144, "intermediate_size": 24576,
           "num_attention_heads": 64, "num_hidden_layers": 44, "tie_word_embeddings": false, "vocab_size": 50432})",
       2.056e10, 2.056e10}};
  for (const auto& [text, all, active] : configs) {
    const ModelShape model = model_from_json(text, "config.json");
    EXPECT_NEAR(parameters_of(model).all, all, 0.005 * all) << text;
    EXPECT_NEAR(parameters_of(model).active, active, 0.01 * active) << text;
  }
  EXPECT_EQ(model_from_json(configs[0].text, "config.json").dropout, true);
  EXPECT_EQ(model_from_json(configs[2].text, "config.json").dropout, false);
}

// Nobody guesses what a type that is not known is made of.
TEST(Model, OfATypeThatIsNotKnownIsRefused) {
  const std::string sizes =
      R"("hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100})";
  EXPECT_THAT(why_not(R"({"model_type": "lama", )" + sizes), HasSubstr("no model_type 'lama'; did you mean llama"));
  EXPECT_THAT(why_not("{" + sizes), HasSubstr("no model_type ''"));
  const ModelShape said = model_from_json(R"({"model_type": "novel", )" + sizes, "m.json", true);
  EXPECT_TRUE(said.gated);
  EXPECT_EQ(said.ffn, 256);
  EXPECT_THAT(why_not(R"({"model_type": "opt", "word_embed_proj_dim": 32, )" + sizes),
              HasSubstr("embeddings as wide as layers are planned"));
}

TEST(Model, ThatNoLayersOfExpertsFollowFromIsRefused) {
  const std::string text = R"({"layers": 2, "hidden": 64, "vocab": 100, "experts": 8, "expert_every": 0})";
  try {
    require_possible(model_from_json(text, "mine.json"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("--expert-every is 0; give a number from 1"));
  }
}

TEST(Model, ThatIsWrongIsToldWithItsPlace) {
  EXPECT_THAT(why_not("{\"layers\": 4,\n  \"hidden\" 256}"), HasSubstr("m.json:2:14: this is no JSON from here on"));
  EXPECT_THAT(why_not(R"({"hidden": 256, "vocab": 10})"), HasSubstr("m.json: \"layers\" is missing"));
  EXPECT_THAT(why_not(R"({"layer": 4})"), HasSubstr("no key 'layer'; did you mean layers or"));
  EXPECT_THAT(why_not("{\"layers\": 4,\n \"name\": \"hiden: {\", \"hiden\": 256}"),
              HasSubstr("m.json:2:22: no key 'hiden'; did you mean hidden"));
  EXPECT_THAT(why_not("{\"layers\": 4, \"hidden\":\n 1e400}"), HasSubstr("m.json:2:2: this number is larger than"));
  EXPECT_THAT(why_not("{\"layers\": 4,\n \"hidden\": 2.5}"), HasSubstr("m.json:2:2: \"hidden\" is 2.5; a whole"));
  EXPECT_THAT(why_not(R"({"layers": 4, "hidden": 1073741824, "vocab": 10})"), HasSubstr("a width from 1 to 16777216"));
  EXPECT_THAT(why_not(R"({"model_type": "llama", "num_hidden_layers": 4, "n_embd": 0})"),
              HasSubstr("m.json:1:49: \"n_embd\" is 0; a width from 1"));
  EXPECT_THAT(why_not(R"({"model_type": "mpt", "n_layers": 4, "d_model": 4096, "n_heads": 32, "vocab_size": 10,
                          "expansion_ratio": 1048576})"),
              HasSubstr("m.json:2:27: \"expansion_ratio\" makes a width of 4294967296"));
  EXPECT_THAT(why_not(R"({"layers": 4, "hidden": 1000, "vocab": 10, "heads": 7})"),
              HasSubstr("7 heads do not share a width of 1000 evenly"));
  EXPECT_THAT(why_not(R"({"layers": 4, "hidden": 1024, "vocab": 10, "top_k": 2})"),
              HasSubstr("\"top_k\" is about experts"));
  EXPECT_THAT(why_not(R"({"layers": 4, "hidden": 1024, "vocab": 10, "heads": 16777216, "head_size": 1073741824})"),
              HasSubstr("are wider than 2^30 together"));
  EXPECT_THAT(why_not(R"({"layers": "4", "hidden": 256, "vocab": 10})"), HasSubstr("a whole number belongs there"));
  EXPECT_THAT(why_not(R"({"layers": 4, "hidden": 256, "vocab": 10, "heads": 4, "kv_heads": 3})"),
              HasSubstr("--kv-heads must divide"));
  try {
    find_model("lama3-8b");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean llama3-8b"));
  }
}

}  // namespace
}  // namespace tutti::plan
