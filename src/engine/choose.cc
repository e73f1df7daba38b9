#include "engine/choose.h"

#include <algorithm>

#include "schedule/algorithms/lower_row.h"
#include "tutti/error.h"

namespace tutti::engine {
namespace {

using schedule::Algorithm;
using Where = Candidate::Where;

bool is_whole_group(Verb verb) { return verb != Verb::send_recv; }

const Verb* find_verb(std::string_view name) {
  static constexpr Verb kAll[] = {
#define X(name) Verb::name,
      TUTTI_VERBS(X)
#undef X
  };
  const Verb* found = std::find_if(std::begin(kAll), std::end(kAll), [&](Verb verb) { return name_of(verb) == name; });
  return found == std::end(kAll) ? nullptr : found;
}

std::string names_of(const Verb* verb) {
  std::vector<std::string_view> names;
  for (const Algorithm& row : schedule::algorithms()) {
    const bool wanted = verb == nullptr ? is_whole_group(row.verb) : row.verb == *verb;
    if (wanted && std::find(names.begin(), names.end(), row.name) == names.end()) names.push_back(row.name);
  }
  std::string text;
  for (const std::string_view name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

// A v-verb whose ranks know only their own counts needs a lane per edge; windows need others' displacements.
bool takes_uneven(const Algorithm& row) {
  return row.per_edge || ((row.verb == Verb::all_gather || row.verb == Verb::reduce_scatter) && !row.user_windows);
}

void add_forced(Forced& forced, std::string_view entry, bool deterministic) {
  const std::size_t equals = entry.find('=');
  const std::string_view name = equals == std::string_view::npos ? entry : entry.substr(equals + 1);
  const Verb* only = nullptr;
  if (equals != std::string_view::npos) {
    only = find_verb(entry.substr(0, equals));
    if (only == nullptr)
      throw Error(ErrorCode::invalid_argument, "no verb is called '" + std::string(entry.substr(0, equals)) + "'");
  }
  bool known = false;
  for (const Algorithm& row : schedule::algorithms()) {
    if (row.name != name || !is_whole_group(row.verb) || (only != nullptr && row.verb != *only)) continue;
    known = true;
    if (!row.canonical && deterministic) {
      throw Error(ErrorCode::invalid_argument, "'" + std::string(name) + "' does not reduce in canonical order; set " +
                                                   "Options::deterministic to false to run it");
    }
    forced[static_cast<std::size_t>(row.verb)] = &row;
  }
  if (known) return;
  throw Error(ErrorCode::invalid_argument, "no algorithm" +
                                               (only == nullptr ? "" : " of " + std::string(name_of(*only))) +
                                               " is called '" + std::string(name) + "'; there are: " + names_of(only));
}

}  // namespace

Forced forced_algorithms(const std::string& text, bool deterministic) {
  Forced forced{};
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    add_forced(forced, std::string_view(text).substr(at, end - at), deterministic);
    at = end + 1;
  }
  return forced;
}

Chooser::Chooser(int ranks, const Offers& offers, const Forced& forced, bool deterministic)
    : ranks_(ranks),
      offers_(offers),
      prices_(topology::usual_costs(1).memory),
      check_(schedule::find_algorithm(Verb::all_reduce, "recursive_doubling")),
      check_reduce_(kernels::find_reduce(DType::uint8, ReduceOp::bor)) {
  const Where here = offers.windows_to_scratch ? Where::memory : Where::messages;
  offers_.segment_bytes = kSegmentBytes;
  for (const Candidate& candidate : candidates()) {
    Ladders& verb = verbs_[static_cast<std::size_t>(candidate.verb)];
    const Algorithm* row = schedule::find_algorithm(candidate.verb, candidate.algorithm);
    if (deterministic && !row->canonical) continue;
    if (candidate.where == Where::symmetric) {
      if (ranks > 1 && offers.windows_to_user) verb.direct = row;
    } else if (candidate.where == Where::anywhere || candidate.where == here ||
               (candidate.where == Where::lending && offers.lends)) {
      if (candidate.uneven) {
        if (verb.uneven == nullptr) verb.uneven = row;
        if (row->canonical) verb.canonical_uneven = row;
        continue;
      }
      verb.rows.push_back(row);
      if (row->canonical) verb.canonical = row;
    }
  }
  std::string refusal;
  bool any = false, runs = false;
  for (const Algorithm* row : forced) {
    if (row == nullptr) continue;
    any = true;
    options_hash_ = mix(options_hash_, static_cast<std::uint64_t>(row - schedule::algorithms().data()) + 1);
    if (const std::string reason = schedule::why_not(*row, {ranks, 0, 0}, offers); !reason.empty()) {
      if (refusal.empty()) refusal = std::string(name_of(row->verb)) + " by '" + std::string(row->name) + "' " + reason;
      continue;
    }
    runs = true;
    force(verbs_[static_cast<std::size_t>(row->verb)], *row);
  }
  if (any && !runs) {
    throw Error(ErrorCode::unsupported, refusal + ", which the transport of this group does not offer; choose another");
  }
}

void Chooser::set_costs(const AgreedCosts& costs) {
  prices_ = offers_.windows_to_scratch ? costs.memory : costs.streams;
  cache_bytes_ = static_cast<std::uint64_t>(costs.memory.rates.cache_bytes);
  for (Ladders& verb : verbs_) verb.priced.store(false, std::memory_order_relaxed);
}

void Chooser::force(Ladders& verb, const Algorithm& row) {
  verb.by_name = true;
  if (row.user_windows) return;  // runs wherever the buffers allow it
  verb.direct = nullptr;
  verb.rows = {&row};
  if (takes_uneven(row)) verb.uneven = &row;
}

void Chooser::price(Ladders& verb) const {
  const std::lock_guard lock(mutex_);
  if (verb.priced.load(std::memory_order_relaxed)) return;
  // What was asked for by name runs wherever the buffers allow it, whatever its price.
  const Algorithm* compared = verb.by_name ? nullptr : verb.direct;
  if (!verb.rows.empty()) verb.ladder = ladder(verb.rows, compared, ranks_, offers_, prices_);
  if (verb.by_name) verb.ladder.enter_bytes = 0;
  verb.priced.store(true, std::memory_order_release);
}

double Chooser::price_of(const Algorithm& row, std::uint64_t bytes) const {
  return Pricer(row, ranks_, offers_).at(bytes, prices_);
}

double Chooser::price_of_message(const Algorithm& row, std::uint64_t bytes, int ranks) const {
  return Pricer(row, ranks, offers_).at(bytes, prices_);
}

double Chooser::price_of_exchange(const Algorithm& row, std::uint64_t bytes) const {
  return Pricer::both_ways(row, offers_).at(bytes, prices_);
}

std::vector<Choice> Chooser::choices() const {
  std::vector<Choice> rows;
  for (std::size_t i = 0; i < kVerbs; ++i) {
    const Verb verb = static_cast<Verb>(i);
    if (!is_whole_group(verb)) continue;
    const Ladders& ladders = ladders_of(verb);
    const auto why = [&](const Algorithm& row) {
      if (ladders.by_name) return std::string_view("asked for by name");
      const auto all = candidates();
      const auto found = std::find_if(all.begin(), all.end(), [&](const Candidate& candidate) {
        return candidate.verb == verb && candidate.algorithm == row.name;
      });
      return found == all.end() ? std::string_view() : found->good;
    };
    for (const Rung& rung : ladders.ladder.rungs) rows.push_back({verb, rung.bytes, rung.row->name, why(*rung.row)});
    if (ladders.direct != nullptr)
      rows.push_back({verb, kAnyBytes, ladders.direct->name, "where all buffers are symmetric: no copies"});
  }
  return rows;
}

}  // namespace tutti::engine
