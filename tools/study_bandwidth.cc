// tutti study bandwidth: what a verb moves, over ranks and sizes, beside what the model expects.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "choice/chooser.h"
#include "tools/bench/row.h"
#include "tools/bench/sizes.h"
#include "tools/chart.h"
#include "tools/studies.h"
#include "tools/study.h"
#include "tools/study_ranks.h"
#include "tools/verbs.h"
#include "tools/visits.h"

namespace tutti::tools {
namespace {

struct BandwidthRequest {
  StudyOptions study;
  std::string verb = "all_reduce", ranks = "2", begin = "1K", end = "16M";
  double factor = 8;
};

struct SizePoint {
  int ranks = 2;
  std::uint64_t bytes = 0;
};

void study_bandwidth(BandwidthRequest& asked) {
  asked.study.require_outputs();
  const Verb* const verb = choice::find_verb(asked.verb);
  if (verb == nullptr) refuse(choice::no_verb(asked.verb));
  if (*verb == Verb::barrier) refuse("a barrier moves nothing; name another verb");
  if (*verb == Verb::send_recv) refuse("a message is no call of all ranks: `tutti bench send_recv` times it");
  std::vector<SizePoint> points;
  const bench::Sizes span{.begin = bench::parse_bytes(asked.begin, "-b"),
                          .end = bench::parse_bytes(asked.end, "-e"),
                          .factor = asked.factor};
  const std::vector<std::uint64_t> sizes = bench::sizes_of(span);
  for (const int ranks : bench::parse_ranks(asked.ranks, "--ranks")) {
    if (ranks < 2) refuse("--ranks: one rank moves nothing; 2 is the least");
    for (const std::uint64_t bytes : sizes) points.push_back({ranks, bytes});
  }

  std::vector<double> predicted(points.size());
  const auto visit = [&](std::size_t i) {
    const TimedCall timed = time_call(*verb, points[i].ranks, points[i].bytes);
    predicted[i] = timed.predicted_us;
    return timed.us;
  };
  const std::vector<std::vector<double>> seen =
      Visits(points.size(), asked.study.rounds, asked.study.seed, "tutti study bandwidth").run(visit);

  StudyReport report;
  report.title = fmt::format("{}: busbw over ranks and size", asked.verb);
  report.head = {"ranks", "size", "median us", "least", "most", "busbw GB/s", "expected us", "expected GB/s"};
  Chart chart{.title = report.title,
              .across = "bytes",
              .upwards = "busbw, GB/s",
              .places = {sizes.begin(), sizes.end()},
              .lines = {}};
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Spread spread = spread_of(seen[i]);
    const auto [ranks, bytes] = points[i];
    const auto busbw_in = [&](double us) {
      bench::Row row;
      row.cell.verb = *verb;
      row.cell.count = bench::count_for(*verb, DType::float32, ranks, bytes);
      row.ranks = ranks;
      row.timing.median_us = us;
      return us > 0 ? row.busbw() : 0;
    };
    const double busbw = busbw_in(spread.median), expected = busbw_in(predicted[i]);
    report.rows.push_back({std::to_string(ranks), bench::text_of_bytes(bytes), fmt::format("{:.2f}", spread.median),
                           fmt::format("{:.2f}", spread.least), fmt::format("{:.2f}", spread.most),
                           fmt::format("{:.3f}", busbw), fmt::format("{:.2f}", predicted[i]),
                           fmt::format("{:.3f}", expected)});
    rows.push_back({{"ranks", ranks},
                    {"bytes", bytes},
                    {"us", {{"median", spread.median}, {"least", spread.least}, {"most", spread.most}}},
                    {"busbw", busbw},
                    {"predicted_us", predicted[i]},
                    {"predicted_busbw", expected}});
    if (i % sizes.size() == 0) {
      chart.lines.push_back({fmt::format("{} ranks", ranks), {}});
      chart.lines.push_back({fmt::format("{} ranks, expected", ranks), {}, true});
    }
    chart.lines[chart.lines.size() - 2].values.push_back(busbw);
    chart.lines.back().values.push_back(expected);
  }
  report.json["study"] = "bandwidth";
  report.json["verb"] = asked.verb;
  report.json["rows"] = std::move(rows);
  report.pictures.push_back(picture_of(chart));
  report.deliver(asked.study);
}

}  // namespace

void add_study_bandwidth(CLI::App& study, int& exit_code) {
  CLI::App* verb = study.add_subcommand("bandwidth", "What a verb moves, over ranks and sizes, beside the model");
  const auto asked = std::make_shared<BandwidthRequest>();
  verb->add_option("verb", asked->verb, "The collective; all_reduce if left out")->type_name("VERB");
  verb->add_option("--ranks", asked->ranks, "Processes of this host, between commas; 2 if left out")->type_name("LIST");
  verb->add_option("-b,--begin", asked->begin, "Smallest size; 1K if left out")->type_name("BYTES");
  verb->add_option("-e,--end", asked->end, "Largest size; 16M if left out")->type_name("BYTES");
  verb->add_option("-f,--factor", asked->factor, "From one size to the next; 8 if left out")
      ->type_name("X")
      ->check(number_between(1.01, 1e6));
  asked->study.add_to(*verb);
  verb->callback([asked, &exit_code] {
    study_bandwidth(*asked);
    exit_code = 0;
  });
}

}  // namespace tutti::tools
