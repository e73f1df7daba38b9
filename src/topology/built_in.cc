#include "topology/built_in.h"

#include <algorithm>
#include <string>
#include <vector>

#include "topology/built_in_texts.h"
#include "topology/speeds.h"

namespace tutti::topology {

CostTable built_in_costs(int cores, const Speeds& here) {
  std::vector<CostTable> machines;
  for (const char* text : kBuiltInTexts) machines.push_back(costs_from_text(text));
  // The machine most like this one comes first, and so holds wherever several have a group of the same kind.
  std::stable_sort(machines.begin(), machines.end(), [&](const CostTable& a, const CostTable& b) {
    return distance(a.speeds, here) < distance(b.speeds, here);
  });
  CostTable table = machines.front();
  table.memory = carried_over(table.memory, true, table.speeds, here);
  table.streams = carried_over(table.streams, false, table.speeds, here);
  table.memory.cores = table.streams.cores = cores;
  table.surveys.clear();
  for (const CostTable& machine : machines) {
    for (Survey survey : machine.surveys) {
      survey.rates = carried_over(survey.rates, survey.memory, machine.speeds, here);
      table.surveys.push_back(std::move(survey));
    }
  }
  table.speeds = here;
  return table;
}

}  // namespace tutti::topology
