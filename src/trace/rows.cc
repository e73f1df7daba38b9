#include "trace/rows.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace tutti::trace {
namespace {

enum class RowGroup : std::uint8_t { program, async, buckets, lane };

// A kind of row: which of its group, and which of those that hold what would not nest in the ones before.
struct RowKind {
  RowGroup group = RowGroup::program;
  int number = 0;
  int beside = 0;

  auto operator<=>(const RowKind&) const = default;

  std::string name() const {
    if (group == RowGroup::async) return "async " + std::to_string(beside + 1);
    std::string text = group == RowGroup::lane      ? "lane " + std::to_string(number)
                       : group == RowGroup::buckets ? "buckets"
                       : number == 0                ? "program"
                                                    : "thread " + std::to_string(number + 1);
    return beside == 0 ? text : text + ", besides " + std::to_string(beside);
  }
};

RowKind kind_of(const TraceEvent& event) {
  switch (event.kind) {
    case EventKind::step: return {RowGroup::lane, event.name};
    case EventKind::bucket: return {RowGroup::buckets};
    case EventKind::call:
      if (event.is_async()) return {RowGroup::async};
      break;
    default: break;
  }
  return {RowGroup::program, event.thread};
}

// Slices of a group in the order of their begins, longer ones first, put into as few rows as they fit in one by one.
class Packing {
 public:
  explicit Packing(bool nests) : nests_(nests) {}

  int place(const Slice& slice) {
    for (std::size_t row = 0;; ++row) {
      if (row == open_.size()) open_.emplace_back();
      std::vector<std::int64_t>& ends = open_[row];
      while (!ends.empty() && ends.back() <= slice.begin_ns) ends.pop_back();
      if (!ends.empty() && !(nests_ && slice.end_ns <= ends.back())) continue;
      ends.push_back(slice.end_ns);
      return static_cast<int>(row);
    }
  }
  int rows() const { return static_cast<int>(open_.size()); }

 private:
  bool nests_;
  std::vector<std::vector<std::int64_t>> open_;  // by row: the ends of the slices that one lies in
};

using Slices = std::vector<Slice*>;

// Until all rows are known, Slice::row is which of those of its group that hold what would not nest.
//
// Steps of training give way where they would not nest: a span of the program's may go across the end of one.
void pack_program(const Slices& slices) {
  Packing all(true);
  for (Slice* const slice : slices) slice->row = all.place(*slice);
  if (all.rows() <= 1) return;
  const auto is_step = [](const Slice* slice) { return slice->event.kind == EventKind::train_step; };
  Packing others(true), steps(true);
  for (Slice* const slice : slices)
    if (!is_step(slice)) slice->row = others.place(*slice);
  for (Slice* const slice : slices)
    if (is_step(slice)) slice->row = others.rows() + steps.place(*slice);
}

}  // namespace

void assign_rows(JobTrace& job) {
  std::map<std::tuple<int, RowGroup, int>, Slices> groups;  // by rank, group and number
  for (Slice& slice : job.slices) {
    const RowKind kind = kind_of(slice.event);
    groups[{slice.rank, kind.group, kind.number}].push_back(&slice);
  }
  std::map<RowKind, int> rows{{RowKind{}, 0}};
  for (auto& [key, slices] : groups) {
    std::ranges::stable_sort(slices, [](const Slice* a, const Slice* b) {
      return a->begin_ns != b->begin_ns ? a->begin_ns < b->begin_ns : a->end_ns > b->end_ns;
    });
    const auto [rank, group, number] = key;
    if (group == RowGroup::program) {
      pack_program(slices);
    } else {
      Packing packing(group == RowGroup::lane);
      for (Slice* const slice : slices) slice->row = packing.place(*slice);
    }
    for (const Slice* const slice : slices) rows.emplace(RowKind{group, number, slice->row}, 0);
  }
  for (auto& [kind, row] : rows) {
    row = static_cast<int>(job.rows.size());
    job.rows.push_back(kind.name());
  }
  for (Slice& slice : job.slices) {
    RowKind kind = kind_of(slice.event);
    kind.beside = slice.row;
    slice.row = rows.find(kind)->second;
  }
}

}  // namespace tutti::trace
