#include "tools/launch/job.h"

#include <unistd.h>

#include <string_view>

namespace tutti::tools {

Variables variables_of_process() {
  Variables variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

Variables variables_of_rank(const Job& job, int local_rank, const Variables& inherited) {
  const std::string rank = std::to_string(job.rank_of(local_rank));
  Variables all = inherited;
  // Under torchrun's agent the store is the agent's; here rank 0 keeps it, as without an agent.
  std::erase_if(all, [](const auto& entry) { return entry.first.starts_with("TORCHELASTIC_"); });
  all.erase("TUTTI_TOKEN");
  all.erase("TUTTI_TOKEN_FILE");
  const Variables own{
      {"TUTTI_RANK", rank},
      {"TUTTI_SIZE", std::to_string(job.size())},
      {"TUTTI_LOCAL_RANK", std::to_string(local_rank)},
      {"TUTTI_LOCAL_SIZE", std::to_string(job.ranks_per_host)},
      {"TUTTI_JOB", job.name},
      {"TUTTI_RENDEZVOUS", job.rendezvous},
      {"TUTTI_LOBBY", "launcher"},
      job.token_file.empty() ? Variables::value_type{"TUTTI_TOKEN", job.token}
                             : Variables::value_type{"TUTTI_TOKEN_FILE", job.token_file},
      {"RANK", rank},
      {"WORLD_SIZE", std::to_string(job.size())},
      {"LOCAL_RANK", std::to_string(local_rank)},
      {"LOCAL_WORLD_SIZE", std::to_string(job.ranks_per_host)},
      {"GROUP_RANK", std::to_string(job.host)},
      {"GROUP_WORLD_SIZE", std::to_string(job.hosts)},
      {"NODE_RANK", std::to_string(job.host)},
      {"MASTER_ADDR", job.master_address},
      {"MASTER_PORT", std::to_string(job.master_port)},
  };
  for (const auto& [name, value] : own) all.insert_or_assign(name, value);
  if (!job.trace.empty()) all.insert_or_assign("TUTTI_TRACE", job.trace);
  all.emplace("OMP_NUM_THREADS", std::to_string(job.threads_per_rank));  // unless somebody has set it
  return all;
}

std::vector<std::string> entries_of(const Variables& variables) {
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) entries.emplace_back(name).append("=").append(value);
  return entries;
}

}  // namespace tutti::tools
