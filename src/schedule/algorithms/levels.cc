#include "schedule/algorithms/levels.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tutti::schedule {
namespace {

int place_of(int rank, const std::vector<int>& ranks) {
  return static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin());
}

std::vector<int> different(std::vector<int> sizes) {
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

std::vector<int> sizes_of(const Hosts::Members& members) {
  std::vector<int> sizes;
  for (const std::vector<int>& host : members)
    if (sizes.empty() || sizes.back() != static_cast<int>(host.size())) sizes.push_back(static_cast<int>(host.size()));
  return different(std::move(sizes));
}

}  // namespace

Placement in_grid(const Placement& placement) {
  const int rows = rows_of_grid(placement.ranks);
  const std::vector<int> each(static_cast<std::size_t>(rows), placement.ranks / rows);
  return {placement.ranks, placement.rank, placement.root, Hosts::in_blocks(each)};
}

Levels::Levels(const Placement& placement)
    : rank_(placement.rank),
      root_(placement.root),
      root_host_(placement.hosts.of(root_)),
      members_(placement.hosts.members(placement.ranks)),
      sizes_(sizes_of(*members_)),
      host_(placement.hosts.of(rank_)),
      counted_(even() && placement.hosts.in_order()) {
  local_ = place_of(rank_, here());
}

std::vector<int> Levels::behind(int host, int column) const {
  std::vector<int> ranks;
  for (auto i = static_cast<std::size_t>(column); i < on(host).size(); i += static_cast<std::size_t>(columns()))
    ranks.push_back(on(host)[i]);
  return ranks;
}

Stage Levels::inside(std::string name, Generate generate) const {
  return {.name = std::move(name), .generate = generate, .sizes = sizes_, .members = here()};
}

Stage Levels::across(std::string name, Generate generate) const {
  Stage stage{.name = std::move(name), .generate = generate, .level = 1, .sizes = {hosts()}};
  if (local_ >= columns()) return stage;
  stage.members.reserve(members_->size());
  for (const std::vector<int>& host : *members_) stage.members.push_back(host[static_cast<std::size_t>(local_)]);
  return stage;
}

Stage Levels::from_leader(std::string name, Generate generate) const {
  Stage stage = inside(std::move(name), generate);
  stage.root = place_of(leader_of(host_), here());
  return stage;
}

Stage Levels::across_leaders(std::string name, Generate generate) const {
  Stage stage{.name = std::move(name), .generate = generate, .level = 1, .sizes = {hosts()}};
  stage.root = root_host_;
  for (int host = 0; leader_of(host_) == rank_ && host < hosts(); ++host) stage.members.push_back(leader_of(host));
  return stage;
}

Stage Levels::behind_column(std::string name, Generate generate) const {
  Stage stage = inside(std::move(name), generate);
  stage.sizes.clear();
  for (const int size : sizes_) {
    for (int column = 0; column < columns(); ++column)
      stage.sizes.push_back((size - column + columns() - 1) / columns());
  }
  stage.sizes = different(std::move(stage.sizes));
  stage.members = behind(host_, local_ % columns());
  stage.blocks = chunks_of(stage.members);
  return stage;
}

StageBlocks Levels::chunks_of(const std::vector<int>& ranks) {
  StageBlocks::Lists blocks;
  for (const int rank : ranks) blocks.push_back({rank});
  return StageBlocks(std::move(blocks));
}

StageBlocks Levels::of_ranks() const {
  if (counted_) return runs(columns(), 1, here().front());
  return chunks_of(here());
}

StageBlocks Levels::of_hosts() const {
  if (counted_) return runs(hosts(), columns());
  return StageBlocks(members_);
}

StageBlocks Levels::of_columns() const {
  if (counted_) return StageBlocks(StageBlocks::Counted{columns(), 0, 1, hosts(), columns()});
  StageBlocks::Lists blocks(here().size());  // nothing for those that are in no column
  for (int column = 0; column < columns(); ++column) {
    std::vector<int>& chunks = blocks[static_cast<std::size_t>(column)];
    for (int host = 0; host < hosts(); ++host) std::ranges::copy(behind(host, column), std::back_inserter(chunks));
  }
  return StageBlocks(std::move(blocks));
}

StageBlocks Levels::of_hosts_in_column() const {
  const int column = local_ % columns();
  if (counted_) return StageBlocks(StageBlocks::Counted{hosts(), column, columns(), 1});
  StageBlocks::Lists blocks;
  for (int host = 0; host < hosts(); ++host) blocks.push_back(behind(host, column));
  return StageBlocks(std::move(blocks));
}

}  // namespace tutti::schedule
