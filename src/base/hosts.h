// Which ranks share a host: the number of each rank's host, counted in the order of the hosts' first ranks. An
// immutable value that is cheap to copy.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

namespace tutti {

class Hosts {
 public:
  Hosts() = default;  // one host, whatever the number of ranks
  // By rank, in any numbers: equal ones are one host.
  explicit Hosts(std::span<const int> by_rank) {
    std::vector<int> known, numbers;
    for (const int host : by_rank) {
      const auto found = std::find(known.begin(), known.end(), host);
      numbers.push_back(static_cast<int>(found - known.begin()));
      if (found == known.end()) known.push_back(host);
    }
    if (known.size() > 1) by_rank_ = std::make_shared<const std::vector<int>>(std::move(numbers));
  }
  // The first ranks on the first host, the next ones on the second, and so on.
  static Hosts in_blocks(std::span<const int> ranks_of_each) {
    std::vector<int> numbers;
    for (std::size_t host = 0; host < ranks_of_each.size(); ++host)
      numbers.insert(numbers.end(), static_cast<std::size_t>(ranks_of_each[host]), static_cast<int>(host));
    return Hosts(numbers);
  }

  bool several() const { return by_rank_ != nullptr; }
  // A rank that does not exist is on no host.
  int of(int rank) const {
    if (!several()) return 0;
    return rank >= 0 && rank < static_cast<int>(by_rank_->size()) ? (*by_rank_)[static_cast<std::size_t>(rank)] : -1;
  }
  bool share(int a, int b) const { return of(a) == of(b); }
  // Empty where there is one host.
  std::span<const int> by_rank() const { return several() ? std::span<const int>(*by_rank_) : std::span<const int>(); }
  int count() const { return several() ? *std::max_element(by_rank_->begin(), by_rank_->end()) + 1 : 1; }
  // Whether the ranks of each host follow each other.
  bool in_order() const { return std::ranges::is_sorted(by_rank()); }
  // The ranks of each host, of a group of so many.
  std::vector<std::vector<int>> members(int ranks) const {
    std::vector<std::vector<int>> members(static_cast<std::size_t>(count()));
    for (int rank = 0; rank < ranks; ++rank) members[static_cast<std::size_t>(of(rank))].push_back(rank);
    return members;
  }
  // Ranks of the host that has the most, of a group of so many.
  int most_on_one(int ranks) const {
    int most = several() ? 0 : ranks;
    for (int host = 0; several() && host < count(); ++host)
      most = std::max(most, static_cast<int>(std::count(by_rank_->begin(), by_rank_->end(), host)));
    return most;
  }
  // Of a group that is made of these ranks.
  Hosts among(std::span<const int> members) const {
    std::vector<int> numbers;
    for (const int member : members) numbers.push_back(of(member));
    return Hosts(numbers);
  }

  bool operator==(const Hosts& other) const { return std::ranges::equal(by_rank(), other.by_rank()); }

 private:
  std::shared_ptr<const std::vector<int>> by_rank_;  // nullptr: one host
};

}  // namespace tutti
