#include "plan/collectives.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "base/nearest_names.h"
#include "plan/training.h"
#include "schedule/algorithms/lower_row.h"
#include "schedule/readers/simulate/group_programs.h"
#include "schedule/readers/simulate/simulate.h"
#include "tutti/error.h"

namespace tutti::plan {
namespace {

using schedule::Algorithm, schedule::Lowered;

constexpr double kShortBytes = 16 << 10, kLongBytes = 256 << 20;
constexpr std::uint64_t kSegments = 4;  // of the long vector: more would tell nothing more

// Of those that a planner compares: the shortest way and the fewest bytes of every verb.
bool is_compared(const Algorithm& row, const Stack& stack) {
  constexpr std::string_view kCompared[] = {"ring",    "recursive_halving", "hierarchical", "bruck",  "spread_out",
                                            "message", "binomial",          "chain",        "knomial"};
  if (!schedule::only_sends(row) || row.single_copy) return false;
  if (stack.rings_only &&
      (row.verb == Verb::all_reduce || row.verb == Verb::all_gather || row.verb == Verb::reduce_scatter))
    return row.name == "ring";
  return std::ranges::find(kCompared, row.name) != std::end(kCompared);
}

// A round for each rank, and one NIC of each host on the way: with many ranks on a host it takes longest to simulate,
// and is never the quickest.
bool is_long_ring(const GroupSpan& span) {
  constexpr int kFew = 8;
  return span.hosts > 1 && span.per_host > kFew;
}

// Of how many hosts, or ranks of one, groups are simulated first that others are carried on from.
int unit_of(int number, int of_powers_of_two, int of_others) {
  return std::has_single_bit(static_cast<unsigned>(number)) ? of_powers_of_two : of_others;
}
int unit_of_hosts(const GroupSpan& span) { return unit_of(span.hosts, 2, 3); }
int unit_of_ranks(const GroupSpan& span, const Stack& stack) {
  return stack.rings_only ? unit_of(span.per_host, 4, 3) : unit_of(span.per_host, 8, 6);
}

// Whether what groups of a host send takes ways of its own: a NIC for each device, and one bridge that all are on.
bool groups_keep_apart(const topology::Topology& topology) {
  int nics = 0, bridges = 0;
  for (const topology::Part& part : topology.parts) {
    if (part.kind == topology::PartKind::nic_) nics += part.count;
    if (part.kind == topology::PartKind::bridge_) bridges += part.count;
  }
  return bridges == 1 && (nics >= topology.devices_per_host() || topology.hosts == 1);
}

// All groups of this kind on the first hosts, or the first one alone: places of their ranks.
std::vector<std::vector<int>> groups_of(const topology::Topology& topology, const GroupSpan& span) {
  const int devices = topology.devices_per_host();
  const int groups = groups_keep_apart(topology) ? 1 : std::max(1, devices / span.per_host);
  std::vector<std::vector<int>> all(static_cast<std::size_t>(groups));
  for (int group = 0; group < groups; ++group)
    for (int host = 0; host < span.hosts; ++host)
      for (int rank = 0; rank < span.per_host; ++rank)
        all[static_cast<std::size_t>(group)].push_back(host * devices + rank * groups + group);
  return all;
}

// What all devices run, for vectors of up to so many bytes.
std::vector<Lowered> programs_of(const Algorithm& row, const topology::Topology& topology,
                                 const std::vector<std::vector<int>>& groups, double most_bytes) {
  const auto ranks = static_cast<int>(groups.front().size());
  const auto segment_bytes = std::max<std::uint64_t>(4 << 20, static_cast<std::uint64_t>(most_bytes) / kSegments);
  std::vector<int> hosts_of_all(static_cast<std::size_t>(topology.ranks())), hosts_of_group;
  for (int device = 0; device < topology.ranks(); ++device)
    hosts_of_all[static_cast<std::size_t>(device)] = topology.host_of(device);
  for (const int device : groups.front()) hosts_of_group.push_back(topology.host_of(device));
  const Offers whole = schedule::offers_to_simulate(Hosts(hosts_of_all), segment_bytes);
  const std::vector<Lowered> group =
      schedule::lower_all(row, ranks, schedule::offers_to_simulate(Hosts(hosts_of_group), segment_bytes), 0);
  Lowered idle = group.front();  // devices that no group is on
  idle.offers = whole;
  for (schedule::Lane& lane : idle.program.lanes) lane.steps.clear();
  idle.program.ranks = topology.ranks();
  std::vector<Lowered> all(static_cast<std::size_t>(topology.ranks()), idle);
  for (std::size_t device = 0; device < all.size(); ++device) all[device].program.rank = static_cast<int>(device);
  for (const std::vector<int>& devices : groups) schedule::put_group(group, devices, whole, all);
  return all;
}

double seconds_of(const std::vector<Lowered>& programs, const topology::Topology& topology, Verb verb,
                  std::size_t ranks, double bytes) {
  schedule::SimulateOptions options;
  const bool chunks = schedule::facts_of(verb).cut == schedule::Cut::chunks;
  options.count = std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(bytes) / (options.element_bytes * (chunks ? ranks : std::size_t{1})));
  return schedule::simulate(programs, topology, options).seconds;
}

}  // namespace

double simulated_seconds(const Algorithm& row, const topology::Topology& topology,
                         const std::vector<std::vector<int>>& groups, double bytes) {
  return seconds_of(programs_of(row, topology, groups, bytes), topology, row.verb, groups.front().size(), bytes);
}

const std::vector<Stack>& stacks() {
  static const std::vector<Stack> kStacks{
      {"tutti", false, 1, static_cast<int>(TrainingShape().gathered_units), false,
       "the quickest of our schedules for a group and a size"},
      {"megatron-2021", false, 1, 3, true, "as tutti, but messages between stages are cut along tp and gathered there"},
      {"flat-ring", true, 1, 3, false, "rings over all ranks as they are numbered: one NIC of a host is on the way"},
      {"deepspeed-2021", true, 0.5, 2, false, "flat rings, and half of what stage 3 gathers comes too late to hide"},
  };
  return kStacks;
}

const Stack& find_stack(const std::string& name) {
  std::vector<std::string_view> names;
  for (const Stack& stack : stacks()) {
    if (stack.name == name) return stack;
    names.push_back(stack.name);
  }
  throw Error(ErrorCode::invalid_argument, none_called("stack", name, names));
}

GroupSpan span_of(const topology::Topology& topology, int ranks, int stride) {
  const int devices = topology.devices_per_host();
  GroupSpan span;
  span.per_host = std::clamp(devices / stride, 1, ranks);
  while (ranks % span.per_host != 0) --span.per_host;  // hosts that have as many each
  span.hosts = ranks / span.per_host;
  return span;
}

std::string links_of(const topology::Topology& topology, const GroupSpan& span) {
  std::string bridge, nic;
  for (const topology::Part& part : topology.parts) {
    if (part.kind == topology::PartKind::bridge_ && bridge.empty()) bridge = part.name;
    if (part.kind == topology::PartKind::nic_ && nic.empty()) nic = part.name;
  }
  if (span.ranks() == 1) return "none";
  if (span.hosts == 1) return bridge.empty() ? "host" : bridge;
  if (span.per_host == 1) return nic.empty() ? "network" : nic;
  return (bridge.empty() ? "host" : bridge) + " and " + (nic.empty() ? "network" : nic);
}

CollectivePrices::CollectivePrices(const topology::Topology& topology, const Accelerator& accelerator,
                                   const Stack& stack, int played_hosts, int played_per_host)
    : topology_(topology),
      accelerator_(accelerator),
      stack_(stack),
      played_hosts_(played_hosts),
      played_per_host_(played_per_host) {
  // Where hosts differ, all are taken to be like the first.
  for (topology::Part& part : topology_.parts)
    if (!part.counts.empty()) part.count = std::max(1, std::exchange(part.counts, {}).front());
  for (topology::LinkKind& link : topology_.links) link.others.clear();
  topology_.kinds.clear();
}

CollectivePrices::CollectivePrices(const topology::Topology& topology, const Accelerator& accelerator,
                                   const Stack& stack, const HostCosts& host)
    : CollectivePrices(topology, accelerator, stack) {
  host_.emplace(host);
}

double CollectivePrices::seconds(Verb verb, const GroupSpan& span, double bytes) {
  if (span.ranks() == 1 || bytes <= 0) return 0;
  if (host_) return host_->price(verb, span.ranks(), bytes).seconds;
  return quickest(verb, span, bytes).at(bytes) + accelerator_.call_s;
}

double CollectivePrices::factor_in_step(int stage, const GroupSpan& span, double bytes, double whole) {
  if (!host_ || span.ranks() == 1 || bytes <= 0) return 1;
  return host_->factor_in_step(stage, span.ranks(), bytes, whole);
}

std::string_view CollectivePrices::algorithm(Verb verb, const GroupSpan& span, double bytes) {
  if (span.ranks() == 1) return "none";
  return host_ ? host_->price(verb, span.ranks(), bytes).algorithm : quickest(verb, span, bytes).algorithm;
}

const CollectivePrices::Line& CollectivePrices::quickest(Verb verb, const GroupSpan& span, double bytes) {
  const Lines& all = lines(verb, span);
  return *std::ranges::min_element(all, {}, [&](const Line& line) { return line.at(bytes); });
}

const CollectivePrices::Lines& CollectivePrices::lines(Verb verb, const GroupSpan& span) {
  const auto [known, is_new] = known_.try_emplace({verb, span});
  if (!is_new) return known->second;
  // An all_reduce takes the longer of its ways in a host and between them: no curve carries that on.
  const bool is_smooth = stack_.rings_only || verb == Verb::all_gather || verb == Verb::reduce_scatter;
  const bool many = is_smooth && span.hosts > 1 && groups_keep_apart(topology_) &&
                    span.per_host > std::max(played_per_host_, 4 * unit_of_ranks(span, stack_));
  known->second = span.hosts > played_hosts_ ? carried_on_hosts(verb, span)
                  : many                     ? carried_on_ranks(verb, span)
                                             : simulated(verb, span);
  return known->second;
}

CollectivePrices::Lines CollectivePrices::simulated(Verb verb, const GroupSpan& span) const {
  topology::Topology part = topology_;
  part.hosts = span.hosts;
  const std::vector<std::vector<int>> groups = groups_of(part, span);
  Lines all;
  for (const Algorithm& row : schedule::algorithms()) {
    if (row.verb != verb || !row.is_for_even() || !is_compared(row, stack_)) continue;
    if (!schedule::fits(row, span.ranks()) || (row.hierarchical && span.hosts == 1)) continue;
    if (row.name == "ring" && is_long_ring(span) && !stack_.rings_only) continue;
    const std::vector<Lowered> programs = programs_of(row, part, groups, kLongBytes);
    const auto seconds = [&](double bytes) { return seconds_of(programs, part, verb, groups.front().size(), bytes); };
    const double shorter = seconds(kShortBytes), longer = seconds(kLongBytes);
    Line line{row.name};
    line.seconds_per_byte = (longer - shorter) / (kLongBytes - kShortBytes);
    line.latency_s = std::max(0.0, shorter - line.seconds_per_byte * kShortBytes);
    line.seconds_per_byte /= accelerator_.link_share;
    all.push_back(line);
  }
  if (all.empty())
    throw Error(ErrorCode::unsupported, "no algorithm of " + std::string(name_of(verb)) + " to plan with");
  return all;
}

// Prices at a unit of something, at two and at four of it.
struct CollectivePrices::Grown {
  Line one, two, four;
  double unit = 1;

  // Latency is a + b log2 n + c n.
  double latency_s(double number) const {
    const double first = two.latency_s - one.latency_s, second = four.latency_s - two.latency_s;
    const double linear = std::max(0.0, (second - first) / unit);
    const double logarithmic = std::max(0.0, second - 2 * unit * linear);
    return four.latency_s + logarithmic * std::log2(number / (4 * unit)) + linear * (number - 4 * unit);
  }
  // A byte takes d + e / n.
  double seconds_per_byte(double number) const {
    const double most = 4 * unit, more = most * (four.seconds_per_byte - two.seconds_per_byte);
    return four.seconds_per_byte + more * (1 / most - 1 / number);
  }
};

// Of algorithms that all three have: some are for powers of two alone.
std::vector<CollectivePrices::Grown> CollectivePrices::grown(Verb verb, const GroupSpan& span, int GroupSpan::*what) {
  const int unit = what == &GroupSpan::hosts ? unit_of_hosts(span) : unit_of_ranks(span, stack_);
  const auto at = [&](int number) {
    GroupSpan smaller = span;
    smaller.*what = number;
    return lines(verb, smaller);
  };
  const Lines one = at(unit), two = at(2 * unit), four = at(4 * unit);
  std::vector<Grown> all;
  for (const Line& line : four) {
    const auto small = std::ranges::find(one, line.algorithm, &Line::algorithm),
               middle = std::ranges::find(two, line.algorithm, &Line::algorithm);
    if (small != one.end() && middle != two.end()) all.push_back({*small, *middle, line, static_cast<double>(unit)});
  }
  return all;
}

CollectivePrices::Lines CollectivePrices::carried_on_hosts(Verb verb, const GroupSpan& span) {
  Lines all;
  for (const Grown& from : grown(verb, span, &GroupSpan::hosts)) {
    Line& line = all.emplace_back(from.four);
    line.latency_s = from.latency_s(span.hosts);
    line.seconds_per_byte = std::max(from.four.seconds_per_byte / 2, from.seconds_per_byte(span.hosts));
  }
  return all;
}

// More ranks of a host have more ways out of it: no more than as many times.
CollectivePrices::Lines CollectivePrices::carried_on_ranks(Verb verb, const GroupSpan& span) {
  Lines all;
  for (const Grown& from : grown(verb, span, &GroupSpan::per_host)) {
    Line& line = all.emplace_back(from.four);
    const double least = from.four.seconds_per_byte * 4 * from.unit / span.per_host;
    line.latency_s = from.latency_s(span.per_host);
    line.seconds_per_byte = std::max(least, from.seconds_per_byte(span.per_host));
  }
  return all;
}

}  // namespace tutti::plan
