#include "tools/bench/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "tools/bench/driver/layout.h"
#include "tools/bench/implementations.h"

namespace tutti::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kHalfWidth = 73;

std::string number(double value) {
  return value >= 10000 ? fmt::format("{:.0f}", value)
         : value >= 100 ? fmt::format("{:.1f}", value)
                        : fmt::format("{:.2f}", value);
}

std::string half(const Row* row) {
  if (row == nullptr)
    return fmt::format("{:>10} {:>5} {:>8} {:>8} {:>7} {:>20} {:>9}", "-", "-", "-", "-", "-", "-", "-");
  return fmt::format("{:>10} {:>5.1f} {:>8.2f} {:>8.2f} {:>7} {:>20} {:>9}", number(row->timing.median_us),
                     row->timing.spread * 100, row->algbw(), row->busbw(),
                     row->wrong ? std::to_string(*row->wrong) : "-", row->algorithm.empty() ? "-" : row->algorithm,
                     row->predicted_us ? number(*row->predicted_us) : "-");
}

// The same contestant in the same size; its two rows differ in place only.
bool same_line(const Row& a, const Row& b) {
  return a.impl == b.impl && a.cell.symmetric == b.cell.symmetric && a.cell.algorithm == b.cell.algorithm &&
         a.cell.verb == b.cell.verb && a.cell.count == b.cell.count && a.ranks == b.ranks;
}

std::string line_of(const Row& row, const Row* apart, const Row* in_place) {
  const Cell& cell = row.cell;
  const std::string name = row.name();
  return fmt::format("{:<14} {:<24} {:<10} {:>5} {:>11} {:>11} {:>10} {:>8} {:>5} {} {}\n", name_of(cell.verb),
                     name.substr(name.find_last_of('/') + 1), row.buffers(), row.ranks, row.bytes(), cell.count,
                     name_of(cell.type), is_reduction(cell.verb) ? name_of(cell.op) : "none",
                     has_root(cell.verb) ? cell.root : -1, half(apart), half(in_place));
}

Json json_row(const Row& row) {
  const auto maybe = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  return {{"impl", row.name()},
          {"verb", name_of(row.cell.verb)},
          {"ranks", row.ranks},
          {"transport", row.transport},
          {"buffers", row.buffers()},
          {"in_place", row.cell.in_place},
          {"bytes", row.bytes()},
          {"time_us_median", row.timing.median_us},
          {"time_us_min", row.timing.min_us},
          {"algbw", row.algbw()},
          {"busbw", row.busbw()},
          {"wrong", maybe(row.wrong)},
          {"algorithm", row.algorithm.empty() ? Json(nullptr) : Json(row.algorithm)},
          {"predicted_us", maybe(row.predicted_us)}};
}

}  // namespace

std::string table_heading() {
  const std::string half_names = fmt::format("{:>10} {:>5} {:>8} {:>8} {:>7} {:>20} {:>9}", "time", "+-", "algbw",
                                             "busbw", "#wrong", "algorithm", "predicted");
  const std::string half_units =
      fmt::format("{:>10} {:>5} {:>8} {:>8} {:>7} {:>20} {:>9}", "(us)", "(%)", "(GB/s)", "(GB/s)", "", "", "(us)");
  const auto line = [](auto... words) {
    return fmt::format("#{:<13} {:<24} {:<10} {:>5} {:>11} {:>11} {:>10} {:>8} {:>5} ", words...);
  };
  return line("", "", "", "", "", "", "", "", "") +
         fmt::format("{:^{}} {:^{}}\n", "out-of-place", kHalfWidth, "in-place", kHalfWidth) +
         line(" verb", "impl", "buffers", "ranks", "size", "count", "type", "redop", "root") + half_names + " " +
         half_names + "\n" + line("", "", "", "", "(B)", "(elements)", "", "", "") + half_units + " " + half_units +
         "\n";
}

std::string table_lines(const std::vector<Row>& rows) {
  std::string text;
  std::vector<const Row*> done;
  for (const Row& row : rows) {
    if (std::any_of(done.begin(), done.end(), [&](const Row* it) { return same_line(*it, row); })) continue;
    done.push_back(&row);
    const Row* halves[2] = {nullptr, nullptr};
    for (const Row& other : rows) {
      if (same_line(row, other)) halves[other.cell.in_place ? 1 : 0] = &other;
    }
    text += line_of(row, halves[0], halves[1]);
  }
  return text;
}

std::string table_footer(const std::vector<Row>& rows) {
  std::uint64_t wrong = 0, checked = 0;
  double sum = 0, number = 0;
  for (const Row& row : rows) {
    wrong += row.wrong.value_or(0);
    checked += row.wrong ? 1 : 0;
    if (row.impl != kOurs || row.forced || row.cell.verb == Verb::barrier) continue;
    sum += row.busbw();
    ++number;
  }
  return fmt::format("# Out of bounds values : {} {}\n# Avg bus bandwidth    : {:.5g}\n", wrong,
                     wrong != 0     ? "FAILED"
                     : checked == 0 ? "not checked"
                                    : "OK",
                     number > 0 ? sum / number : 0);
}

std::string json_of(const std::vector<Row>& rows) {
  Json all = Json::array();
  for (const Row& row : rows) all.push_back(json_row(row));
  return json_text(all, 1) + "\n";
}

std::string csv_of(const std::vector<Row>& rows) {
  std::string text;
  const auto add = [&](const Json& row, bool names) {
    std::string line;
    for (const auto& [key, value] : row.items()) {
      const std::string cell = names               ? key
                               : value.is_string() ? value.template get<std::string>()
                               : value.is_null()   ? ""
                                                   : value.dump();
      line += (line.empty() ? "" : ",") + cell;
    }
    text += line + "\n";
  };
  add(json_row(Row{}), true);
  for (const Row& row : rows) add(json_row(row), false);
  return text;
}

}  // namespace tutti::bench
