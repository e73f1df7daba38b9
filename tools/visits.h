// Points of a study that are visited again and again in an order by lot, so that what changes on the machine meanwhile
// falls on all of them alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tutti::tools {

// Visits every point `rounds` times and once before, each round in another order, and says on a terminal how far
// `what` is. What the first round measures is dropped, all of it: it warms up.
class Visits {
 public:
  Visits(std::size_t points, int rounds, std::uint64_t seed, std::string what)
      : points_(points), rounds_(rounds), seed_(seed), what_(std::move(what)) {}

  // `visit` returns what was measured of a point, a number or several. By point, in the order of the rounds.
  template <class Visit>
  auto run(Visit&& visit) const {
    std::vector<std::vector<std::invoke_result_t<Visit, std::size_t>>> seen(points_);
    each([&](std::size_t point, bool counts) {
      auto measured = visit(point);
      if (counts) seen[point].push_back(std::move(measured));
    });
    return seen;
  }

 private:
  void each(const std::function<void(std::size_t point, bool counts)>& visit) const;

  std::size_t points_;
  int rounds_;
  std::uint64_t seed_;
  std::string what_;
};

}  // namespace tutti::tools
