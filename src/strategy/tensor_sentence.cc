#include "strategy/tensor_sentence.h"

#include <cstdint>

namespace tutti::strategy {

train::Sentence sentence_of(const train::TensorParallelShape& shape) {
  train::Sentence sentence;
  if (shape.ranks == 1) return sentence;
  const std::uint64_t number = size_of(shape.type), activation = shape.tokens * shape.width * number;
  const auto layers = static_cast<std::uint64_t>(shape.layers);
  const std::uint64_t pairs = 2 * layers + 1;  // of attention and feed-forward; the embedding and the output layer
  const auto say = [&](Verb verb, const char* what, std::uint64_t bytes, std::uint64_t times) {
    sentence.push_back({verb, what, bytes, times, shape.ranks});
  };
  if (!shape.sequence) {
    say(Verb::all_reduce, "outputs of products cut by rows", activation, pairs);
    say(Verb::all_reduce, "gradients of inputs of products cut by columns", activation, pairs);
  } else {
    say(Verb::all_gather, "inputs of products cut by columns", activation, pairs);
    say(Verb::reduce_scatter, "outputs of products cut by rows", activation, pairs);
    say(Verb::all_gather, "gradients of outputs", activation, pairs);
    say(Verb::all_gather, "inputs once more, for gradients of weights", activation, pairs);
    say(Verb::reduce_scatter, "gradients of inputs", activation, pairs);
    // What all ranks hold and use for tokens of their own: factor and bias of norms, the last one's among them.
    say(Verb::all_reduce, "gradients of norms", (shape.biases ? 2 : 1) * shape.width * number, pairs);
    if (shape.biases)
      say(Verb::all_reduce, "gradients of biases of products cut by rows", shape.width * number, 2 * layers);
    if (shape.places > 0) say(Verb::all_reduce, "gradients of places", shape.places * shape.width * number, 1);
  }
  say(Verb::all_reduce, "the largest logit of each token", shape.tokens * number, 1);
  say(Verb::all_reduce, "sums of exponentials, logits of targets", 2 * shape.tokens * number, 1);
  return sentence;
}

}  // namespace tutti::strategy
