// Which ranks share a host: the number of each rank's host, counted in the order of the hosts' first ranks. An
// immutable value that is cheap to copy and to ask.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <numeric>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tutti {

class Hosts {
 public:
  using Members = std::vector<std::vector<int>>;  // ranks, by host

  Hosts() = default;  // one host, whatever the number of ranks
  // By rank, in any numbers: equal ones are one host.
  explicit Hosts(std::span<const int> by_rank) {
    std::unordered_map<int, int> known;
    Table table;
    for (const int name : by_rank) {
      const int host = known.emplace(name, static_cast<int>(known.size())).first->second;
      if (static_cast<std::size_t>(host) == table.members.size()) table.members.emplace_back();
      table.members[static_cast<std::size_t>(host)].push_back(static_cast<int>(table.by_rank.size()));
      table.by_rank.push_back(host);
    }
    if (known.size() > 1) table_ = std::make_shared<const Table>(std::move(table));
  }
  // The first ranks on the first host, the next ones on the second, and so on.
  static Hosts in_blocks(std::span<const int> ranks_of_each) {
    std::vector<int> numbers;
    for (std::size_t host = 0; host < ranks_of_each.size(); ++host)
      numbers.insert(numbers.end(), static_cast<std::size_t>(ranks_of_each[host]), static_cast<int>(host));
    return Hosts(numbers);
  }

  bool several() const { return table_ != nullptr; }
  // A rank that does not exist is on no host.
  int of(int rank) const {
    if (!several()) return 0;
    const std::vector<int>& hosts = table_->by_rank;
    return rank >= 0 && rank < static_cast<int>(hosts.size()) ? hosts[static_cast<std::size_t>(rank)] : -1;
  }
  bool share(int a, int b) const { return of(a) == of(b); }
  // Empty where there is one host.
  std::span<const int> by_rank() const {
    return several() ? std::span<const int>(table_->by_rank) : std::span<const int>();
  }
  int count() const { return several() ? static_cast<int>(table_->members.size()) : 1; }
  // Whether the ranks of each host follow each other.
  bool in_order() const { return std::ranges::is_sorted(by_rank()); }
  // The ranks of each host, of a group of so many.
  std::shared_ptr<const Members> members(int ranks) const {
    if (several()) return {table_, &table_->members};
    std::vector<int> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    return std::make_shared<const Members>(1, std::move(all));
  }
  // Ranks of the host that has the most, of a group of so many.
  int most_on_one(int ranks) const {
    if (!several()) return ranks;
    std::size_t most = 0;
    for (const std::vector<int>& host : table_->members) most = std::max(most, host.size());
    return static_cast<int>(most);
  }
  // Of a group that is made of these ranks.
  Hosts among(std::span<const int> members) const {
    std::vector<int> numbers;
    for (const int member : members) numbers.push_back(of(member));
    return Hosts(numbers);
  }

  bool operator==(const Hosts& other) const {
    return table_ == other.table_ || std::ranges::equal(by_rank(), other.by_rank());
  }

 private:
  struct Table {
    std::vector<int> by_rank;
    Members members;
  };
  std::shared_ptr<const Table> table_;  // nullptr: one host
};

}  // namespace tutti
