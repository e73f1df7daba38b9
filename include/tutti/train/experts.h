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
// dispatch(), combine() and their backward are about arrays of float32. Rows of any type go the same ways by plan(),
// to_experts() and to_tokens(), for who does the arithmetic; tutti/train/torch_experts.h does, for modules of libtorch.
//
// Threads: one at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tutti/communicator.h"
#include "tutti/export.h"
#include "tutti/train/report.h"

namespace tutti::train {

class RowExchange;

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

// How the rows of one dispatch go: what takes others of their kind the same way, and back.
struct DispatchPlan {
  std::vector<std::size_t> order;       // choices that were kept, by expert, and of an expert in the order of tokens
  std::vector<std::size_t> sent, came;  // rows, by rank
  std::vector<std::size_t> counts;      // rows that came, by rank, by local expert
  std::vector<std::size_t> begins;      // of rows of this rank's experts, by local expert, and the end of all

  std::size_t rows() const { return begins.empty() ? 0 : begins.back(); }  // of this rank's experts
};

struct ExpertsOptions {
  // Where ranks lie evenly, several to a host, on several hosts: rows go to the right place inside of their host first,
  // then across, so that hosts exchange fewer and larger messages, for one more copy inside. All ranks alike. Few hosts
  // exchange large rows more quickly straight from rank to rank.
  bool two_levels = false;
};

class TUTTI_API Experts {
 public:
  // Collective. Expert e lies on rank e / (experts / ranks); their number is a multiple of the ranks'. Rows are `width`
  // numbers. Error(mismatch) on all ranks where one has other settings.
  Experts(Communicator& communicator, int experts, std::size_t width, const ExpertsOptions& options = {});

  // Collective, each. `tokens` are this rank's rows. Returns the rows of this rank's experts, until the next call.
  std::span<const float> dispatch(const Routing& routing, std::span<const float> tokens);
  // `outputs` are as many rows as dispatch() returned, of this rank's experts; `result` is overwritten.
  void combine(std::span<const float> outputs, std::span<float> result);
  // Of the gradient of the result: returns that of the experts' outputs, until the next call, and writes that of the
  // weights, by choice (0 of dropped ones).
  std::span<const float> combine_backward(std::span<const float> result_gradient, std::span<float> weight_gradient);
  // Of the gradient of the rows that dispatch() returned: that of the tokens, which is overwritten.
  void dispatch_backward(std::span<const float> row_gradient, std::span<float> token_gradient);

  // The same in parts. Collective, each: how many rows go where; rows of this rank's choices, in the plan's order, to
  // those of this rank's experts; and back. Rows are `width` elements, and lie in memory of as many as the plan says.
  DispatchPlan plan(const Routing& routing);
  void to_experts(const DispatchPlan& plan, const void* rows, void* expert_rows, Element element);
  void to_tokens(const DispatchPlan& plan, const void* expert_rows, void* rows, Element element);

  int experts() const { return experts_; }
  int local_experts() const { return local_; }
  // Rows of one of this rank's experts, by its number here, in what dispatch() returned.
  std::size_t begin_of(int local) const { return plan_.begins[static_cast<std::size_t>(local)]; }
  std::size_t rows_of(int local) const { return plan_.begins[static_cast<std::size_t>(local) + 1] - begin_of(local); }
  std::size_t rows() const { return plan_.rows(); }  // of all of them

  // What it has really called.
  Counters counters() const;
  // What this rank says in a step like the last one, forward and backward, of one plan.
  Sentence sentence() const;

 private:
  void require_length(std::size_t length, std::size_t rows, const char* call, const char* what) const;
  void require_dispatched(const char* call) const;
  std::span<const float> bring_to_experts();  // rows_ of this rank's choices
  void bring_to_tokens(std::span<const float> expert_rows);
  // Adds the rows of a token's choices, times their weights or as they are.
  void sum_by_token(bool weighs, std::span<float> sums) const;
  // Between rows by rank, as they travel, and rows by expert.
  template <class Move>
  void each_piece(const DispatchPlan& plan, std::size_t row_bytes, const Move& move) const;

  std::shared_ptr<RowExchange> exchange_;
  int experts_, local_;
  std::size_t width_;
  std::vector<std::byte> travelling_;
  DispatchPlan plan_;      // of dispatch()
  Sentence forth_, back_;  // what rows that went to experts, and back, last said
  std::optional<Routing> routing_;
  std::vector<float> rows_, expert_rows_;  // of this rank's choices in the plan's order; of this rank's experts
  std::vector<float> returned_;            // by combine(), for the gradient of the weights
  bool has_returned_ = false;              // since the last dispatch()
};

}  // namespace tutti::train
