// What is made of rows: the table, JSON, CSV, ratios and the picture.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "shell.h"
#include "tools/bench/plot.h"
#include "tools/bench/ratios.h"
#include "tools/bench/table.h"

namespace tutti::bench {
namespace {

using nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using tutti::testing::count_of;

Row row_of(const std::string& impl, std::uint64_t count, double us, bool in_place = false, bool symmetric = false) {
  Row row;
  row.impl = impl;
  row.cell.count = count;
  row.cell.in_place = in_place;
  row.cell.symmetric = symmetric;
  row.ranks = 2;
  row.transport = "shm";
  row.timing = timing_of({us});
  row.wrong = 0;
  return row;
}

Row forced(std::uint64_t count, double us, const std::string& algorithm) {
  Row row = row_of("tutti", count, us);
  row.forced = true;
  row.cell.algorithm = row.algorithm = algorithm;
  return row;
}

TEST(BenchReport, JsonHasTheColumnsThatWerePromised) {
  Row row = row_of("tutti", 256, 2);
  row.algorithm = "exchange";
  const auto all = ordered_json::parse(json_of({row, row_of("openmpi", 256, 4)}));
  ASSERT_EQ(all.size(), 2U);
  std::vector<std::string> keys;
  for (const auto& [key, value] : all[0].items()) keys.push_back(key);
  EXPECT_THAT(keys, ElementsAre("impl", "verb", "ranks", "transport", "buffers", "in_place", "bytes", "time_us_median",
                                "time_us_min", "algbw", "busbw", "wrong", "algorithm", "predicted_us"));
  EXPECT_EQ(all[0]["bytes"], 1024);
  EXPECT_EQ(all[0]["wrong"], 0);
  EXPECT_EQ(all[0]["algorithm"], "exchange");
  EXPECT_TRUE(all[0]["predicted_us"].is_null());
  EXPECT_TRUE(all[1]["algorithm"].is_null());
  EXPECT_DOUBLE_EQ(all[0]["algbw"].get<double>(), 0.512);
}

TEST(BenchReport, CsvHasTheSameColumns) {
  std::istringstream lines(csv_of({row_of("tutti", 256, 2)}));
  std::string heading, values;
  std::getline(lines, heading);
  std::getline(lines, values);
  EXPECT_EQ(heading,
            "impl,verb,ranks,transport,buffers,in_place,bytes,time_us_median,time_us_min,algbw,busbw,wrong,algorithm,"
            "predicted_us");
  EXPECT_THAT(values, HasSubstr("tutti,all_reduce,2,shm,ordinary,false,1024,2.0,2.0,0.512,0.512,0,,"));
}

TEST(BenchReport, BothPlacesStandInOneLine) {
  const std::string text =
      table_lines({row_of("tutti", 256, 2), row_of("openmpi", 256, 4), row_of("tutti", 256, 3, true)});
  EXPECT_EQ(count_of(text, "\n"), 2);
  EXPECT_EQ(count_of(text.substr(0, text.find('\n')), " 2.00 "), 1);
  EXPECT_EQ(count_of(text.substr(0, text.find('\n')), " 3.00 "), 1);
  EXPECT_THAT(table_heading(), HasSubstr("#wrong"));
  // Columns stand under their names.
  const std::string heading = table_heading();
  const std::size_t names = heading.find('\n') + 1, width = heading.find('\n', names) - names;
  EXPECT_EQ(text.find('\n'), width);
}

TEST(BenchReport, FooterSaysWhatWasWrong) {
  std::vector<Row> rows{row_of("tutti", 256, 2)};
  EXPECT_THAT(table_footer(rows), HasSubstr("Out of bounds values : 0 OK"));
  EXPECT_THAT(table_footer(rows), HasSubstr("Avg bus bandwidth    : 0.512"));
  rows[0].wrong = 5;
  EXPECT_THAT(table_footer(rows), HasSubstr("5 FAILED"));
  rows[0].wrong = std::nullopt;
  EXPECT_THAT(table_footer(rows), HasSubstr("0 not checked"));
}

TEST(BenchRatios, AreTheBestPeersMedianOverOurs) {
  const std::vector<Row> rows{row_of("tutti", 256, 2),   row_of("openmpi", 256, 6),    row_of("mpich", 256, 4),
                              row_of("limit", 256, 1),   row_of("tutti", 1024, 10),    row_of("mpich", 1024, 5),
                              row_of("tutti", 4096, 10), row_of("mpich", 256, 3, true)};
  const std::vector<Ratio> ratios = ratios_to_peers(rows);
  ASSERT_EQ(ratios.size(), 2U) << "a cell that no peer ran has no ratio";
  EXPECT_DOUBLE_EQ(ratios[0].value, 2);
  EXPECT_EQ(ratios[0].other->impl, "mpich");
  EXPECT_DOUBLE_EQ(ratios[1].value, 0.5);
  EXPECT_DOUBLE_EQ(geometric_mean(ratios), 1);
  EXPECT_EQ(lowest(ratios), &ratios[1]);
  const std::string summary = summary_of(rows);
  EXPECT_THAT(summary, HasSubstr("geometric mean: 1.00 over 2 cells"));
  EXPECT_THAT(summary,
              HasSubstr("worst cell: 0.50, all_reduce 4 KB, 2 ranks, shm, ordinary (10.00 us; mpich 5.00 us)"));
}

TEST(BenchRatios, SymmetricBuffersAreHeldAgainstPeersOrdinaryOnes) {
  const std::vector<Row> rows{row_of("tutti", 256, 2, false, true), row_of("openmpi", 256, 6),
                              row_of("limit", 256, 1, false, true), row_of("limit", 256, 0.5)};
  ASSERT_EQ(ratios_to_peers(rows).size(), 1U);
  EXPECT_DOUBLE_EQ(ratios_to_peers(rows)[0].value, 3);
  ASSERT_EQ(ratios_to_limit(rows).size(), 1U);
  EXPECT_DOUBLE_EQ(ratios_to_limit(rows)[0].value, 2) << "ours / the limit of the same memory";
}

TEST(BenchRatios, RegretIsAgainstTheBestAlgorithm) {
  const std::vector<Row> rows{row_of("tutti", 256, 3), forced(256, 2, "ring"), forced(256, 4, "staged"),
                              row_of("tutti", 512, 3), forced(512, 5, "ring"), row_of("mpich", 256, 1)};
  const std::vector<Ratio> found = regrets(rows);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_DOUBLE_EQ(found[0].value, 1.5);
  EXPECT_DOUBLE_EQ(found[1].value, 1) << "never below one";
  EXPECT_THAT(summary_of(rows), HasSubstr("tutti:ring 2.00 us"));
  EXPECT_EQ(ratios_to_peers(rows).size(), 1U) << "an algorithm asked for by name is not ours";
}

TEST(BenchRatios, PredictionsAreHeldAgainstWhatWasMeasured) {
  std::vector<Row> rows{row_of("tutti", 256, 2), forced(256, 8, "ring"), row_of("tutti", 512, 1),
                        row_of("mpich", 256, 1)};
  EXPECT_THAT(summary_of({rows[0]}), Not(HasSubstr("predicted"))) << "nobody said anything";
  rows[0].predicted_us = 4;
  rows[1].predicted_us = 4;
  rows[3].predicted_us = 100;
  const std::vector<Ratio> found = predictions(rows);
  ASSERT_EQ(found.size(), 2U) << "ours, and those that say";
  EXPECT_DOUBLE_EQ(found[0].value, 2);
  EXPECT_DOUBLE_EQ(found[1].value, 0.5);
  EXPECT_THAT(summary_of(rows), HasSubstr("predicted / measured: 1.00, and off by a factor of 2.00, over 2 rows"));
}

TEST(BenchReport, PredictionsHaveTheirColumn) {
  Row row = row_of("tutti", 256, 2);
  row.predicted_us = 1.75;
  EXPECT_THAT(table_lines({row}), HasSubstr(" 1.75 "));
  EXPECT_DOUBLE_EQ(ordered_json::parse(json_of({row}))[0]["predicted_us"].get<double>(), 1.75);
  EXPECT_THAT(csv_of({row}), HasSubstr(",1.75\n"));
}

TEST(BenchPlot, HasOneLinePerImplementation) {
  const std::string svg = plot_of({row_of("tutti", 256, 2), row_of("tutti", 1024, 4), row_of("openmpi", 256, 6),
                                   row_of("tutti", 256, 1, false, true), row_of("tutti", 256, 9, true)});
  EXPECT_THAT(svg, HasSubstr("<svg xmlns"));
  EXPECT_EQ(count_of(svg, "<polyline"), 3);
  EXPECT_THAT(svg, HasSubstr("tutti, symmetric"));
  EXPECT_THAT(svg, HasSubstr("us by bytes"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(BenchPlot, SeveralRanksMakeBandwidthByRanks) {
  std::vector<Row> rows{row_of("tutti", 1024, 2), row_of("tutti", 1024, 4), row_of("tutti", 16, 1)};
  rows[1].ranks = 8;
  const std::string svg = plot_of(rows);
  EXPECT_THAT(svg, HasSubstr("bus GB/s by ranks"));
  EXPECT_EQ(count_of(svg, "<circle"), 2) << "of the largest size";
  EXPECT_THAT(plot_of({}), HasSubstr("</svg>"));
}

}  // namespace
}  // namespace tutti::bench
