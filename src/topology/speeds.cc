#include "topology/speeds.h"

#include <algorithm>
#include <cmath>

namespace tutti::topology {
namespace {

// One machine shows twice its speed, or half of it, from one moment to the next: its clock rises and falls, and its
// neighbours come and go. What is beyond that is the machine.
constexpr double kMoods = 2;
// Nor is a machine ten times another: what says so was disturbed while it measured.
constexpr double kMost = 8;

double ratio(double from, double to) {
  if (!(from > 0 && to > 0)) return 1;
  const double raw = std::clamp(to / from, 1 / kMost, kMost);
  return raw > 1 ? std::max(1.0, raw / kMoods) : std::min(1.0, raw * kMoods);
}

constexpr double Speeds::*kAll[] = {
#define X(member, meaning) &Speeds::member,
    TUTTI_SPEEDS(X)
#undef X
};

}  // namespace

Rates carried_over(Rates rates, bool memory, const Speeds& from, const Speeds& to) {
  const auto scale = [&](double Rates::*rate, double Speeds::*speed) { rates.*rate *= ratio(from.*speed, to.*speed); };
  scale(&Rates::step, &Speeds::work);
  scale(&Rates::line, &Speeds::line);
  scale(&Rates::message, memory ? &Speeds::line : &Speeds::send);
  scale(&Rates::progress, &Speeds::line);
  scale(&Rates::enter, &Speeds::line);
  scale(&Rates::call, memory ? &Speeds::call : &Speeds::send);
  scale(&Rates::stream, memory ? &Speeds::reach : &Speeds::stream);
  for (const auto rate : {&Rates::peer, &Rates::push}) scale(rate, &Speeds::fetch);
  for (const auto rate : {&Rates::copy, &Rates::store, &Rates::reduce}) scale(rate, &Speeds::copy);
  scale(&Rates::far, &Speeds::far_copy);  // which is a ratio itself
  rates.far /= ratio(from.copy, to.copy);
  scale(&Rates::turn, &Speeds::turn);
  return rates;
}

bool all_known(const Speeds& speeds) {
  return std::all_of(std::begin(kAll), std::end(kAll), [&](double Speeds::*speed) { return speeds.*speed > 0; });
}

double distance(const Speeds& one, const Speeds& other) {
  double sum = 0;
  int known = 0;
  for (const auto speed : kAll) {
    if (!(one.*speed > 0 && other.*speed > 0)) continue;
    sum += std::abs(std::log(one.*speed / (other.*speed)));
    ++known;
  }
  return known == 0 ? 0 : sum / known;
}

}  // namespace tutti::topology
