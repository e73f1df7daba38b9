// Hosts and columns: what hierarchical algorithms are made of, as stages of a composition (compose.h).
//
// Ranks that have the same number on their hosts are a column. All that crosses between hosts goes inside columns, so
// that each host's sum, or its share of the data, crosses once, and a network card for each rank would be busy:
//
//   host 0   rank 0   rank 1        inside: rows of this picture
//   host 1   rank 2   rank 3        across: columns of it
//
// Where hosts hold different numbers of ranks there are as many columns as the smallest has ranks; what the others have
// goes through the column of one of their neighbours. A rooted verb goes through one rank of each host, its leader: the
// root, and the first of every other host.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/hosts.h"
#include "schedule/compose.h"

namespace tutti::schedule {

constexpr StageMemory kInput{Buffer::input}, kOutput{Buffer::output};
constexpr StageMemory in_plane(int number) { return {Buffer::scratch, number}; }

// Ranks in the rows of a grid, as if each were a host: what levels are made of where there is no other reason for them.
Placement in_grid(const Placement& placement);

class Levels {
 public:
  using Generate = Program (*)(const Placement& placement);

  explicit Levels(const Placement& placement);

  int hosts() const { return static_cast<int>(members_->size()); }
  int local() const { return local_; }  // this rank's number on its host
  int columns() const { return sizes_.front(); }
  bool even() const { return sizes_.size() == 1; }                              // all ranks are in a column
  int largest() const { return sizes_.back(); }                                 // ranks of a host
  int widest_share() const { return (largest() + columns() - 1) / columns(); }  // ranks of a host behind one column

  // Among the ranks of this one's host.
  Stage inside(std::string name, Generate generate) const;
  // Among the ranks of its column; only those that are in one take part.
  Stage across(std::string name, Generate generate) const;
  // The same two of a rooted verb, through leaders.
  Stage from_leader(std::string name, Generate generate) const;
  Stage across_leaders(std::string name, Generate generate) const;
  // Among the ranks of this one's host that are behind one column, from its rank or to it: chunks only.
  Stage behind_column(std::string name, Generate generate) const;

  // Chunks: of the ranks of this host, of all ranks by host, behind each column, and behind this rank's by host.
  StageBlocks of_ranks() const;
  StageBlocks of_hosts() const;
  StageBlocks of_columns() const;
  StageBlocks of_hosts_in_column() const;
  // A vector: block i is `width` blocks of the whole, from first + i * width on.
  static StageBlocks runs(int count, int width, int first = 0) {
    return StageBlocks(StageBlocks::Counted{count, first, width, width});
  }

 private:
  static StageBlocks chunks_of(const std::vector<int>& ranks);
  const std::vector<int>& on(int host) const { return (*members_)[static_cast<std::size_t>(host)]; }
  const std::vector<int>& here() const { return on(host_); }
  int leader_of(int host) const { return host == root_host_ ? root_ : on(host).front(); }
  std::vector<int> behind(int host, int column) const;

  int rank_, root_, root_host_;
  std::shared_ptr<const Hosts::Members> members_;
  std::vector<int> sizes_;  // that hosts have, from the least to the most
  int host_, local_ = 0;
  bool counted_;  // ranks are numbered host after host, as many on each
};

}  // namespace tutti::schedule
