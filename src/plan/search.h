// Which plan to take: jobs that differ from one another in what may be changed, planned and compared.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace tutti::plan {

// The quickest micro-batch that fits; where none does, the one that lacks the least memory. None where the batch does
// not divide.
std::optional<JobPlan> plan_best_micro_batch(const Job& job, CollectivePrices& prices);

// What the question asks for: the job as it is, with its best micro-batch, or by the best strategy. Throws
// Error(invalid_argument) where it is not possible.
JobPlan answer(const JobQuestion& question, CollectivePrices& prices);

// Every strategy of the devices that the job has which agrees with what is fixed: the quickest that fit first, as many
// as wanted; where none fits, the one that takes the least memory, alone. `tried`: how many were looked at. Throws
// Error(invalid_argument) where none is possible.
struct Found {
  std::vector<JobPlan> best;
  std::size_t tried = 0, fitting = 0;
};
Found find_strategies(const Job& job, CollectivePrices& prices, std::size_t wanted, const FixedWords& fixed = {});

// A change to a job, planned: how much quicker a token is. Where a job does not fit those come first that make it fit,
// and then those that lack the least.
struct PlannedChange {
  std::string words;
  std::string why;
  JobPlan plan;
  double gain = 0;  // share of tokens per second that comes with it
};

struct JobVerdict {
  std::string bound;                   // what most of the step goes to, in words
  std::vector<PlannedChange> changes;  // the three that help most
};
JobVerdict verdict_of(const JobPlan& plan, CollectivePrices& prices);

// Why the one is quicker than the other: sentences that name the cause. Strategies that read alike are told by
// `first_name` and `second_name`, or by what else they differ in.
std::vector<std::string> differences(const JobPlan& first, const JobPlan& second, const std::string& first_name = "",
                                     const std::string& second_name = "");

}  // namespace tutti::plan
