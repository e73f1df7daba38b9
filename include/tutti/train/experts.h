// A mixture of experts over ranks: a router sends every token to its best few experts, which lie on different ranks.
//
//   train::Experts experts(mesh.along("ep"), 8, width);                      // 8 experts, 8 / ranks of them here
//   train::Routing routing = train::route(logits, {.experts = 8, .top_k = 2, .capacity_factor = 1.25});
//   std::span<const float> rows = experts.dispatch(routing, tokens);         // all_to_all: rows of experts here
//   ... outputs of the experts here; rows_of(e) rows from begin_of(e) on are those of local expert e
//   experts.combine(outputs, result);                                        // all_to_all: sums of weight * output
//
// and backwards, in reverse: combine_backward(), the experts', dispatch_backward(), route_backward().
//
// Rows arrive in the order of experts, and of an expert in the order of their ranks and tokens: a token's result does
// not depend on how experts lie on ranks, bit for bit, where an expert computes its rows one by one. A token that was
// dropped gets nothing from that expert: it passes through the residual.
//
// Everything here is about arrays of float32. Threads: one at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/export.h"
#include "tutti/train/report.h"

namespace tutti::train {

// Who goes where an expert has more tokens than its capacity. arrival: the first stay, in the order of tokens, and of a
// token's choices the best first. probability: the most probable stay; of equals the first.
enum class DropPolicy : unsigned char { arrival, probability };

struct RouterOptions {
  int experts = 1;
  int top_k = 1;
  // An expert takes ceil(top_k * tokens * factor / experts) tokens of each rank; without it, all that come.
  std::optional<double> capacity_factor = {};
  DropPolicy drop = DropPolicy::arrival;
  bool renormalise = true;  // the weights of a token's choices are made to sum to 1, before any is dropped
};

// Where tokens go. Choice c of token t is at t * top_k + c, the best first; of equals the expert with the lower number.
struct Routing {
  RouterOptions options;
  std::size_t tokens = 0;
  std::size_t capacity = 0;          // of an expert, for tokens of this rank
  std::vector<float> probabilities;  // tokens * experts: softmax of the logits
  std::vector<int> experts;          // by choice
  std::vector<float> weights;        // by choice; 0 where it was dropped
  std::vector<bool> kept;            // by choice
  std::vector<std::size_t> chosen;   // by expert: choices, dropped ones among them
  std::vector<std::size_t> load;     // by expert: those that were kept
  // experts * sum over experts of (share of choices) * (mean probability): 1 where all are even.
  double balance_loss = 0;

  std::size_t dropped() const { return static_cast<std::size_t>(std::count(kept.begin(), kept.end(), false)); }
};

// `logits` are tokens * experts. Error(invalid_argument) where one is not finite; it names the token.
TUTTI_API Routing route(std::span<const float> logits, const RouterOptions& options);
// Adds to the gradient of the logits: what comes from that of the weights, by choice (of dropped ones it is not looked
// at), and from the balance loss times `balance`.
TUTTI_API void route_backward(const Routing& routing, std::span<const float> weight_gradient, double balance,
                              std::span<float> logit_gradient);

// Of all ranks of a communicator.
struct ExpertStatistics {
  std::vector<std::uint64_t> load;  // by expert
  double dropped_share = 0;         // of choices
  double imbalance = 1;             // the largest load over the mean
};
// Collective.
TUTTI_API ExpertStatistics statistics(Communicator& communicator, const Routing& routing);

class TUTTI_API Experts {
 public:
  // Collective. Expert e lies on rank e / (experts / ranks); their number is a multiple of the ranks'. Rows are `width`
  // numbers. Error(mismatch) on all ranks where one has other settings.
  Experts(Communicator& communicator, int experts, std::size_t width);

  // Collective, each. `tokens` are this rank's rows. Returns the rows of this rank's experts, until the next call.
  std::span<const float> dispatch(const Routing& routing, std::span<const float> tokens);
  // `outputs` are as many rows as dispatch() returned, of this rank's experts; `result` is overwritten.
  void combine(std::span<const float> outputs, std::span<float> result);
  // Of the gradient of the result: returns that of the experts' outputs, until the next call, and writes that of the
  // weights, by choice (0 of dropped ones).
  std::span<const float> combine_backward(std::span<const float> result_gradient, std::span<float> weight_gradient);
  // Of the gradient of the rows that dispatch() returned: that of the tokens, which is overwritten.
  void dispatch_backward(std::span<const float> row_gradient, std::span<float> token_gradient);

  int experts() const { return experts_; }
  int local_experts() const { return local_; }
  // Rows of one of this rank's experts, by its number here, in what dispatch() returned.
  std::size_t begin_of(int local) const;
  std::size_t rows_of(int local) const;
  std::size_t rows() const;  // of all of them

  // What it has really called.
  Counters counters() const { return comm_.counters(); }
  // What this rank says in a step like the last one, forward and backward.
  Sentence sentence() const;

 private:
  void require_length(std::size_t length, std::size_t rows, const char* call, const char* what) const;
  void require_dispatched(const char* call) const;
  void exchange_counts();
  // Rows by choice, sorted by expert, to rows of this rank's experts; and the way back.
  void to_experts();
  void from_experts();

  Communicator comm_;
  int experts_, local_;
  std::size_t width_;
  std::optional<Routing> routing_;
  std::vector<std::size_t> order_;                  // choices that were kept, by expert
  std::vector<std::size_t> sent_rows_, came_rows_;  // by rank
  std::vector<std::size_t> came_counts_;            // by rank, by local expert
  std::vector<std::size_t> begins_;                 // by local expert, and the end
  // Rows of this rank's tokens in the order of experts; rows as they travel, by rank; rows of this rank's experts.
  std::vector<float> near_, travelling_, far_;
  std::vector<float> returned_;  // outputs for this rank's choices: for the gradient of the weights
};

}  // namespace tutti::train
