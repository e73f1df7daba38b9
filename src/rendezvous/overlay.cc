#include "rendezvous/overlay.h"

#include <algorithm>

namespace tutti::rendezvous {

std::vector<int> places_ahead(int place, int places) {
  std::vector<int> ahead;
  for (int step = 1; step <= places / 2; step *= 2) ahead.push_back((place + step) % places);
  return ahead;
}

std::vector<int> neighbours_of(int place, int places) {
  std::vector<int> neighbours = places_ahead(place, places);
  for (int step = 1; step <= places / 2; step *= 2) neighbours.push_back((place - step + places) % places);
  std::sort(neighbours.begin(), neighbours.end());
  neighbours.erase(std::unique(neighbours.begin(), neighbours.end()), neighbours.end());
  return neighbours;
}

}  // namespace tutti::rendezvous
