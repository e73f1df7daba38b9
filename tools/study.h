// What the studies of `tutti study` share: medians with their spread, and a report as text, JSON and a page.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tutti::tools {

// Of several runs of the same.
struct Spread {
  double median = 0, least = 0, most = 0;
};
Spread spread_of(std::vector<double> values);

// What all studies take.
struct StudyOptions {
  std::string json, html, svg;
  int rounds = 5;
  std::uint64_t seed = 1;

  void add_to(CLI::App& app);
  // Ends the command, in words, where what it asks for cannot be written: nobody waits for a study in vain.
  void require_outputs() const;
};

// A report: a table for people, what it says in sentences, pictures, and the same as JSON.
struct StudyReport {
  std::string title;
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> sentences;
  std::vector<std::string> pictures;  // SVG
  nlohmann::ordered_json json;

  // Prints it, and writes what the options ask for; both say which machine it was.
  void deliver(const StudyOptions& options);
};

}  // namespace tutti::tools
