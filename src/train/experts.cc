#include "tutti/train/experts.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

#include "train/agreement.h"
#include "train/row_exchange.h"
#include "train/words.h"

namespace tutti::train {
namespace {

// By expert, and of an expert in the order of tokens.
std::vector<std::size_t> by_expert(const Routing& routing) {
  std::vector<std::size_t> next(routing.load.size()), order(sum_of(routing.load));
  std::exclusive_scan(routing.load.begin(), routing.load.end(), next.begin(), std::size_t{0});
  for (std::size_t choice = 0; choice < routing.experts.size(); ++choice)
    if (routing.kept[choice]) order[next[static_cast<std::size_t>(routing.experts[choice])]++] = choice;
  return order;
}

}  // namespace

ExpertStatistics statistics(Communicator& communicator, const Routing& routing) {
  std::vector<std::uint64_t> sums(routing.load.begin(), routing.load.end());
  sums.push_back(routing.experts.size());
  communicator.all_reduce(sums);
  const auto choices = static_cast<double>(sums.back());
  sums.pop_back();
  ExpertStatistics statistics;
  statistics.load = std::move(sums);
  const auto kept =
      static_cast<double>(std::accumulate(statistics.load.begin(), statistics.load.end(), std::uint64_t{0}));
  if (choices > 0) statistics.dropped_share = 1 - kept / choices;
  const auto most = static_cast<double>(*std::max_element(statistics.load.begin(), statistics.load.end()));
  if (kept > 0) statistics.imbalance = most * static_cast<double>(statistics.load.size()) / kept;
  return statistics;
}

Experts::Experts(Communicator& communicator, int experts, std::size_t width, const ExpertsOptions& options)
    : exchange_(std::make_shared<RowExchange>(communicator)), experts_(experts), local_(0), width_(width) {
  const std::string settings = std::to_string(experts) + " experts with rows of " + std::to_string(width) +
                               (options.two_levels ? " in two levels where hosts allow it" : "");
  const std::uint64_t hash = hash_of_text(settings);
  Sentence said;
  require_alike(
      exchange_->communicator(), std::span(&hash, 1), [&](std::size_t) { return settings; },
      "make the same experts on all ranks", said);
  const int ranks = exchange_->communicator().size();
  if (experts < 1 || experts % ranks != 0)
    refuse_call(std::to_string(experts) + " experts cannot be cut evenly over " + std::to_string(ranks) +
                " ranks; give a multiple of that");
  if (width == 0) refuse_call("experts with rows of 0 numbers; a row has one at least");
  local_ = experts / ranks;
  if (options.two_levels) exchange_->make_levels();
}

void Experts::require_length(std::size_t length, std::size_t rows, const char* call, const char* what) const {
  if (length == rows * width_) return;
  refuse_call(std::string(call) + ": " + what + " has " + std::to_string(length) + " numbers, and " +
              std::to_string(rows) + " rows of " + std::to_string(width_) + " belong there");
}

void Experts::require_dispatched(const char* call) const {
  if (!routing_) refuse_call(std::string(call) + ": nothing was dispatched; call dispatch() first");
}

DispatchPlan Experts::plan(const Routing& routing) {
  if (routing.options.experts != experts_)
    refuse_call("dispatch: a routing to " + std::to_string(routing.options.experts) + " experts, and there are " +
                std::to_string(experts_) + "; route with the same number");
  const auto local = static_cast<std::size_t>(local_);
  const std::vector<std::uint64_t> load(routing.load.begin(), routing.load.end());
  std::vector<std::uint64_t> came(load.size());
  exchange_->communicator().all_to_all(load, came);
  DispatchPlan plan;
  plan.order = by_expert(routing);
  plan.counts.assign(came.begin(), came.end());
  for (std::size_t rank = 0; rank < load.size() / local; ++rank) {
    plan.sent.push_back(sum_of(std::span(routing.load).subspan(rank * local, local)));
    plan.came.push_back(sum_of(std::span(plan.counts).subspan(rank * local, local)));
  }
  plan.begins.assign(1, 0);
  for (std::size_t expert = 0; expert < local; ++expert) {
    std::size_t rows = plan.begins.back();
    for (std::size_t at = expert; at < plan.counts.size(); at += local) rows += plan.counts[at];
    plan.begins.push_back(rows);
  }
  return plan;
}

// move(bytes from the beginning by rank, bytes from the beginning by expert, bytes)
template <class Move>
void Experts::each_piece(const DispatchPlan& plan, std::size_t row_bytes, const Move& move) const {
  const auto local = static_cast<std::size_t>(local_);
  std::vector<std::size_t> next = plan.begins;
  std::size_t by_rank = 0;
  for (std::size_t at = 0; at < plan.counts.size(); ++at) {
    const std::size_t bytes = plan.counts[at] * row_bytes;
    if (bytes > 0) move(by_rank, next[at % local] * row_bytes, bytes);
    next[at % local] += plan.counts[at];
    by_rank += bytes;
  }
}

// With one expert on every rank rows by rank are rows by expert.
void Experts::to_experts(const DispatchPlan& plan, const void* rows, void* expert_rows, Element element) {
  if (local_ == 1) {
    forth_ = exchange_->run(rows, plan.sent, expert_rows, plan.came, width_, element);
    return;
  }
  const std::size_t row_bytes = width_ * element.bytes();
  travelling_.resize(plan.rows() * row_bytes);
  forth_ = exchange_->run(rows, plan.sent, travelling_.data(), plan.came, width_, element);
  each_piece(plan, row_bytes, [&](std::size_t by_rank, std::size_t by_expert, std::size_t bytes) {
    std::memcpy(static_cast<std::byte*>(expert_rows) + by_expert, travelling_.data() + by_rank, bytes);
  });
}

void Experts::to_tokens(const DispatchPlan& plan, const void* expert_rows, void* rows, Element element) {
  if (local_ == 1) {
    back_ = exchange_->run(expert_rows, plan.came, rows, plan.sent, width_, element);
    return;
  }
  const std::size_t row_bytes = width_ * element.bytes();
  travelling_.resize(plan.rows() * row_bytes);
  each_piece(plan, row_bytes, [&](std::size_t by_rank, std::size_t by_expert, std::size_t bytes) {
    std::memcpy(travelling_.data() + by_rank, static_cast<const std::byte*>(expert_rows) + by_expert, bytes);
  });
  back_ = exchange_->run(travelling_.data(), plan.came, rows, plan.sent, width_, element);
}

std::span<const float> Experts::bring_to_experts() {
  expert_rows_.resize(rows() * width_);
  to_experts(plan_, rows_.data(), expert_rows_.data(), DType::float32);
  return expert_rows_;
}

void Experts::bring_to_tokens(std::span<const float> expert_rows) {
  rows_.resize(plan_.order.size() * width_);
  to_tokens(plan_, expert_rows.data(), rows_.data(), DType::float32);
}

void Experts::sum_by_token(bool weighs, std::span<float> sums) const {
  const auto top = static_cast<std::size_t>(routing_->options.top_k);
  std::vector<std::size_t> row_of(routing_->experts.size());
  for (std::size_t i = 0; i < plan_.order.size(); ++i) row_of[plan_.order[i]] = i;
  for (std::size_t choice = 0; choice < row_of.size(); ++choice) {
    float* const sum = sums.data() + choice / top * width_;
    if (choice % top == 0) std::fill_n(sum, width_, 0.0F);
    if (!routing_->kept[choice]) continue;
    const float* const row = rows_.data() + row_of[choice] * width_;
    const float weight = weighs ? routing_->weights[choice] : 1;
    for (std::size_t i = 0; i < width_; ++i) sum[i] += weight * row[i];
  }
}

std::span<const float> Experts::dispatch(const Routing& routing, std::span<const float> tokens) {
  require_length(tokens.size(), routing.tokens, "dispatch", "tokens");
  plan_ = plan(routing);
  routing_ = routing;
  has_returned_ = false;
  rows_.resize(plan_.order.size() * width_);
  const auto top = static_cast<std::size_t>(routing.options.top_k);
  for (std::size_t i = 0; i < plan_.order.size(); ++i)
    std::memcpy(rows_.data() + i * width_, tokens.data() + plan_.order[i] / top * width_, width_ * sizeof(float));
  return bring_to_experts();
}

void Experts::combine(std::span<const float> outputs, std::span<float> result) {
  require_dispatched("combine");
  require_length(outputs.size(), rows(), "combine", "outputs");
  require_length(result.size(), routing_->tokens, "combine", "result");
  bring_to_tokens(outputs);
  sum_by_token(true, result);
  std::swap(returned_, rows_);
  has_returned_ = true;
}

std::span<const float> Experts::combine_backward(std::span<const float> result_gradient,
                                                 std::span<float> weight_gradient) {
  require_dispatched("combine_backward");
  if (!has_returned_) refuse_call("combine_backward: call combine() first");
  require_length(result_gradient.size(), routing_->tokens, "combine_backward", "the gradient of the result");
  if (weight_gradient.size() != routing_->experts.size())
    refuse_call("combine_backward: a gradient of " + std::to_string(weight_gradient.size()) +
                " weights, and there are " + std::to_string(routing_->experts.size()));
  std::fill(weight_gradient.begin(), weight_gradient.end(), 0.0F);
  const auto top = static_cast<std::size_t>(routing_->options.top_k);
  rows_.resize(plan_.order.size() * width_);
  for (std::size_t i = 0; i < plan_.order.size(); ++i) {
    const std::size_t choice = plan_.order[i];
    const float* const gradient = result_gradient.data() + choice / top * width_;
    const float* const output = returned_.data() + i * width_;
    float dot = 0;
    for (std::size_t j = 0; j < width_; ++j) {
      dot += gradient[j] * output[j];
      rows_[i * width_ + j] = routing_->weights[choice] * gradient[j];
    }
    weight_gradient[choice] = dot;
  }
  return bring_to_experts();
}

void Experts::dispatch_backward(std::span<const float> row_gradient, std::span<float> token_gradient) {
  require_dispatched("dispatch_backward");
  require_length(row_gradient.size(), rows(), "dispatch_backward", "the gradient of the rows");
  require_length(token_gradient.size(), routing_->tokens, "dispatch_backward", "the gradient of the tokens");
  bring_to_tokens(row_gradient);
  sum_by_token(false, token_gradient);
}

Counters Experts::counters() const { return exchange_->counters(); }

Sentence Experts::sentence() const {
  Sentence sentence{{Verb::all_to_all, "rows for each expert",
                     static_cast<std::uint64_t>(experts_) * sizeof(std::uint64_t), 1, experts_ / local_}};
  const auto say = [&](const std::string& what, const Sentence& said) {
    for (Phrase phrase : said) {
      phrase.what = what + phrase.what;
      sentence.push_back(std::move(phrase));
    }
  };
  say("tokens to experts", forth_);
  say("outputs to tokens", back_);
  say("gradients of outputs to experts", forth_);
  say("gradients of tokens back", back_);
  return sentence;
}

}  // namespace tutti::train
