// Slurm's short forms for hosts and counts, written out.
//
//   "node[01-03,7],gpu5"  ->  node01 node02 node03 node7 gpu5        "r[1-2]n[1-2]" -> r1n1 r1n2 r2n1 r2n2
//   "2(x3),1"             ->  2 2 2 1
//
// Both throw Error(invalid_argument) where the text makes no sense or names more than kMostHosts.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::rendezvous {

inline constexpr std::size_t kMostHosts = std::size_t{1} << 17;

std::vector<std::string> hosts_of(std::string_view list);
std::vector<int> counts_of(std::string_view list);

}  // namespace tutti::rendezvous
