// Points of a study that are visited again and again in an order by lot, so that what changes on the machine meanwhile
// falls on all of them alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tutti::tools {

// Visits every point `rounds` times and once before, each round in another order, and says on a terminal how far
// `what` is. What the first round measures is dropped: it warms up.
class Visits {
 public:
  Visits(std::size_t points, int rounds, std::uint64_t seed, std::string what)
      : points_(points), rounds_(rounds), seed_(seed), what_(std::move(what)) {}

  // `visit` returns what was measured. By point, in the order of the rounds.
  std::vector<std::vector<double>> run(const std::function<double(std::size_t point)>& visit) const;

 private:
  std::size_t points_;
  int rounds_;
  std::uint64_t seed_;
  std::string what_;
};

}  // namespace tutti::tools
