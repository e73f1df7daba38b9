// The router: softmax, the best few, capacity, and back.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "base/formatted.h"
#include "train/words.h"
#include "tutti/train/experts.h"

namespace tutti::train {
namespace {

void require_possible(const RouterOptions& options, std::size_t logits) {
  if (options.experts < 1)
    refuse_call("a router over " + std::to_string(options.experts) + " experts: there is one at least");
  if (options.top_k < 1 || options.top_k > options.experts)
    refuse_call("top_k is " + std::to_string(options.top_k) + " of " + std::to_string(options.experts) +
                " experts; give 1 .. " + std::to_string(options.experts));
  if (options.capacity_factor && !(*options.capacity_factor > 0 && std::isfinite(*options.capacity_factor)))
    refuse_call(
        formatted("a capacity factor of %g leaves experts nothing to take; give a number above 0, or none to "
                  "drop nothing",
                  *options.capacity_factor));
  if (logits % static_cast<std::size_t>(options.experts) != 0)
    refuse_call(std::to_string(logits) + " logits are no whole number of tokens with " +
                std::to_string(options.experts) + " experts each");
}

void softmax(std::span<const float> logits, std::span<float> probabilities, std::size_t token) {
  if (!std::all_of(logits.begin(), logits.end(), [](float logit) { return std::isfinite(logit); }))
    refuse_call("token " + std::to_string(token) + ": a logit of the router is not finite");
  const float largest = *std::max_element(logits.begin(), logits.end());
  float sum = 0;
  for (std::size_t e = 0; e < logits.size(); ++e) sum += probabilities[e] = std::exp(logits[e] - largest);
  for (float& probability : probabilities) probability /= sum;
}

// The best few of a token, with their weights.
void choose(Routing& routing, std::size_t token, std::vector<int>& order) {
  const auto experts = static_cast<std::size_t>(routing.options.experts);
  const auto top = static_cast<std::size_t>(routing.options.top_k);
  const float* const probability = routing.probabilities.data() + token * experts;
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(top), order.end(), [&](int a, int b) {
    return probability[a] > probability[b] || (probability[a] == probability[b] && a < b);
  });
  float sum = 0;
  for (std::size_t c = 0; c < top; ++c) sum += probability[order[c]];
  for (std::size_t c = 0; c < top; ++c) {
    routing.experts[token * top + c] = order[c];
    routing.weights[token * top + c] = probability[order[c]] / (routing.options.renormalise ? sum : 1);
    ++routing.chosen[static_cast<std::size_t>(order[c])];
  }
}

float probability_of(const Routing& routing, std::size_t choice) {
  const std::size_t token = choice / static_cast<std::size_t>(routing.options.top_k);
  return routing.probabilities[token * static_cast<std::size_t>(routing.options.experts) +
                               static_cast<std::size_t>(routing.experts[choice])];
}

void drop_beyond_capacity(Routing& routing) {
  std::vector<std::size_t> order(routing.experts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (routing.options.drop == DropPolicy::probability) {
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return probability_of(routing, a) > probability_of(routing, b);
    });
  }
  for (const std::size_t choice : order) {
    std::size_t& load = routing.load[static_cast<std::size_t>(routing.experts[choice])];
    routing.kept[choice] = load < routing.capacity;
    if (routing.kept[choice])
      ++load;
    else
      routing.weights[choice] = 0;
  }
}

double balance_loss_of(const Routing& routing) {
  const auto experts = static_cast<std::size_t>(routing.options.experts);
  double loss = 0;
  for (std::size_t e = 0; e < experts && routing.tokens > 0; ++e) {
    double probability = 0;
    for (std::size_t t = 0; t < routing.tokens; ++t) probability += routing.probabilities[t * experts + e];
    loss += static_cast<double>(routing.chosen[e]) / static_cast<double>(routing.experts.size()) * probability /
            static_cast<double>(routing.tokens);
  }
  return loss * static_cast<double>(experts);
}

}  // namespace

Routing route(std::span<const float> logits, const RouterOptions& options) {
  require_possible(options, logits.size());
  const auto experts = static_cast<std::size_t>(options.experts), top = static_cast<std::size_t>(options.top_k);
  Routing routing;
  routing.options = options;
  routing.tokens = logits.size() / experts;
  const std::size_t choices = routing.tokens * top;
  routing.capacity = choices;
  if (options.capacity_factor)
    routing.capacity = static_cast<std::size_t>(
        std::min(static_cast<double>(choices),
                 std::ceil(static_cast<double>(choices) * *options.capacity_factor / static_cast<double>(experts))));
  routing.probabilities.resize(logits.size());
  routing.experts.resize(choices);
  routing.weights.resize(choices);
  routing.kept.resize(choices);
  routing.chosen.resize(experts);
  routing.load.resize(experts);
  std::vector<int> order(experts);
  for (std::size_t token = 0; token < routing.tokens; ++token) {
    softmax(logits.subspan(token * experts, experts),
            std::span(routing.probabilities).subspan(token * experts, experts), token);
    choose(routing, token, order);
  }
  drop_beyond_capacity(routing);
  routing.balance_loss = balance_loss_of(routing);
  return routing;
}

void route_backward(const Routing& routing, std::span<const float> weight_gradient, double balance,
                    std::span<float> logit_gradient) {
  const auto experts = static_cast<std::size_t>(routing.options.experts);
  const auto top = static_cast<std::size_t>(routing.options.top_k);
  if (weight_gradient.size() != routing.experts.size() || logit_gradient.size() != routing.probabilities.size())
    refuse_call("route_backward: gradients of " + std::to_string(weight_gradient.size()) + " weights and " +
                std::to_string(logit_gradient.size()) + " logits, and the routing has " +
                std::to_string(routing.experts.size()) + " and " + std::to_string(routing.probabilities.size()));
  std::vector<double> gradients(experts);  // of a token's probabilities
  for (std::size_t token = 0; token < routing.tokens; ++token) {
    const float* const probability = routing.probabilities.data() + token * experts;
    for (std::size_t e = 0; e < experts; ++e)
      gradients[e] = balance * static_cast<double>(experts) * static_cast<double>(routing.chosen[e]) /
                     static_cast<double>(routing.experts.size()) / static_cast<double>(routing.tokens);
    double sum = 0, shared = 0;
    for (std::size_t choice = token * top; choice < (token + 1) * top; ++choice) {
      sum += probability_of(routing, choice);
      if (routing.kept[choice]) shared += static_cast<double>(weight_gradient[choice]) * routing.weights[choice];
    }
    for (std::size_t choice = token * top; choice < (token + 1) * top; ++choice) {
      const double own = routing.kept[choice] ? weight_gradient[choice] : 0;
      gradients[static_cast<std::size_t>(routing.experts[choice])] +=
          routing.options.renormalise ? (own - shared) / sum : own;
    }
    double mean = 0;
    for (std::size_t e = 0; e < experts; ++e) mean += gradients[e] * probability[e];
    for (std::size_t e = 0; e < experts; ++e)
      logit_gradient[token * experts + e] += static_cast<float>(probability[e] * (gradients[e] - mean));
  }
}

}  // namespace tutti::train
