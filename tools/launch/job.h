// What the ranks of a job are told through their environment. Values and pure functions of them.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tutti::tools {

struct Job {
  int ranks_per_host = 1;
  int hosts = 1;
  int host = 0;              // which of them this is
  bool round_hosts = false;  // ranks go round the hosts, and not host after host
  std::string name;
  std::string rendezvous;      // where the launcher of host 0 keeps the lobby
  std::string token;           // hexadecimal; empty where a file holds it
  std::string token_file;      // absolute; empty where `token` is given
  std::string master_address;  // for PyTorch: where rank 0 keeps torch's store
  int master_port = 0;
  int threads_per_rank = 1;
  std::string trace;  // absolute; empty: nothing is recorded

  int size() const { return hosts * ranks_per_host; }
  // Of the ranks of this host, from 0.
  int rank_of(int local_rank) const {
    return round_hosts ? local_rank * hosts + host : host * ranks_per_host + local_rank;
  }
};

using Variables = std::map<std::string, std::string>;

// All variables of this process.
Variables variables_of_process();

// `inherited` with the variables of a rank of this host added; what another launcher may have left in it is taken out.
Variables variables_of_rank(const Job& job, int local_rank, const Variables& inherited);

// NAME=value, as exec takes them.
std::vector<std::string> entries_of(const Variables& variables);

}  // namespace tutti::tools
