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

TEST(Model, ThatIsWrongIsToldWithItsPlace) {
  EXPECT_THAT(why_not("{\"layers\": 4,\n  \"hidden\" 256}"), HasSubstr("m.json:2:14: this is no JSON from here on"));
  EXPECT_THAT(why_not(R"({"hidden": 256, "vocab": 10})"), HasSubstr("m.json: \"layers\" is missing"));
  EXPECT_THAT(why_not(R"({"layer": 4})"), HasSubstr("no key 'layer'; did you mean layers or"));
  EXPECT_THAT(why_not(R"({"layers": "4", "hidden": 256, "vocab": 10})"), HasSubstr("a whole number belongs there"));
  EXPECT_THAT(why_not(R"({"layers": 4, "hidden": 256, "vocab": 10, "heads": 3, "kv_heads": 2})"),
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
