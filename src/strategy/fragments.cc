#include "strategy/fragments.h"

#include <numeric>
#include <string>
#include <utility>

namespace tutti::strategy {

std::vector<std::size_t> cut_into_fragments(std::span<const TensorSize> parameters, std::size_t fragments) {
  const auto add = [](std::size_t sum, const TensorSize& size) { return sum + size.elements; };
  const std::size_t total = std::accumulate(parameters.begin(), parameters.end(), std::size_t{0}, add);
  std::vector<std::size_t> of(parameters.size());
  std::size_t fragment = 0, before = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    // Its middle decides, but none is skipped, and those behind it each leave one for a later fragment.
    const double middle = static_cast<double>(before) + static_cast<double>(parameters[i].elements) / 2;
    const bool is_later =
        middle * static_cast<double>(fragments) >= static_cast<double>(fragment + 1) * static_cast<double>(total);
    const bool must_go_on = parameters.size() - i <= fragments - 1 - fragment;
    if (i > 0 && fragment + 1 < fragments && (is_later || must_go_on)) ++fragment;
    of[i] = fragment;
    before += parameters[i].elements;
  }
  return of;
}

std::int64_t begin_of_exchange(std::int64_t exchange, std::int64_t every, std::size_t fragments) {
  const auto count = static_cast<std::int64_t>(fragments);
  return ((exchange + 1) * every + count - 1) / count;
}

train::Sentence sentence_of(const ExchangeShape& shape) {
  train::Sentence sentence;
  const auto say = [&](Verb verb, std::string what, std::size_t bytes, int ranks, std::int64_t every) {
    train::Phrase& phrase = sentence.emplace_back();
    phrase = {verb, std::move(what), bytes, 1, ranks};
    phrase.every = every;
  };
  const auto replicas = static_cast<std::size_t>(shape.replicas), site = static_cast<std::size_t>(shape.site_ranks);
  if (shape.asynchronous && shape.site_ranks > 1)
    say(Verb::all_reduce, "which exchanges have ended", shape.fragments.size(), shape.site_ranks, 1);
  for (std::size_t i = 0; i < shape.fragments.size(); ++i) {
    const FragmentBytes& bytes = shape.fragments[i];
    const std::string name = "fragment " + std::to_string(i);
    if (shape.asynchronous)
      say(Verb::all_gather, "inner steps for " + name, replicas * sizeof(std::uint64_t), shape.replicas, shape.every);
    const Verb verb = bytes.quantised ? Verb::all_to_all : Verb::all_reduce;
    say(verb, "outer gradients of " + name, bytes.sent, shape.replicas, shape.every);
    if (bytes.quantised) say(Verb::all_gather, "their mean", bytes.returned, shape.replicas, shape.every);
    if (shape.site_ranks > 1)
      say(Verb::all_gather, "whether all ranks have " + name, site * 2 * sizeof(std::uint32_t), shape.site_ranks,
          shape.every);
  }
  return sentence;
}

}  // namespace tutti::strategy
