// Jobs in words, for tests of what becomes of them.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>

#include "plan/plan.h"
#include "tutti/error.h"

namespace tutti::plan {

inline Job job_of(const JobWords& words) {
  return question_of(words, [](const std::string& path) -> std::string { throw std::runtime_error(path); }).job;
}

inline JobPlan plan_of(const JobWords& words) {
  const Job job = job_of(words);
  require_possible(job);
  CollectivePrices prices(job.cluster, job.accelerator, job.stack);
  return plan_job(job, prices);
}

inline std::string why_not(const JobWords& words) {
  try {
    plan_of(words);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

inline const JobWords kLlama{
    {"model", "llama3-8b"}, {"cluster", "dgx-h100:8"}, {"global-batch", "1024"}, {"micro-batch", "1"}, {"seq", "8192"}};

inline JobWords with(JobWords words, const JobWords& more) {
  for (const auto& [name, value] : more) words[name] = value;
  return words;
}

// nullptr where nothing is said of that.
inline const JobPhrase* phrase_of(const JobPlan& plan, const std::string& what) {
  const auto found = std::ranges::find(plan.sentence, what, &JobPhrase::what);
  return found == plan.sentence.end() ? nullptr : &*found;
}

}  // namespace tutti::plan
