#include "tutti/train/experts.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

#include "train/agreement.h"
#include "train/words.h"

namespace tutti::train {
namespace {

std::size_t sum_of(std::span<const std::size_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

std::vector<std::size_t> times(std::span<const std::size_t> rows, std::size_t width) {
  std::vector<std::size_t> counts;
  for (const std::size_t count : rows) counts.push_back(count * width);
  return counts;
}

void copy_rows(float* to, const float* from, std::size_t rows, std::size_t width) {
  if (rows * width > 0) std::memcpy(to, from, rows * width * sizeof(float));
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

Experts::Experts(Communicator& communicator, int experts, std::size_t width)
    : comm_(communicator.duplicate()), experts_(experts), local_(0), width_(width) {
  const std::string settings = std::to_string(experts) + " experts with rows of " + std::to_string(width);
  const std::uint64_t hash = hash_of_text(settings);
  Sentence said;
  require_alike(
      comm_, std::span(&hash, 1), [&](std::size_t) { return settings; }, "make the same experts on all ranks", said);
  const int ranks = comm_.size();
  if (experts < 1 || experts % ranks != 0)
    refuse_call(std::to_string(experts) + " experts cannot be cut evenly over " + std::to_string(ranks) +
                " ranks; give a multiple of that");
  if (width == 0) refuse_call("experts with rows of 0 numbers; a row has one at least");
  local_ = experts / ranks;
}

void Experts::require_length(std::size_t length, std::size_t rows, const char* call, const char* what) const {
  if (length == rows * width_) return;
  refuse_call(std::string(call) + ": " + what + " has " + std::to_string(length) + " numbers, and " +
              std::to_string(rows) + " rows of " + std::to_string(width_) + " belong there");
}

void Experts::require_dispatched(const char* call) const {
  if (!routing_) refuse_call(std::string(call) + ": nothing was dispatched; call dispatch() first");
}

// How many rows of which expert come from whom.
void Experts::exchange_counts() {
  const auto local = static_cast<std::size_t>(local_);
  const std::vector<std::uint64_t> load(routing_->load.begin(), routing_->load.end());
  std::vector<std::uint64_t> came(load.size());
  comm_.all_to_all(load, came);
  came_counts_.assign(came.begin(), came.end());
  sent_rows_.clear();
  came_rows_.clear();
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(comm_.size()); ++rank) {
    sent_rows_.push_back(sum_of(std::span(routing_->load).subspan(rank * local, local)));
    came_rows_.push_back(sum_of(std::span(came_counts_).subspan(rank * local, local)));
  }
  begins_.assign(1, 0);
  for (std::size_t expert = 0; expert < local; ++expert) {
    std::size_t rows = begins_.back();
    for (std::size_t at = expert; at < came_counts_.size(); at += local) rows += came_counts_[at];
    begins_.push_back(rows);
  }
}

std::size_t Experts::begin_of(int local) const { return begins_[static_cast<std::size_t>(local)]; }
std::size_t Experts::rows_of(int local) const {
  return begins_[static_cast<std::size_t>(local) + 1] - begins_[static_cast<std::size_t>(local)];
}
std::size_t Experts::rows() const { return begins_.empty() ? 0 : begins_.back(); }

void Experts::to_experts() {
  travelling_.resize(rows() * width_);
  comm_.all_to_all_v(near_, {times(sent_rows_, width_)}, travelling_, {times(came_rows_, width_)});
  far_.resize(travelling_.size());
  const auto local = static_cast<std::size_t>(local_);
  std::vector<std::size_t> next = begins_;
  const float* from = travelling_.data();
  for (std::size_t at = 0; at < came_counts_.size(); ++at) {
    const std::size_t count = came_counts_[at];
    copy_rows(far_.data() + next[at % local] * width_, from, count, width_);
    next[at % local] += count;
    from += count * width_;
  }
}

void Experts::from_experts() {
  travelling_.resize(far_.size());
  const auto local = static_cast<std::size_t>(local_);
  std::vector<std::size_t> next = begins_;
  float* to = travelling_.data();
  for (std::size_t at = 0; at < came_counts_.size(); ++at) {
    const std::size_t count = came_counts_[at];
    copy_rows(to, far_.data() + next[at % local] * width_, count, width_);
    next[at % local] += count;
    to += count * width_;
  }
  near_.resize(order_.size() * width_);
  comm_.all_to_all_v(travelling_, {times(came_rows_, width_)}, near_, {times(sent_rows_, width_)});
}

std::span<const float> Experts::dispatch(const Routing& routing, std::span<const float> tokens) {
  if (routing.options.experts != experts_)
    refuse_call("dispatch: a routing to " + std::to_string(routing.options.experts) + " experts, and there are " +
                std::to_string(experts_) + "; route with the same number");
  require_length(tokens.size(), routing.tokens, "dispatch", "tokens");
  routing_ = routing;
  returned_.clear();
  exchange_counts();
  // By expert, and of an expert in the order of tokens.
  std::vector<std::size_t> next(routing.load.size());
  std::exclusive_scan(routing.load.begin(), routing.load.end(), next.begin(), std::size_t{0});
  order_.assign(sum_of(routing.load), 0);
  for (std::size_t choice = 0; choice < routing.experts.size(); ++choice)
    if (routing.kept[choice]) order_[next[static_cast<std::size_t>(routing.experts[choice])]++] = choice;
  near_.resize(order_.size() * width_);
  const auto top = static_cast<std::size_t>(routing.options.top_k);
  for (std::size_t i = 0; i < order_.size(); ++i)
    copy_rows(near_.data() + i * width_, tokens.data() + order_[i] / top * width_, 1, width_);
  to_experts();
  return far_;
}

void Experts::combine(std::span<const float> outputs, std::span<float> result) {
  require_dispatched("combine");
  require_length(outputs.size(), rows(), "combine", "outputs");
  require_length(result.size(), routing_->tokens, "combine", "result");
  far_.assign(outputs.begin(), outputs.end());
  from_experts();
  const auto top = static_cast<std::size_t>(routing_->options.top_k);
  std::vector<std::size_t> row_of(routing_->experts.size());
  for (std::size_t i = 0; i < order_.size(); ++i) row_of[order_[i]] = i;
  std::fill(result.begin(), result.end(), 0.0F);
  for (std::size_t choice = 0; choice < row_of.size(); ++choice) {
    if (!routing_->kept[choice]) continue;
    const float* const row = near_.data() + row_of[choice] * width_;
    float* const sum = result.data() + choice / top * width_;
    for (std::size_t i = 0; i < width_; ++i) sum[i] += routing_->weights[choice] * row[i];
  }
  returned_ = near_;
}

std::span<const float> Experts::combine_backward(std::span<const float> result_gradient,
                                                 std::span<float> weight_gradient) {
  require_dispatched("combine_backward");
  if (returned_.size() != order_.size() * width_) refuse_call("combine_backward: call combine() first");
  require_length(result_gradient.size(), routing_->tokens, "combine_backward", "the gradient of the result");
  if (weight_gradient.size() != routing_->experts.size())
    refuse_call("combine_backward: a gradient of " + std::to_string(weight_gradient.size()) +
                " weights, and there are " + std::to_string(routing_->experts.size()));
  std::fill(weight_gradient.begin(), weight_gradient.end(), 0.0F);
  const auto top = static_cast<std::size_t>(routing_->options.top_k);
  near_.resize(order_.size() * width_);
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const std::size_t choice = order_[i];
    const float* const gradient = result_gradient.data() + choice / top * width_;
    const float* const output = returned_.data() + i * width_;
    float dot = 0;
    for (std::size_t j = 0; j < width_; ++j) {
      dot += gradient[j] * output[j];
      near_[i * width_ + j] = routing_->weights[choice] * gradient[j];
    }
    weight_gradient[choice] = dot;
  }
  to_experts();
  return far_;
}

void Experts::dispatch_backward(std::span<const float> row_gradient, std::span<float> token_gradient) {
  require_dispatched("dispatch_backward");
  require_length(row_gradient.size(), rows(), "dispatch_backward", "the gradient of the rows");
  require_length(token_gradient.size(), routing_->tokens, "dispatch_backward", "the gradient of the tokens");
  far_.assign(row_gradient.begin(), row_gradient.end());
  from_experts();
  const auto top = static_cast<std::size_t>(routing_->options.top_k);
  std::vector<std::size_t> row_of(routing_->experts.size());
  for (std::size_t i = 0; i < order_.size(); ++i) row_of[order_[i]] = i;
  std::fill(token_gradient.begin(), token_gradient.end(), 0.0F);
  for (std::size_t choice = 0; choice < row_of.size(); ++choice) {
    if (!routing_->kept[choice]) continue;
    const float* const row = near_.data() + row_of[choice] * width_;
    float* const sum = token_gradient.data() + choice / top * width_;
    for (std::size_t i = 0; i < width_; ++i) sum[i] += row[i];
  }
}

Sentence Experts::sentence() const {
  const int ranks = comm_.size();
  const auto bytes = [&](std::span<const std::size_t> counts) { return sum_of(counts) * width_ * sizeof(float); };
  const std::uint64_t rows = std::max(bytes(sent_rows_), bytes(came_rows_));  // as counters do
  return {{Verb::all_to_all, "rows for each expert", static_cast<std::uint64_t>(experts_) * sizeof(std::uint64_t), 1,
           ranks},
          {Verb::all_to_all, "tokens to experts", rows, 1, ranks},
          {Verb::all_to_all, "outputs to tokens", rows, 1, ranks},
          {Verb::all_to_all, "gradients of outputs to experts", rows, 1, ranks},
          {Verb::all_to_all, "gradients of tokens back", rows, 1, ranks}};
}

}  // namespace tutti::train
