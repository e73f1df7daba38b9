// tutti study straggler: an all_to_all and a ring with one slow rank: who is named, and what it costs, measured beside
// simulated.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "tools/bench/row.h"
#include "tools/bench/sizes.h"
#include "tools/simulation.h"
#include "tools/straggler.h"
#include "tools/studies.h"
#include "tools/study.h"
#include "tools/study_ranks.h"
#include "tools/study_simulated.h"
#include "tools/svg.h"
#include "tools/verbs.h"
#include "tools/visits.h"

namespace tutti::tools {
namespace {

struct StragglerRequest {
  StudyOptions study;
  int ranks = 4, steps = 25;
  std::string slow, bytes = "256K";
  double work_ms = 5;
};

using Slow = schedule::SimulateOptions::Straggler;

std::optional<Slow> slow_of(const StragglerRequest& asked) {
  if (asked.slow.empty()) return std::nullopt;
  const Slow slow =
      slow_rank(asked.slow, "--slow", "a rank and how many times as long it takes belong there, such as 3:2x");
  if (slow.rank < 0 || slow.rank >= asked.ranks)
    refuse(fmt::format("--slow {}: ranks are 0 to {}", asked.slow, asked.ranks - 1));
  if (!(slow.factor >= 1)) refuse(fmt::format("--slow {}: a slow rank takes at least 1 times as long", asked.slow));
  return slow;
}

// When ranks called, step by step: a row for each rank.
std::string picture_of_arrivals(const StepsTaken& taken, const std::string& title) {
  constexpr double kLeft = 70, kTop = 40, kRow = 26, kWidth = 820;
  const std::size_t steps = taken.arrivals.size(), ranks = taken.arrivals.front().size();
  double latest = 1;
  for (const std::vector<double>& step : taken.arrivals) latest = std::max(latest, *std::ranges::max_element(step));
  Svg svg(kLeft + kWidth + 20, kTop + kRow * static_cast<double>(ranks) + 30);
  svg.text({10, 22}, title, {14, Svg::Anchor::start, "#222222", true});
  const double column = kWidth / static_cast<double>(steps);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const double y = kTop + kRow * static_cast<double>(rank);
    svg.text({10, y + 16}, fmt::format("rank {}", rank));
    for (std::size_t step = 0; step < steps; ++step) {
      const double late = taken.arrivals[step][rank];
      const double height = (kRow - 6) * late / latest;
      svg.box({kLeft + column * static_cast<double>(step), y + kRow - 4 - height, column * 0.8, height},
              svg_colour(rank), fmt::format("rank {}, step {}: {:.0f} us behind the first", rank, step, late));
    }
    svg.line({kLeft, y + kRow - 4}, {kLeft + kWidth, y + kRow - 4}, "#cccccc");
  }
  svg.text({kLeft, kTop + kRow * static_cast<double>(ranks) + 18},
           fmt::format("how long behind the first each rank called, step by step; up to {:.1f} ms", latest / 1e3),
           {11});
  return svg.str();
}

// A verb whose messages the simulator knows as well, with all ranks alike or one slow.
struct StragglerPoint {
  Verb verb = Verb::all_reduce;
  const char* algorithm = "";
  bool slowed = false;
  double simulated_us = 0;
  StepsTaken last;                              // of the last visit
  std::vector<double> us;                       // of a step, by visit
  std::vector<std::optional<Straggler>> named;  // likewise

  std::string name() const { return fmt::format("{} by {}", name_of(verb), algorithm); }
};

std::vector<StragglerPoint> points_of(bool has_slow) {
  std::vector<StragglerPoint> points;
  for (const auto& [verb, algorithm] :
       {std::pair(Verb::all_to_all, "spread_out"), std::pair(Verb::all_reduce, "ring")}) {
    for (const bool slowed : {false, true}) {
      if (slowed && !has_slow) continue;
      StragglerPoint& point = points.emplace_back();
      point.verb = verb;
      point.algorithm = algorithm;
      point.slowed = slowed;
    }
  }
  return points;
}

StepsRequest steps_of(const StragglerRequest& asked, const StragglerPoint& point, const std::optional<Slow>& slow) {
  StepsRequest steps{.verb = point.verb,
                     .algorithm = point.algorithm,
                     .ranks = asked.ranks,
                     .bytes = bench::parse_bytes(asked.bytes, "-b"),
                     .steps = asked.steps,
                     .work_us = asked.work_ms * 1e3,
                     .sleeps = true};
  if (point.slowed) {
    steps.slower.assign(static_cast<std::size_t>(asked.ranks), 1);
    steps.slower[static_cast<std::size_t>(slow->rank)] = slow->factor;
  }
  return steps;
}

// How many visits named the one who is slow, or nobody where nobody is.
std::size_t right_of(const StragglerPoint& point, const std::optional<Slow>& slow) {
  const bool is_slow = point.slowed && slow->factor > 1;
  return static_cast<std::size_t>(std::ranges::count_if(point.named, [&](const std::optional<Straggler>& who) {
    return is_slow ? who && static_cast<int>(who->rank) == slow->rank : !who;
  }));
}

void tell_point(StudyReport& report, nlohmann::ordered_json& rows, const StragglerPoint& point,
                const std::optional<Slow>& slow, const Spread& us, double healthy_us) {
  const std::optional<Straggler>& who = point.named.back();
  const std::string words = who ? fmt::format("rank {}, {:.1f} ms late", who->rank, who->late_us / 1e3) : "nobody";
  report.rows.push_back({point.name(), point.slowed ? fmt::format("{} slow", slow->rank) : "healthy",
                         fmt::format("{:.2f}", us.median / 1e3), fmt::format("{:.2f}", us.least / 1e3),
                         fmt::format("{:.2f}", us.most / 1e3), fmt::format("{:.2f}", point.simulated_us / 1e3),
                         fmt::format("{:.2f}", us.median / healthy_us),
                         fmt::format("{} ({} of {} right)", words, right_of(point, slow), point.named.size())});
  nlohmann::ordered_json names = nlohmann::ordered_json::array();
  for (const auto& each : point.named) names.push_back(each ? nlohmann::ordered_json(each->rank) : nullptr);
  rows.push_back({{"verb", name_of(point.verb)},
                  {"algorithm", point.algorithm},
                  {"slowed", point.slowed ? nlohmann::ordered_json(slow->rank) : nullptr},
                  {"step_us", {{"median", us.median}, {"least", us.least}, {"most", us.most}}},
                  {"simulated_us", point.simulated_us},
                  {"named", std::move(names)}});
  report.pictures.push_back(
      picture_of_arrivals(point.last, point.name() + (point.slowed ? ", one rank slow" : ", healthy")));
}

void study_straggler(const StragglerRequest& asked) {
  asked.study.require_outputs();
  const std::optional<Slow> slow = slow_of(asked);
  std::vector<StragglerPoint> points = points_of(slow.has_value());
  for (StragglerPoint& point : points) point.simulated_us = simulated_step_us(steps_of(asked, point, slow));
  const auto visit = [&](std::size_t at) {
    StragglerPoint& point = points[at];
    point.last = take_steps(steps_of(asked, point, slow));
    const double us = bench::median_of(point.last.step_us);
    return std::pair(us, find_straggler(point.last.arrivals, us));
  };
  const auto seen = Visits(points.size(), asked.study.rounds, asked.study.seed, "tutti study straggler").run(visit);
  StudyReport report;
  report.title = slow ? fmt::format("{} ranks, rank {} takes {:g} times as long", asked.ranks, slow->rank, slow->factor)
                      : fmt::format("{} ranks, none slowed", asked.ranks);
  report.head = {"verb", "ranks", "step ms", "least", "most", "simulated ms", "times healthy", "named"};
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  double healthy_us = 0;
  for (std::size_t at = 0; at < points.size(); ++at) {
    for (const auto& [us, named] : seen[at]) {
      points[at].us.push_back(us);
      points[at].named.push_back(named);
    }
    const Spread us = spread_of(points[at].us);
    if (!points[at].slowed) healthy_us = us.median;
    tell_point(report, rows, points[at], slow, us, healthy_us);
  }
  if (slow)
    report.sentences.push_back(
        "All wait for the last to come, whatever the verb: a step takes what the slow rank's does.");
  report.sentences.push_back("Simulated: every rank starts when its work is done, by this host's costs.");
  report.json["study"] = "straggler";
  report.json["ranks"] = asked.ranks;
  report.json["rows"] = std::move(rows);
  report.deliver(asked.study);
}

}  // namespace

void add_study_straggler(CLI::App& study, int& exit_code) {
  CLI::App* verb = study.add_subcommand("straggler", "One slow rank: who is named, and what it costs");
  const auto asked = std::make_shared<StragglerRequest>();
  verb->add_option("-n,--ranks", asked->ranks, "Processes of this host; 4 if left out")
      ->type_name("N")
      ->check(CLI::Range(2, 256));
  verb->add_option("--slow", asked->slow, "A rank, and how many times as long its work takes: 3:2x; none if left out")
      ->type_name("RANK:FACTOR");
  verb->add_option("-b,--bytes", asked->bytes, "Of a call; 256K if left out")->type_name("BYTES");
  verb->add_option("--steps", asked->steps, "Of a run; 25 if left out")->type_name("N")->check(CLI::Range(3, 100'000));
  verb->add_option("--work-ms", asked->work_ms, "Of a rank in a step, in which it sleeps; 5 if left out")
      ->type_name("MS")
      ->check(number_between(0.01, 1e5));
  asked->study.add_to(*verb);
  verb->callback([asked, &exit_code] {
    study_straggler(*asked);
    exit_code = 0;
  });
}

}  // namespace tutti::tools
