#include "tools/bench/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tools/bench/driver/layout.h"
#include "tools/bench/implementations.h"

namespace tutti::bench {
namespace {

const std::vector<Verb> kReductions{Verb::all_reduce, Verb::reduce, Verb::reduce_scatter, Verb::scan,
                                    Verb::exclusive_scan};
const std::vector<Verb> kCopies{Verb::broadcast,  Verb::scatter,    Verb::gather,
                                Verb::all_gather, Verb::all_to_all, Verb::send_recv};

std::vector<Verb> both() {
  std::vector<Verb> all = kReductions;
  all.insert(all.end(), kCopies.begin(), kCopies.end());
  return all;
}

std::vector<std::string> those_there(std::initializer_list<const char*> wanted, const std::vector<std::string>& there) {
  std::vector<std::string> found;
  for (const char* name : wanted) {
    if (std::find(there.begin(), there.end(), name) != there.end()) found.emplace_back(name);
  }
  return found;
}

Plan plan_of(int ranks, const char* transport, std::vector<std::uint64_t> sizes, std::vector<std::string> against) {
  Plan plan;
  plan.verbs = both();
  plan.ranks = {ranks};
  plan.transport = transport;
  plan.sizes = std::move(sizes);
  plan.against = std::move(against);
  plan.place = Place::natural;
  plan.effort.cell_s = 0.6;
  return plan;
}

const std::vector<std::uint64_t> kSizes{8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20, 64 << 20};
const std::vector<std::uint64_t> kFewSizes{64, 4 << 10, 64 << 10, 1 << 20, 16 << 20};

void add_pair(FigureSet& set, const std::vector<std::string>& there) {
  Plan plan = plan_of(2, "shm", kSizes, those_there({"openmpi", "mpich", kLimit}, there));
  plan.symmetric = true;
  const std::size_t index = set.plans.size();
  set.plans.push_back(plan);
  using Kind = Figure::Kind;
  const auto add = [&](const char* where, bool symmetric, const std::vector<Verb>& verbs, double mean) {
    set.figures.push_back({where, index, Kind::peers, 2, symmetric, verbs, 0, "", 0.95, mean, 0.1});
  };
  add("shm, 2 ranks, ordinary, reductions", false, kReductions, 2.0);
  add("shm, 2 ranks, ordinary, copy verbs", false, kCopies, 1.2);
  add("shm, 2 ranks, symmetric, reductions", true, kReductions, 4);
  set.figures.push_back({"shm, 2 ranks, symmetric, all_reduce from 32 KB",
                         index,
                         Kind::peers,
                         2,
                         true,
                         {Verb::all_reduce},
                         32 << 10,
                         "",
                         0,
                         5});
  add("shm, 2 ranks, symmetric, copy verbs", true, kCopies, 1.6);
  set.figures.push_back({"symmetric all_reduce over limit, from 32 KB",
                         index,
                         Kind::limit,
                         2,
                         true,
                         {Verb::all_reduce},
                         32 << 10,
                         "",
                         0,
                         1.25});
}

void add_crowd(FigureSet& set, int ranks, const char* transport, std::vector<std::string> against, double floor,
               double mean, const std::string& only_peer = "") {
  const auto same = [&](const Plan& it) {
    return it.ranks.front() == ranks && it.transport == transport && it.against == against;
  };
  auto found = std::find_if(set.plans.begin(), set.plans.end(), same);
  if (found == set.plans.end())
    found = set.plans.insert(set.plans.end(), plan_of(ranks, transport, kFewSizes, against));
  const std::string rival = only_peer.empty() ? "" : ", against " + only_peer;
  set.figures.push_back({fmt::format("{}, {} ranks{}", transport, ranks, rival),
                         static_cast<std::size_t>(found - set.plans.begin()), Figure::Kind::peers, ranks, false, both(),
                         0, only_peer, floor, mean});
}

void add_regret(FigureSet& set) {
  Plan plan = plan_of(2, "shm", {64, 4 << 10, 64 << 10, 1 << 20}, {});
  plan.all_algorithms = true;
  plan.effort.rounds = 7;
  set.figures.push_back(
      {"shm, 2 ranks, regret of the choice", set.plans.size(), Figure::Kind::regret, 2, false, both(), 0, "", 0, 1.1});
  set.plans.push_back(plan);
}

// What everybody runs is held against what `tutti tune` would give, in every group that is tuned.
void add_tuned(FigureSet& set, std::size_t cores, const std::string& costs) {
  for (const char* transport : {"shm", "tcp"}) {
    for (const int ranks : {2, 4, 8, 16}) {
      const auto same = [&](const Plan& it) { return it.ranks.front() == ranks && it.transport == transport; };
      if (ranks == 16 && cores < 16) continue;
      if (std::find_if(set.plans.begin(), set.plans.end(), same) == set.plans.end())
        set.plans.push_back(plan_of(ranks, transport, kFewSizes, {}));
    }
  }
  for (std::size_t i = 0; i < set.plans.size(); ++i) {
    Plan& plan = set.plans[i];
    plan.tuned_costs = costs;
    for (const bool symmetric : {false, true}) {
      if (symmetric && !plan.symmetric) continue;
      set.figures.push_back({fmt::format("{}, {} ranks{}, untuned / tuned", plan.transport, plan.ranks.front(),
                                         symmetric ? ", symmetric" : ""),
                             i, Figure::Kind::tuned, plan.ranks.front(), symmetric, both(), 0, "", 1.25, 1.05, 0.1});
    }
  }
}

bool counts(const Figure& figure, const Row& row) {
  const bool verb = std::find(figure.verbs.begin(), figure.verbs.end(), row.cell.verb) != figure.verbs.end();
  return verb && row.ranks == figure.ranks && row.cell.symmetric == figure.symmetric &&
         row.bytes() >= figure.from_bytes;
}

std::vector<Ratio> ratios_for(const Figure& figure, const std::vector<Row>& rows) {
  switch (figure.kind) {
    case Figure::Kind::limit: return ratios_to_limit(rows);
    case Figure::Kind::regret: return regrets(rows);
    case Figure::Kind::tuned: return ratios_to_tuned(rows);
    case Figure::Kind::peers: break;
  }
  return ratios_to_peers(rows);
}

// One cell over all runs.
struct Merged {
  std::vector<double> values;
  std::vector<double> slower_us;  // than the other
  std::uint64_t bytes = 0;
};

}  // namespace

FigureSet figures_for(std::size_t cores, const std::vector<std::string>& there, const std::string& tuned_costs) {
  FigureSet set;
  add_pair(set, there);
  if (cores < 16) {
    for (const int ranks : {4, 8}) add_crowd(set, ranks, "shm", those_there({"openmpi"}, there), 1.0, 3);
  } else {
    for (const int ranks : {2, 8, 16}) {
      add_crowd(set, ranks, "shm", those_there({"openmpi", "torch-gloo"}, there), 0.95, 1.5, "openmpi");
      add_crowd(set, ranks, "shm", those_there({"openmpi", "torch-gloo"}, there), 0.95, 5, "torch-gloo");
    }
  }
  for (const int ranks : {2, 4}) add_crowd(set, ranks, "tcp", those_there({"openmpi", "gloo"}, there), 1.0, 1.5);
  if (!tuned_costs.empty()) add_tuned(set, cores, tuned_costs);
  add_regret(set);
  return set;
}

namespace {

Finding judge_ours(const Figure& figure, const std::vector<std::vector<Row>>& runs) {
  constexpr std::uint64_t kTinyBytes = 512;
  std::map<std::string, Merged> cells;
  for (std::vector<Row> rows : runs) {
    if (!figure.only_peer.empty()) {
      std::erase_if(rows, [&](const Row& row) { return row.impl != kOurs && row.impl != figure.only_peer; });
    }
    for (const Ratio& ratio : ratios_for(figure, rows)) {
      if (!counts(figure, *ratio.ours)) continue;
      Merged& cell = cells[text_of_cell(*ratio.ours)];
      cell.values.push_back(ratio.value);
      cell.slower_us.push_back(ratio.ours->timing.median_us - ratio.other->timing.median_us);
      cell.bytes = ratio.ours->bytes();
    }
  }
  const bool high_is_bad = figure.kind != Figure::Kind::peers;
  Finding finding;
  double logs = 0;
  for (const auto& [name, cell] : cells) {
    const double value = median_of(cell.values);
    const bool excused = cell.bytes < kTinyBytes && median_of(cell.slower_us) <= figure.tiny_us;
    logs += std::log(value);
    const bool beyond = high_is_bad ? value > figure.bound : value < figure.bound;
    if (figure.bound > 0 && beyond && !excused) ++finding.beyond;
    if (finding.cells++ == 0 || (high_is_bad ? value > finding.worst : value < finding.worst)) {
      finding.worst = value;
      finding.worst_cell = name;
    }
  }
  finding.mean = finding.cells == 0 ? 0 : std::exp(logs / static_cast<double>(finding.cells));
  finding.mean_met = high_is_bad ? finding.mean <= figure.mean : finding.mean >= figure.mean;
  return finding;
}

// As if what was measured by tuned costs were ours.
std::vector<std::vector<Row>> tuned_of(std::vector<std::vector<Row>> runs) {
  for (std::vector<Row>& rows : runs) {
    std::erase_if(rows, [](const Row& row) { return row.impl == kOurs && !row.forced; });
    for (Row& row : rows) {
      if (row.impl == kTuned) row.impl = kOurs;
    }
  }
  return runs;
}

}  // namespace

Finding judge(const Figure& figure, const std::vector<std::vector<Row>>& runs) {
  Finding finding = judge_ours(figure, runs);
  if (figure.kind != Figure::Kind::tuned) finding.tuned_mean = judge_ours(figure, tuned_of(runs)).mean;
  return finding;
}

std::string figure_heading() {
  return fmt::format("{:<48} {:>5} {:>8} {:>8} {:>8} {:>8} {:>8} {:>6}  {:<7} {}\n", "where", "cells", "untuned",
                     "tuned", "asked", "worst", "asked", "beyond", "", "the worst cell");
}

std::string figure_line(const Figure& figure, const Finding& finding) {
  if (finding.cells == 0) return fmt::format("{:<48} {:>5}  nothing to compare with\n", figure.where, 0);
  const bool high_is_bad = figure.kind != Figure::Kind::peers;
  const auto asked = [&](double value) {
    return value > 0 ? fmt::format("{}{:.4g}", high_is_bad ? "<=" : ">=", value) : std::string("-");
  };
  return fmt::format("{:<48} {:>5} {:>8.2f} {:>8} {:>8} {:>8.2f} {:>8} {:>6}  {:<7} {}\n", figure.where, finding.cells,
                     finding.mean, finding.tuned_mean > 0 ? fmt::format("{:.2f}", finding.tuned_mean) : "-",
                     asked(figure.mean), finding.worst, asked(figure.bound), finding.beyond,
                     finding.met() ? "met" : "MISSED", finding.worst_cell);
}

}  // namespace tutti::bench
