#include "tools/bench/ratios.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tools/bench/implementations.h"
#include "tools/bench/sizes.h"

namespace tutti::bench {
namespace {

// Whether both answer the same question, whatever memory and algorithm they use.
bool same_question(const Row& a, const Row& b) {
  Cell left = a.cell, right = b.cell;
  left.symmetric = right.symmetric = false;
  left.algorithm = right.algorithm = "";
  return left == right && a.ranks == b.ranks && a.transport == b.transport;
}

bool is_ours(const Row& row) { return row.impl == kOurs && !row.forced; }

// For every row of ours the quickest of `others`, and how the two compare.
template <class Others, class Compare>
std::vector<Ratio> held_against(const std::vector<Row>& rows, Others&& others, Compare&& compare) {
  std::vector<Ratio> ratios;
  for (const Row& ours : rows) {
    if (!is_ours(ours)) continue;
    const Row* best = nullptr;
    for (const Row& other : rows) {
      if (!same_question(ours, other) || !others(ours, other)) continue;
      if (best == nullptr || other.timing.median_us < best->timing.median_us) best = &other;
    }
    if (best != nullptr) ratios.push_back({&ours, best, compare(ours.timing.median_us, best->timing.median_us)});
  }
  return ratios;
}

// Ours / that of one implementation, with the same kind of buffers.
std::vector<Ratio> ratios_to(const std::vector<Row>& rows, std::string_view impl) {
  const auto same = [&](const Row& ours, const Row& other) {
    return other.impl == impl && other.cell.symmetric == ours.cell.symmetric;
  };
  return held_against(rows, same, [](double ours, double theirs) { return ours / theirs; });
}

struct Table {
  std::string title;
  std::set<std::uint64_t> columns;
  std::map<std::string, std::map<std::uint64_t, double>> lines;  // by verb
};

// One table for each (ranks, transport, buffers, place), in the order in which they were measured.
std::vector<Table> tables_of(const std::vector<Ratio>& ratios) {
  std::vector<Table> tables;
  for (const Ratio& ratio : ratios) {
    const Row& row = *ratio.ours;
    const std::string title = fmt::format("{} ranks, {}, {} buffers, {}", row.ranks, row.transport, row.buffers(),
                                          row.cell.in_place ? "in place" : "out of place");
    auto found = std::find_if(tables.begin(), tables.end(), [&](const Table& it) { return it.title == title; });
    if (found == tables.end()) found = tables.insert(tables.end(), Table{title, {}, {}});
    found->columns.insert(row.bytes());
    found->lines[std::string(name_of(row.cell.verb))][row.bytes()] = ratio.value;
  }
  return tables;
}

std::string text_of(const Table& table) {
  std::string text = fmt::format("#\n#   {}\n#   {:<16}", table.title, "");
  for (const std::uint64_t bytes : table.columns) text += fmt::format("{:>9}", text_of_bytes(bytes));
  text += '\n';
  for (const auto& [verb, cells] : table.lines) {
    text += fmt::format("#   {:<16}", verb);
    for (const std::uint64_t bytes : table.columns) {
      const auto found = cells.find(bytes);
      text += found == cells.end() ? fmt::format("{:>9}", "-") : fmt::format("{:>9.2f}", found->second);
    }
    text += '\n';
  }
  return text;
}

std::string extreme(const char* word, const Ratio& ratio) {
  return fmt::format("#   {}: {:.2f}, {} ({:.2f} us; {} {:.2f} us)\n", word, ratio.value, text_of_cell(*ratio.ours),
                     ratio.ours->timing.median_us, ratio.other->name(), ratio.other->timing.median_us);
}

std::string section(const char* heading, const std::vector<Ratio>& ratios, bool low_is_bad) {
  if (ratios.empty()) return "";
  std::string text = fmt::format("#\n# {}\n", heading);
  for (const Table& table : tables_of(ratios)) text += text_of(table);
  text += fmt::format("#\n#   geometric mean: {:.2f} over {} cell{}\n", geometric_mean(ratios), ratios.size(),
                      ratios.size() == 1 ? "" : "s");
  return text + extreme("worst cell", low_is_bad ? *lowest(ratios) : *highest(ratios));
}

// By which factor predictions are off, whichever way: as `tutti tune` says it.
std::string prediction_line(const std::vector<Ratio>& ratios) {
  if (ratios.empty()) return "";
  double off = 0;
  for (const Ratio& ratio : ratios) off += std::abs(std::log(ratio.value));
  return fmt::format("#\n# predicted / measured: {:.2f}, and off by a factor of {:.2f}, over {} row{}\n",
                     geometric_mean(ratios), std::exp(off / static_cast<double>(ratios.size())), ratios.size(),
                     ratios.size() == 1 ? "" : "s");
}

}  // namespace

std::vector<Ratio> ratios_to_peers(const std::vector<Row>& rows) {
  const auto peer = [](const Row&, const Row& other) {
    return other.impl != kOurs && other.impl != kTuned && other.impl != kBrought && other.impl != kLimit;
  };
  return held_against(rows, peer, [](double ours, double theirs) { return theirs / ours; });
}

std::vector<Ratio> ratios_to_limit(const std::vector<Row>& rows) { return ratios_to(rows, kLimit); }

std::vector<Ratio> ratios_to_tuned(const std::vector<Row>& rows) { return ratios_to(rows, kTuned); }

std::vector<Ratio> regrets(const std::vector<Row>& rows) {
  const auto own = [](const Row& ours, const Row& other) {
    return other.impl == kOurs && other.forced && other.cell.symmetric == ours.cell.symmetric;
  };
  return held_against(rows, own, [](double ours, double best) { return std::max(1.0, ours / best); });
}

std::vector<Ratio> predictions(const std::vector<Row>& rows) {
  std::vector<Ratio> ratios;
  for (const Row& row : rows) {
    const bool told = row.impl == kOurs && row.predicted_us.value_or(0) > 0 && row.timing.median_us > 0;
    if (told) ratios.push_back({&row, &row, *row.predicted_us / row.timing.median_us});
  }
  return ratios;
}

double geometric_mean(const std::vector<Ratio>& ratios) {
  double sum = 0;
  for (const Ratio& ratio : ratios) sum += std::log(ratio.value);
  return ratios.empty() ? 1 : std::exp(sum / static_cast<double>(ratios.size()));
}

const Ratio* lowest(const std::vector<Ratio>& ratios) {
  const auto less = [](const Ratio& a, const Ratio& b) { return a.value < b.value; };
  const auto found = std::min_element(ratios.begin(), ratios.end(), less);
  return found == ratios.end() ? nullptr : &*found;
}

const Ratio* highest(const std::vector<Ratio>& ratios) {
  const auto less = [](const Ratio& a, const Ratio& b) { return a.value < b.value; };
  const auto found = std::max_element(ratios.begin(), ratios.end(), less);
  return found == ratios.end() ? nullptr : &*found;
}

std::string text_of_cell(const Row& row) {
  return fmt::format("{} {}, {} ranks, {}, {}{}", name_of(row.cell.verb), text_of_bytes(row.bytes()), row.ranks,
                     row.transport, row.buffers(), row.cell.in_place ? ", in place" : "");
}

std::string summary_of(const std::vector<Row>& rows) {
  return section("best peer's median / ours (above 1: ours is faster)", ratios_to_peers(rows), true) +
         section("ours / the limit written by hand (1: nothing to gain)", ratios_to_limit(rows), false) +
         section("untuned / tuned (1: `tutti tune` would gain nothing)", ratios_to_tuned(rows), false) +
         section("regret: the chosen algorithm / the best that was tried (1: the best was chosen)", regrets(rows),
                 false) +
         prediction_line(predictions(rows));
}

}  // namespace tutti::bench
