#include "tools/selection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <numeric>
#include <thread>

#include "base/nearest_names.h"
#include "choice/chooser.h"
#include "choice/pricer.h"
#include "schedule/algorithms/lower_row.h"
#include "schedule/readers/verify_rotation.h"
#include "tools/verbs.h"
#include "topology/built_in.h"
#include "tutti/error.h"

namespace tutti::tools {
namespace {

constexpr int kMostRanks = 1024;

std::vector<std::string_view> verbs() {
  return {
#define X(name) #name,
      TUTTI_VERBS(X)
#undef X
  };
}

std::vector<std::string_view> algorithms_of(std::string_view verb) {
  std::vector<std::string_view> names;
  for (const schedule::Algorithm& row : schedule::algorithms()) {
    if (name_of(row.verb) == verb) names.push_back(row.name);
  }
  return names;
}

// Across hosts there are streams, and memory that all ranks reach there is none.
Offers offers_of(const std::string& transport, std::uint32_t credits, const Hosts& hosts) {
  Offers offers;
  offers.inside.credits = credits;
  offers.channels = 2;
  if (transport == "memory") {
    offers.inside = {true, !hosts.several(), true, true, credits, 0};
    offers.hosts = hosts;
    if (hosts.several()) offers.across.credits = credits;
  } else if (transport != "stream") {
    refuse(none_called("transport", transport, {"memory", "stream"}));
  } else if (hosts.several()) {
    refuse("--hosts is about ranks that share memory inside each: leave --transport away");
  }
  return offers;
}

// "2,1" as numbers; empty where that is no list of positive ones.
std::vector<int> numbers_of(const std::string& text) {
  std::vector<int> numbers;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    int number = 0;
    const auto parsed = std::from_chars(text.data() + at, text.data() + end, number);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + end || number < 1) return {};
    numbers.push_back(number);
    at = end + 1;
  }
  return numbers;
}

}  // namespace

Verb verb_named(const std::string& name) {
  if (const Verb* const found = choice::find_verb(name)) return *found;
  refuse(choice::no_verb(name));
}

void Selection::add_to(CLI::App& app) {
  app.add_option("verb", verb, fmt::format("The collective: {}", fmt::join(verbs(), ", ")))->type_name("VERB");
  app.add_option("-a,--algorithm", algorithm, "A name from `tutti list`; the first for the verb if left out")
      ->type_name("NAME");
  app.add_option("-n,--ranks", ranks, "How many ranks take part; 4 if left out")->type_name("N");
  app.add_option("--root", root, "The rank that a rooted verb starts from or ends at")->type_name("RANK");
  app.add_option("--transport", transport, "What it runs over: memory (shared), stream (such as TCP)")
      ->type_name("NAME");
  app.add_option("--credits", credits, "Messages under way per pair of ranks before the sender waits; 4 if left out")
      ->type_name("N");
  app.add_option("--hosts", hosts,
                 "Hosts that the ranks are on, memory inside and streams across: how many, in even blocks of ranks, or "
                 "a list of the ranks of each, such as 3,1")
      ->type_name("N");
}

Hosts Selection::placed(int count) const {
  if (hosts.empty()) return {};
  std::vector<int> each = numbers_of(hosts);
  if (each.size() == 1 && each[0] <= count) {
    const int many = each[0];
    each.assign(static_cast<std::size_t>(many), count / many);
    for (int host = 0; host < count % many; ++host) ++each[static_cast<std::size_t>(host)];
  }
  if (each.empty() || std::accumulate(each.begin(), each.end(), std::int64_t{0}) != count) {
    refuse(fmt::format("--hosts must be a number of hosts for {} ranks, or how many of them each has, not '{}'", count,
                       hosts));
  }
  return Hosts::in_blocks(each);
}

const schedule::Algorithm& Selection::row() const {
  if (verb.empty()) refuse(fmt::format("name a verb: {}", fmt::join(verbs(), ", ")));
  const Verb wanted = verb_named(verb);
  const std::vector<std::string_view> names = algorithms_of(verb);
  for (const schedule::Algorithm& row : schedule::algorithms()) {
    if (row.verb != wanted || (algorithm.empty() && sends_only && (!only_sends(row) || row.single_copy))) continue;
    if (algorithm.empty() || row.name == algorithm) return row;
  }
  refuse(none_called("algorithm", algorithm, names, " for " + verb));
}

int Selection::rank_count() const { return ranks.value_or(row().verb == Verb::send_recv ? 2 : 4); }

double Selection::predicted_us(std::uint64_t bytes) const {
  const int count = rank_count();
  Offers offers = offers_of(transport, credits, placed(count));
  offers.segment_bytes = choice::segment_bytes_for(offers);
  const auto cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const choice::AgreedCosts costs =
      choice::agreed_costs(topology::built_in_costs(cores, {}), count, offers.hosts.count(), false);
  return choice::Pricer(row(), count, offers).at(bytes, choice::prices_of(costs, offers)) * 1e6;
}

// What the programs are lowered to, once what was asked for makes sense.
Offers Selection::checked_offers(int most_ranks) const {
  const bool pair = row().verb == Verb::send_recv;
  const int count = rank_count();
  if (count < 1 || count > most_ranks) refuse(fmt::format("-n must be 1 to {}, not {}", most_ranks, count));
  if (pair && count != 2) refuse(fmt::format("send_recv is between two ranks: use -n 2, not {}", count));
  if (root < 0 || root >= count)
    refuse(fmt::format("--root must be one of the ranks 0 to {}, not {}", count - 1, root));
  if (credits < 1) refuse("--credits must be at least 1: without one no message can ever leave");
  return offers_of(transport, credits, placed(count));
}

std::vector<schedule::Lowered> Selection::programs() const {
  const schedule::Algorithm& chosen = row();
  const Offers offers = checked_offers(kMostRanks);
  const int count = rank_count();
  for (int rank = 0; rank < count; ++rank) {
    if (const std::string reason = schedule::why_not(chosen, {count, rank, root, offers.hosts}, offers);
        !reason.empty()) {
      if (!schedule::fits(chosen, count)) refuse(fmt::format("{} by {} {}: try another -n", verb, chosen.name, reason));
      const std::string where =
          offers.hosts.several() ? "ranks of different hosts do" : "--transport " + transport + " does";
      throw Error(ErrorCode::unsupported,
                  fmt::format("{} by {} {}, which {} not have", verb, chosen.name, reason, where));
    }
  }
  return schedule::lower_all(chosen, count, offers, root);
}

std::optional<Selection::Alike> Selection::alike(bool every_rank) const {
  constexpr int kOneByOne = 64, kMostAlike = 1 << 16;
  constexpr std::size_t kStepsToCompare = 10'000'000;
  const schedule::Algorithm& chosen = row();
  const int count = rank_count();
  if (count <= kOneByOne || !hosts.empty()) return std::nullopt;
  const Offers offers = checked_offers(kMostAlike);
  if (!schedule::why_not(chosen, {count, 0, root, {}}, offers).empty()) return std::nullopt;
  Alike alike{schedule::lower(chosen, {count, 0, root, {}}, offers)};
  if (!schedule::why_not_rotation(alike.first).empty()) return std::nullopt;
  // Lowering sees only the text, so that equal text before it is equal text after it.
  const schedule::Program first = chosen.generate({count, 0, root, {}});
  std::size_t steps = 1;
  for (const schedule::Lane& lane : first.lanes) steps += lane.steps.size();
  const int several = static_cast<int>(std::max<std::size_t>(16, kStepsToCompare / steps));
  const int stride = every_rank ? 1 : std::max(1, count / several);
  const auto same = [&](int rank) {
    const schedule::Program other = chosen.generate({count, rank, root, {}});
    return other.lanes == first.lanes && other.scratch_planes == first.scratch_planes &&
           other.scratch_depth == first.scratch_depth && other.landing_planes == first.landing_planes &&
           other.blocks == first.blocks && other.message_blocks == first.message_blocks &&
           other.hears_first == first.hears_first;
  };
  for (int rank = 1; rank < count; rank = rank == count - 1 ? count : std::min(count - 1, rank + stride)) {
    if (!same(rank)) return std::nullopt;
    ++alike.compared;
  }
  return alike;
}

}  // namespace tutti::tools
