#include "tools/bench/suite.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "schedule/algorithms/table.h"
#include "tools/bench/driver/layout.h"
#include "tools/bench/implementations.h"
#include "tools/bench/sizes.h"
#include "topology/discover/cores.h"
#include "topology/discover/cost_file.h"
#include "tutti/error.h"

namespace tutti::bench {
namespace {

constexpr std::chrono::seconds kStartLimit{60};

// The cells of one line of the table.
std::vector<Cell> cells_of(const Plan& plan, Verb verb, std::uint64_t size, int ranks) {
  Cell cell;
  cell.verb = verb;
  cell.type = plan.type;
  cell.op = plan.op;
  cell.root = has_root(verb) ? plan.root : 0;
  cell.count = count_for(verb, plan.type, ranks, size);
  std::vector<Cell> cells;
  for (const bool in_place : {false, true}) {
    if (in_place && !has_in_place(verb)) continue;
    if (plan.place == Place::natural && in_place != (verb == Verb::broadcast)) continue;
    cell.in_place = in_place;
    cell.copies = 1;
    if (plan.rotate_bytes != 0 && verb != Verb::barrier) {
      constexpr std::uint64_t kMostCopies = 4096;
      const std::uint64_t each = Layout::most_bytes(cell, ranks) * static_cast<std::uint64_t>(ranks);
      cell.copies = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(plan.rotate_bytes / each, 2, kMostCopies));
    }
    cells.push_back(cell);
  }
  return cells;
}

// All lines: sizes that come to the same count are one.
std::vector<std::vector<Cell>> lines_of(const Plan& plan, int ranks) {
  std::vector<std::vector<Cell>> lines;
  for (const Verb verb : plan.verbs) {
    std::set<std::uint64_t> counts;
    for (const std::uint64_t size : plan.sizes) {
      std::vector<Cell> cells = cells_of(plan, verb, size, ranks);
      if (!cells.empty() && counts.insert(cells.front().count).second) lines.push_back(std::move(cells));
    }
  }
  return lines;
}

class Suite {
 public:
  Suite(Session& session, const Plan& plan, const Listener& listener, Results& results)
      : session_(session), plan_(plan), listener_(listener), results_(results) {}

  void run() {
    std::size_t all = 0, done = 0;
    for (const int ranks : plan_.ranks) all += lines_of(plan_, ranks).size();
    for (const int ranks : plan_.ranks) {
      const auto lines = lines_of(plan_, ranks);
      start(ranks, lines);
      for (const std::vector<Cell>& line : lines) {
        std::vector<Row> rows;
        for (const Cell& cell : line) {
          listener_.progress(done, all, what(cell, ranks));
          for (Row& row : measure(cell, ranks, plan_.transport, contestants(cell), effort(ranks), notes())) {
            row.on_device = plan_.on_device;
            rows.push_back(std::move(row));
          }
        }
        ++done;
        results_.rows.insert(results_.rows.end(), rows.begin(), rows.end());
        listener_.size_done(rows);
        if (results_.ours_failed) return;
      }
      for (const auto& group : groups_) group->end(true);
      groups_.clear();
      told_.clear();
    }
  }

 private:
  static std::string what(const Cell& cell, int ranks) {
    Row row;
    row.cell = cell;
    row.ranks = ranks;
    return fmt::format("{} {}, {} ranks", name_of(cell.verb), text_of_bytes(row.bytes()), ranks);
  }

  // Ranks that take turns on a core are measured for longer, or a batch would be one turn.
  Effort effort(int ranks) const {
    Effort effort = plan_.effort;
    if (static_cast<std::size_t>(ranks) > cores_.size()) effort.batch_s *= 4;
    return effort;
  }

  void start(int ranks, const std::vector<std::vector<Cell>>& lines) {
    StartFacts facts;
    facts.ranks = ranks;
    facts.round_hosts = plan_.round_hosts;
    facts.transport = plan_.transport;
    facts.on_device = plan_.on_device;
    facts.own_devices = plan_.own_devices;
    facts.cores = cores_.size();
    if (plan_.pinned) facts.processors = cores_;
    for (const auto& line : lines) {
      for (const Cell& cell : line) facts.bytes = std::max(facts.bytes, Layout::most_bytes(cell, ranks));
    }
    std::vector<std::string> names{kOurs};
    if (!plan_.tuned_costs.empty()) names.emplace_back(kTuned);
    if (!plan_.schedule.empty()) names.emplace_back(kBrought);
    if (!plan_.namespaces.empty()) names.emplace_back(kFlat);
    names.insert(names.end(), plan_.against.begin(), plan_.against.end());
    for (const std::string& name : names) groups_.push_back(std::make_unique<Group>(session_, name, ranks));
    listener_.progress(results_.rows.empty() ? 0 : 1, 0, fmt::format("starting {} ranks of each", ranks));
    const auto attempt = [&](const auto& act) {
      for (const auto& group : groups_) {
        try {
          if (group->alive()) act(*group);
        } catch (const Dropped& dropped) {
          lose(*group, "cannot start", dropped.what());
        }
      }
    };
    attempt([&](Group& group) {
      if (!plan_.tuned_costs.empty()) facts.costs = group.name() == kTuned ? plan_.tuned_costs : topology::kBuiltIn;
      facts.schedule = group.name() == kBrought ? plan_.schedule : "";
      facts.hosts = network_namespaces(plan_.namespaces);  // each time: another port
      start_ranks(group, facts);
      group.await_hello(kStartLimit);  // before the next: what a group finds out about the machine, it finds out alone
    });
    for (const auto& group : groups_) {
      const std::string version = fmt::format("{}: {}", group->name(), group->about());
      const bool known =
          std::find(results_.versions.begin(), results_.versions.end(), version) != results_.versions.end();
      if (group->alive() && !known) results_.versions.push_back(version);
    }
    if (results_.ours_failed) throw Error(ErrorCode::system, "Tutti's own ranks did not start: " + why_ours_dropped());
  }

  void lose(const Group& group, const std::string& when, const std::string& why) {
    if (!told_.insert(&group).second) return;
    listener_.note(fmt::format("{} {}, and is left out from here on: {}", group.name(), when, why));
    if (group.name() == kOurs || group.name() == kBrought) results_.ours_failed = true;
  }

  std::string why_ours_dropped() const {
    const auto dropped =
        std::find_if(groups_.begin(), groups_.end(), [](const auto& group) { return !group->alive(); });
    return dropped == groups_.end() ? "" : (*dropped)->why_dropped();
  }

  Notes notes() {
    Notes notes;
    notes.cannot = [](const Contestant&, const Cell&, const std::string&) {};
    notes.dropped = [this](const Contestant& contestant, const Cell& cell, const std::string& why) {
      lose(*contestant.group, fmt::format("failed in {} of {} elements", name_of(cell.verb), cell.count), why);
    };
    return notes;
  }

  std::vector<Contestant> contestants(const Cell& cell) const {
    std::vector<Contestant> all;
    const bool two_kinds = plan_.symmetric && shares_memory(plan_.transport);
    for (const auto& group : groups_) {
      const bool ours = group->name() == kOurs;
      if (!ours && group->name() != kTuned && group->name() != kLimit) {
        all.push_back({group.get(), false, ""});
        continue;
      }
      for (const bool symmetric : {false, true}) {
        if (symmetric ? !two_kinds : !plan_.ordinary) continue;
        all.push_back({group.get(), symmetric, ""});
        if (!ours || !plan_.all_algorithms || cell.verb == Verb::send_recv) continue;
        for (const schedule::Algorithm& row : schedule::algorithms()) {
          if (row.verb == cell.verb && row.canonical()) all.push_back({group.get(), symmetric, std::string(row.name)});
        }
      }
    }
    return all;
  }

  Session& session_;
  const Plan& plan_;
  const Listener& listener_;
  Results& results_;
  std::vector<int> cores_ = topology::first_processors();
  std::vector<std::unique_ptr<Group>> groups_;
  std::set<const Group*> told_;
};

}  // namespace

void check_plan(const Plan& plan) {
  const auto refuse = [](const std::string& why) { throw Error(ErrorCode::invalid_argument, why); };
  const int fewest = *std::min_element(plan.ranks.begin(), plan.ranks.end());
  if (plan.root < 0 || plan.root >= fewest) {
    refuse(fmt::format("-r must be one of the ranks 0 to {}, not {}", fewest - 1, plan.root));
  }
  if (plan.symmetric && !plan.ordinary && !shares_memory(plan.transport)) {
    refuse(fmt::format("--buffers symmetric means nothing over {}: memory that ranks share needs shm", plan.transport));
  }
  if (plan.on_device && plan.symmetric)
    refuse("--memory device has one kind of buffers: leave --buffers out, a launch reaches all of them");
  for (const Verb verb : plan.verbs) {
    if (verb == Verb::send_recv && fewest < 2) refuse("send_recv needs two ranks at least: -n 2");
    if (schedule::facts_of(verb).prefix && plan.op == ReduceOp::average)
      refuse(fmt::format("{} has no average: use -o sum", name_of(verb)));
  }
  if (plan.op == ReduceOp::premul_sum) refuse("-o premul_sum has a factor per rank, and is not measured: use -o sum");
}

void run_plan(Session& session, const Plan& plan, const Listener& listener, Results& results) {
  Suite(session, plan, listener, results).run();
}

}  // namespace tutti::bench
