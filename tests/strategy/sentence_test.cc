// The sentence of a step and the table of ZeRO, against figures worked out by hand.
#include "strategy/sentence.h"

#include <gtest/gtest.h>

#include "strategy/tensor_sentence.h"

namespace tutti::strategy {
namespace {

using train::Phrase;
using train::Spoken;

// Two buckets, of 3000 and of 5000 elements, for two ranks.
struct Model {
  std::vector<TensorSize> sizes;
  BucketLayout layout;
};
Model model(DType type) {
  Model made{{{5000, type}, {3000, type}}, {}};
  made.layout = lay_out(made.sizes, reverse_order(2), {.first_bytes = 1, .cap_bytes = 1, .ranks = 2});
  return made;
}
StepShape shape(int stage) { return {.stage = stage, .ranks = 2, .state_arrays = 2, .parameters = 2, .blocks = 8}; }

TEST(Sentence, OfDataParallelIsOneAllReducePerBucket) {
  const train::Sentence said = sentence_of(model(DType::float32).layout, shape(0));
  ASSERT_EQ(said.size(), 2U);
  EXPECT_EQ(said[0], (Phrase{Verb::all_reduce, "gradients of bucket 0, 1 parameter", 12000, 1, 2}));
  EXPECT_EQ(spoken(said, Verb::all_reduce), (Spoken{2, 32000}));
  EXPECT_EQ(spoken(said, Verb::all_gather), Spoken());
}

TEST(Sentence, OfZeroReducesAndGathersWholeShards) {
  for (const int stage : {1, 2}) {
    const train::Sentence said = sentence_of(model(DType::bfloat16).layout, shape(stage));
    EXPECT_EQ(spoken(said, Verb::reduce_scatter), (Spoken{2, 2 * (4096 + 6144)}));
    EXPECT_EQ(spoken(said, Verb::all_gather), (Spoken{2, 2 * (4096 + 6144)}));
    EXPECT_EQ(spoken(said, Verb::all_reduce), Spoken());
  }
}

TEST(Sentence, OfStageThreeGathersUnitsAsOftenAsTheyAreUsed) {
  StepShape asked = shape(3);
  asked.gathers = {1, 2};
  const train::Sentence said = sentence_of(model(DType::float32).layout, asked);
  EXPECT_EQ(spoken(said, Verb::reduce_scatter), (Spoken{2, 4 * (4096 + 6144)}));
  EXPECT_EQ(spoken(said, Verb::all_gather), (Spoken{3, 4 * (4096 + 2 * 6144)}));
}

TEST(Sentence, HasWhatOptionsAskForBesides) {
  StepShape asked = shape(0);
  asked.weighted = asked.may_skip = asked.measured = true;
  EXPECT_EQ(spoken(sentence_of(model(DType::float32).layout, asked), Verb::all_reduce), (Spoken{4, 32000 + 8 + 2}));
  asked.model_ranks = 3;
  EXPECT_EQ(spoken(sentence_of(model(DType::float32).layout, asked), Verb::all_gather), (Spoken{1, 3 * 24}));
  asked.model_ranks = 1;
  asked.noise = true;
  asked.stage = 1;
  EXPECT_EQ(spoken(sentence_of(model(DType::float32).layout, asked), Verb::all_reduce), (Spoken{4, 8 + 2 + 8 + 64}));
}

// b s h of an activation, for l layers: 4 all_reduces a layer, and the embedding's and the output layer's.
TEST(Sentence, OfTensorParallelIsTwoAllReducesAPairOfProducts) {
  constexpr std::uint64_t kTokens = 96, kWidth = 40, kLayers = 3, kActivation = 4 * kTokens * kWidth;
  train::TensorParallelShape cut{.ranks = 4, .layers = kLayers, .tokens = kTokens, .width = kWidth, .places = 32};
  EXPECT_EQ(spoken(sentence_of(cut), Verb::all_reduce),
            (Spoken{4 * kLayers + 2 + 2, (4 * kLayers + 2) * kActivation + 3 * 4 * kTokens}));
  EXPECT_EQ(spoken(sentence_of(cut), Verb::all_gather), Spoken());
  cut.type = DType::bfloat16;
  EXPECT_EQ(spoken(sentence_of(cut), Verb::all_reduce).bytes, ((4 * kLayers + 2) * kActivation + 3 * 4 * kTokens) / 2);
  cut.ranks = 1;
  EXPECT_TRUE(sentence_of(cut).empty());
}

// An all_reduce is a reduce_scatter and an all_gather; inputs come a second time in backward: 10 in the place of 8.
TEST(Sentence, OfSequenceParallelHasTheSameBytesAndInputsTwice) {
  constexpr std::uint64_t kTokens = 96, kWidth = 40, kLayers = 3, kActivation = 4 * kTokens * kWidth;
  constexpr std::uint64_t kPairs = 2 * kLayers + 1;
  const train::Sentence said =
      sentence_of({.ranks = 4, .layers = kLayers, .tokens = kTokens, .width = kWidth, .places = 32, .sequence = true});
  EXPECT_EQ(spoken(said, Verb::all_gather), (Spoken{3 * kPairs, 3 * kPairs * kActivation}));
  EXPECT_EQ(spoken(said, Verb::reduce_scatter), (Spoken{2 * kPairs, 2 * kPairs * kActivation}));
  constexpr std::uint64_t kNorms = 2 * kPairs, kBiases = 2 * kLayers, kPlaces = 32;
  EXPECT_EQ(spoken(said, Verb::all_reduce),
            (Spoken{kPairs + 2 * kLayers + 1 + 2, 4 * kWidth * (kNorms + kBiases + kPlaces) + 3 * 4 * kTokens}));
}

TEST(Sentence, StateBytesAreTheTableOfZero) {
  constexpr std::uint64_t kPsi = 4096 + 6144;  // with padding, which is stated
  const auto total = [&](DType type, int stage) {
    const Model made = model(type);
    const train::StateBytes bytes = state_bytes_of(made.layout, shape(stage), made.sizes);
    EXPECT_EQ(bytes.elements, 8000U);
    EXPECT_EQ(bytes.elements + bytes.padding, kPsi);
    return bytes.total();
  };
  EXPECT_EQ(total(DType::bfloat16, 0), 16 * kPsi);
  EXPECT_EQ(total(DType::bfloat16, 1), 4 * kPsi + 12 * kPsi / 2);
  EXPECT_EQ(total(DType::bfloat16, 2), 2 * kPsi + 14 * kPsi / 2);
  EXPECT_EQ(total(DType::bfloat16, 3), 16 * kPsi / 2);
  EXPECT_EQ(total(DType::float32, 0), 16 * kPsi);
  EXPECT_EQ(total(DType::float32, 1), 8 * kPsi + 8 * kPsi / 2);
  EXPECT_EQ(total(DType::float32, 2), 4 * kPsi + 12 * kPsi / 2);
  EXPECT_EQ(total(DType::float32, 3), 16 * kPsi / 2);
}

}  // namespace
}  // namespace tutti::strategy
