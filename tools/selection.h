// Which programs a verb of the command is about: a row of the algorithm table for some ranks, lowered to a transport.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "schedule/algorithms/table.h"
#include "schedule/lower.h"

namespace tutti::tools {

// Ends the command, with the names there are, where there is none such.
Verb verb_named(const std::string& name);

struct Selection {
  std::string verb;
  std::string algorithm;
  std::optional<int> ranks;
  int root = 0;
  std::string transport = "memory";
  std::uint32_t credits = 4;
  std::string hosts = {};  // how the ranks lie on hosts: their number, or how many ranks each has; empty: one

  bool sends_only = false;  // where no algorithm is named, the first one of messages

  // Adds the options that fill this selection; where `file` is another way to name programs, the verb may be left out.
  void add_to(CLI::App& app);

  // Throws Error(invalid_argument or unsupported), naming the remedy.
  std::vector<schedule::Lowered> programs() const;
  // Rank 0's program, where it stands for all (verify_rotation.h) and they are more than are verified one by one.
  struct Alike {
    schedule::Lowered first;
    int compared = 1;  // ranks whose text is known to be the same
  };
  // Compares the text of all ranks, or, without `every_rank`, of as many as take about a second.
  std::optional<Alike> alike(bool every_rank) const;
  // What a call that moves so many bytes is expected to take, by the built-in costs.
  double predicted_us(std::uint64_t bytes) const;

 private:
  const schedule::Algorithm& row() const;
  int rank_count() const;
  Offers checked_offers(int most_ranks) const;
  Hosts placed(int count) const;
};

}  // namespace tutti::tools
