// A plan as people and scripts read it.
#pragma once

#include <map>
#include <string>

#include "plan/search.h"

namespace tutti::plan {

std::string to_text(const JobPlan& plan, const JobVerdict& verdict);
// Keys: step_seconds tokens_per_second model_tflops_per_gpu hardware_tflops_per_gpu mfu memory_bytes_per_gpu fits
// gamma_raw gamma_exposed sentence bill verdict, and what was planned.
std::string to_json(const JobPlan& plan, const JobVerdict& verdict);
// What a search found: found.best with the strategy, the batch and the figures of each, why the first beats the second,
// and how many were tried and fit.
std::string to_json(const Found& found, const JobVerdict& verdict);

// Whose times calls have.
std::string words_of_prices(const Job& job);
// "12.3 GB", in powers of ten as data sheets have them; "4.31 ms".
std::string words_of_bytes(double bytes);
std::string words_of_seconds(double seconds);

// Parts of a bill by name, for tables and pictures.
struct NamedAmount {
  const char* name;
  double amount;
};
std::vector<NamedAmount> parts_of(const TimeBill& time);
std::vector<NamedAmount> parts_of(const MemoryBill& memory);
// "+3.1 % tokens per second by --zero 1: ..."; of a job that does not fit, whether it would then.
std::string words_of(const PlannedChange& change, bool fits_now);
// What a rank of the busiest stage sends in a step, and by collectives receives as well: 2 (n - 1) / n of a vector that
// is reduced everywhere, (n - 1) / n of others. Of hierarchies what stays in a host and what leaves it.
std::map<std::string, double> bytes_by_links(const JobPlan& plan);

}  // namespace tutti::plan
