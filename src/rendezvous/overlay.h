// Who watches whom: every rank has a control link to the ranks at distances of powers of two, either way round a ring.
//
//   16 ranks, those of rank 0:   1  2  4  8  12  14  15
//
// So a rank has at most 2 lg p of them, news take about lg p / 2 hops to reach everybody, and as long as fewer are gone
// at once than a rank has neighbours, the others are still joined (Boesch and Felzer: a circulant graph whose steps
// grow ever faster is as well connected as its degree allows).
#pragma once

#include <vector>

namespace tutti::rendezvous {

// Of `place`, among places 0 to `places` - 1: those at +1, +2, +4, ... up to half of the way round.
std::vector<int> places_ahead(int place, int places);
// Those ahead, and those that have it ahead of them; ascending.
std::vector<int> neighbours_of(int place, int places);

}  // namespace tutti::rendezvous
