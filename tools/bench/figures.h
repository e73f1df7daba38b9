// The figures that the library is held to on a machine: which cells, against whom, and what is asked of the ratios.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/ratios.h"
#include "tools/bench/suite.h"

namespace tutti::bench {

// What one line of the table of figures is about.
struct Figure {
  enum class Kind : unsigned char { peers, limit, regret, tuned };

  std::string where;
  std::size_t plan = 0;  // which of the plans has its rows
  Kind kind = Kind::peers;
  int ranks = 2;
  bool symmetric = false;
  std::vector<Verb> verbs;
  std::uint64_t from_bytes = 0;
  std::string only_peer;  // empty = the best of all
  double bound = 0;       // no cell below (peers), or above (the others); 0 = not asked
  double mean = 0;        // the geometric mean at least (peers), or at most (the others)
  double tiny_us = 0;     // so much slower than the peer a cell below 512 bytes may be, whatever its ratio
};

struct FigureSet {
  std::vector<Plan> plans;
  std::vector<Figure> figures;
};

// For a machine with so many cores, these peers there, and costs that were measured on it (a file; empty: none).
FigureSet figures_for(std::size_t cores, const std::vector<std::string>& peers_there, const std::string& tuned_costs);

// What was found: ratios per cell are medians over the runs. `runs` are the rows of the figure's plan, run by run.
struct Finding {
  std::size_t cells = 0;
  double mean = 0;
  double worst = 0;
  std::string worst_cell;
  int beyond = 0;         // cells beyond the bound, but for those that the figure's tiny_us allows
  double tuned_mean = 0;  // as `mean`, by costs that were measured here; 0 where there were none
  bool met() const { return cells > 0 && mean_met && beyond == 0; }
  bool mean_met = false;
};
Finding judge(const Figure& figure, const std::vector<std::vector<Row>>& runs);

// A line of the table of figures; an empty Finding gives the heading.
std::string figure_heading();
std::string figure_line(const Figure& figure, const Finding& finding);

}  // namespace tutti::bench
