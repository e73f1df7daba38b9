#include "schedule/algorithms/levels.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tutti::schedule {
namespace {

int place_of(int rank, const std::vector<int>& ranks) {
  return static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin());
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
      host_(placement.hosts.of(rank_)) {
  local_ = place_of(rank_, here());
  columns_ = std::ranges::min(sizes());
}

int Levels::largest() const { return std::ranges::max(sizes()); }

std::vector<int> Levels::sizes() const {
  std::vector<int> sizes;
  for (const std::vector<int>& host : members_) sizes.push_back(static_cast<int>(host.size()));
  return sizes;
}

std::vector<int> Levels::leaders() const {
  std::vector<int> leaders;
  for (int host = 0; host < hosts(); ++host) leaders.push_back(host == root_host_ ? root_ : on(host).front());
  return leaders;
}

std::vector<int> Levels::behind(int host, int column) const {
  std::vector<int> ranks;
  for (auto i = static_cast<std::size_t>(column); i < on(host).size(); i += static_cast<std::size_t>(columns_))
    ranks.push_back(on(host)[i]);
  return ranks;
}

Stage Levels::inside(std::string name, Generate generate) const {
  return {.name = std::move(name), .generate = generate, .sizes = sizes(), .members = here()};
}

Stage Levels::across(std::string name, Generate generate) const {
  Stage stage{.name = std::move(name), .generate = generate, .level = 1, .sizes = {hosts()}};
  for (int host = 0; local_ < columns_ && host < hosts(); ++host)
    stage.members.push_back(on(host)[static_cast<std::size_t>(local_)]);
  return stage;
}

Stage Levels::from_leader(std::string name, Generate generate) const {
  Stage stage = inside(std::move(name), generate);
  stage.root = place_of(leaders()[static_cast<std::size_t>(host_)], here());
  return stage;
}

Stage Levels::across_leaders(std::string name, Generate generate) const {
  Stage stage{.name = std::move(name), .generate = generate, .level = 1, .sizes = {hosts()}, .members = leaders()};
  if (stage.members[static_cast<std::size_t>(host_)] != rank_) stage.members.clear();
  stage.root = root_host_;
  return stage;
}

Stage Levels::behind_column(std::string name, Generate generate) const {
  Stage stage = inside(std::move(name), generate);
  stage.sizes.clear();
  for (const int size : sizes()) {
    for (int column = 0; column < columns_; ++column) stage.sizes.push_back((size - column + columns_ - 1) / columns_);
  }
  stage.members = behind(host_, local_ % columns_);
  stage.blocks = chunks_of(stage.members);
  return stage;
}

Levels::Blocks Levels::chunks_of(const std::vector<int>& ranks) {
  Blocks blocks;
  for (const int rank : ranks) blocks.push_back({rank});
  return blocks;
}

Levels::Blocks Levels::of_columns() const {
  Blocks blocks(here().size());  // nothing for those that are in no column
  for (int column = 0; column < columns_; ++column) {
    std::vector<int>& chunks = blocks[static_cast<std::size_t>(column)];
    for (int host = 0; host < hosts(); ++host) std::ranges::copy(behind(host, column), std::back_inserter(chunks));
  }
  return blocks;
}

Levels::Blocks Levels::of_hosts_in_column() const {
  Blocks blocks;
  for (int host = 0; host < hosts(); ++host) blocks.push_back(behind(host, local_ % columns_));
  return blocks;
}

Levels::Blocks Levels::runs(int count, int width, int first) {
  Blocks blocks(static_cast<std::size_t>(count));
  for (int i = 0; i < count * width; ++i) blocks[static_cast<std::size_t>(i / width)].push_back(first + i);
  return blocks;
}

}  // namespace tutti::schedule
