#include "choice/chooser.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <iterator>

#include "base/mix.h"
#include "base/nearest_names.h"
#include "choice/pricer.h"
#include "schedule/algorithms/lower_row.h"
#include "schedule/json.h"
#include "tutti/error.h"

namespace tutti::choice {
namespace {

using schedule::Algorithm;

bool is_whole_group(Verb verb) { return verb != Verb::send_recv; }

// Of the text that all ranks read alike.
std::uint64_t hash_of(const Given& given) {
  return mix_letters(static_cast<std::uint64_t>(given.row.verb), schedule::to_json(given.programs));
}

std::vector<std::string_view> verb_names() {
  return {
#define X(name) #name,
      TUTTI_VERBS(X)
#undef X
  };
}

std::vector<std::string_view> names_of(const Verb* verb) {
  std::vector<std::string_view> names;
  for (const Algorithm& row : schedule::algorithms()) {
    const bool wanted = verb == nullptr ? is_whole_group(row.verb) : row.verb == *verb;
    if (wanted && std::find(names.begin(), names.end(), row.name) == names.end()) names.push_back(row.name);
  }
  return names;
}

// Whether prices may choose it, among ranks with what this transport offers.
bool is_candidate(const Algorithm& row, int ranks, const Offers& offers) {
  if (row.hierarchical && (!offers.hosts.several() || offers.channels < 2)) return false;
  const bool windows = offers.every(&EdgeOffers::windows_to_scratch);
  if (row.scratch_windows && !windows) return false;
  if (row.only_messages && windows) return false;
  if (!schedule::has_credits_for(row, offers)) return false;
  if (row.grid && !schedule::why_not(row, {ranks, 0, 0, offers.hosts}, offers).empty()) return false;
  return !row.single_copy || offers.inside.single_copy;
}

void add_forced(Forced& forced, std::string_view entry, bool deterministic) {
  const std::size_t equals = entry.find('=');
  const std::string_view name = equals == std::string_view::npos ? entry : entry.substr(equals + 1);
  const Verb* only = nullptr;
  if (equals != std::string_view::npos) {
    only = find_verb(entry.substr(0, equals));
    if (only == nullptr) throw Error(ErrorCode::invalid_argument, no_verb(entry.substr(0, equals)));
  }
  bool known = false;
  for (const Algorithm& row : schedule::algorithms()) {
    if (row.name != name || !is_whole_group(row.verb) || (only != nullptr && row.verb != *only)) continue;
    known = true;
    if (!row.canonical() && deterministic) {
      throw Error(ErrorCode::invalid_argument, "'" + std::string(name) + "' does not reduce in canonical order; set " +
                                                   "Options::deterministic to false to run it");
    }
    forced[static_cast<std::size_t>(row.verb)] = &row;
  }
  if (known) return;
  throw Error(ErrorCode::invalid_argument, none_called("algorithm", name, names_of(only),
                                                       only == nullptr ? "" : " of " + std::string(name_of(*only))));
}

}  // namespace

const Verb* find_verb(std::string_view name) {
  static constexpr Verb kAll[] = {
#define X(name) Verb::name,
      TUTTI_VERBS(X)
#undef X
  };
  const Verb* found = std::find_if(std::begin(kAll), std::end(kAll), [&](Verb verb) { return name_of(verb) == name; });
  return found == std::end(kAll) ? nullptr : found;
}

std::string no_verb(std::string_view name) { return none_called("verb", name, verb_names()); }

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
      ranks_will_do_(joins_hosts_first(offers.hosts, ranks)),
      group_{offers, topology::usual_costs(1).memory} {
  group_.offers.segment_bytes = segment_bytes_for(offers);
  neighbours_ = {group_.offers.pair(true), group_.prices};
  strangers_ = {group_.offers.pair(false), group_.prices};
  for (std::size_t i = 0; i < kVerbs; ++i) {
    const Verb verb = static_cast<Verb>(i);
    add_candidates(verbs_[i], verb, is_whole_group(verb) ? group_ : neighbours_, deterministic);
  }
  add_candidates(messages_across_, Verb::send_recv, strangers_, deterministic);
  std::string refusal;
  bool any = false, runs = false;
  for (const Algorithm* row : forced) {
    if (row == nullptr) continue;
    any = true;
    options_hash_ = mix(options_hash_, static_cast<std::uint64_t>(row - schedule::algorithms().data()) + 1);
    std::string reason = schedule::why_not(*row, {ranks, 0, 0, offers.hosts}, offers);
    if (reason.empty() && deterministic && !schedule::is_canonical(*row, ranks_will_do_))
      reason = "does not add up hosts first, as a deterministic group does (Options::deterministic)";
    if (!reason.empty()) {
      if (refusal.empty()) refusal = std::string(name_of(row->verb)) + " by '" + std::string(row->name) + "' " + reason;
      continue;
    }
    runs = true;
    force(verbs_[static_cast<std::size_t>(row->verb)], *row);
  }
  if (any && !runs) {
    throw Error(ErrorCode::unsupported, refusal + ", which this group does not offer; choose another");
  }
}

void Chooser::add_candidates(PerVerb& verb, Verb of, const Links& links, bool deterministic) {
  verb.verb = of;
  verb.links = &links;
  for (const Algorithm& row : schedule::algorithms()) {
    if (row.verb != of || (deterministic && !row.canonical())) continue;
    const bool ordered = schedule::keeps_order(row, links.offers.hosts);
    const bool by_price = !deterministic || schedule::is_canonical(row, ranks_will_do_);
    if (row.user_windows) {
      if (ranks_ > 1 && links.offers.every(&EdgeOffers::windows_to_user)) verb.direct = &row;
      continue;
    }
    if (!is_candidate(row, ranks_, links.offers)) continue;
    if (row.is_for_uneven() && by_price && verb.uneven == nullptr) verb.uneven = &row;
    if (schedule::takes_uneven(row) && ordered) verb.ordered_uneven = &row;
    if (row.is_for_even() && by_price) verb.rows.push_back(&row);
    if (row.is_for_even() && ordered) verb.ordered = &row;
  }
}

void Chooser::set_costs(const AgreedCosts& costs, std::shared_ptr<SizeTables> tables) {
  tables_ = std::move(tables);
  for (Links* links : {&group_, &neighbours_, &strangers_}) links->prices = prices_of(costs, links->offers);
  cache_bytes_ = static_cast<std::uint64_t>(costs.memory.rates.inside.cache_bytes);
  for (PerVerb& verb : verbs_) verb.priced.store(false, std::memory_order_relaxed);
  messages_across_.priced.store(false, std::memory_order_relaxed);
}

void Chooser::force(PerVerb& verb, const Algorithm& row) {
  verb.by_name = true;
  if (row.user_windows) return;  // runs wherever the buffers allow it
  verb.direct = nullptr;
  verb.rows = {&row};
  if (schedule::takes_uneven(row)) verb.uneven = &row;
}

void Chooser::price(PerVerb& verb) const {
  {
    const std::lock_guard lock(mutex_);
    if (verb.priced.load(std::memory_order_relaxed)) return;
    // What was asked for by name runs wherever the buffers allow it, whatever its price.
    const Algorithm* compared = verb.by_name ? nullptr : verb.direct;
    const Links& links = *verb.links;
    if (!verb.rows.empty()) verb.sizes = tables_->get(verb.rows, compared, ranks_, links.offers, links.prices);
    if (verb.by_name) verb.sizes.enter_bytes = 0;
    verb.priced.store(true, std::memory_order_release);
  }
  if (told_) told_(verb.verb, &verb == &messages_across_);
}

void Chooser::give(const Given& given) {
  verbs_[static_cast<std::size_t>(given.row.verb)].given = &given;
  options_hash_ = mix(options_hash_, hash_of(given));
}

double Chooser::price_of(const Algorithm& row, std::uint64_t bytes) const {
  if (is_given(row)) {
    const Given& given = *verbs_[static_cast<std::size_t>(row.verb)].given;
    return Pricer(row, given.programs).at(bytes, group_.prices);
  }
  return Pricer(row, ranks_, group_.offers).at(bytes, group_.prices);
}

double Chooser::price_of_copy(std::uint64_t bytes) const {
  const topology::Rates& rates = group_.prices.rates.inside;
  const bool far = rates.far > 0 && rates.cache_bytes > 0 && static_cast<double>(2 * bytes) > rates.cache_bytes;
  return static_cast<double>(bytes) * rates.copy * (far ? rates.far : 1);
}

double Chooser::price_of_message(const Algorithm& row, std::uint64_t bytes, bool across) const {
  const Links& links = across ? strangers_ : neighbours_;
  return Pricer(row, 2, links.offers).at(bytes, links.prices);
}

double Chooser::price_of_message_to_self(const Algorithm& row, std::uint64_t bytes) const {
  return Pricer(row, 1, neighbours_.offers).at(bytes, neighbours_.prices);
}

double Chooser::price_of_exchange(const Algorithm& row, std::uint64_t bytes, bool across) const {
  const Links& links = across ? strangers_ : neighbours_;
  return Pricer::both_ways(row, links.offers).at(bytes, links.prices);
}

Choice Chooser::choice_of(const PerVerb& verb, const SizeRow& row, std::uint64_t above) const {
  constexpr std::uint64_t kSmallest = 8, kLarge = 64 << 20;
  Choice choice{verb.verb, &verb == &messages_across_, row.bytes, row.algorithm->name,
                verb.by_name ? std::string_view("asked for by name") : row.algorithm->good_at};
  // A power of two, because those are what was compared.
  const std::uint64_t least = std::bit_ceil(std::max(above + 1, kSmallest));
  const std::uint64_t most = row.bytes == kAnyBytes ? std::max(kLarge, 4 * least) : std::max(row.bytes, least);
  choice.at_bytes = std::uint64_t{1} << (std::bit_width(least) + std::bit_width(most) - 2) / 2;
  const int ranks = is_whole_group(verb.verb) ? ranks_ : 2;
  const auto seconds = [&](const Algorithm& of) {
    return Pricer::compared(of, ranks, verb.links->offers).at(choice.at_bytes, verb.links->prices);
  };
  choice.seconds = seconds(*row.algorithm);
  for (const Algorithm* other : verb.rows) {
    if (other == row.algorithm) continue;
    const double taken = seconds(*other);
    if (!choice.next.empty() && taken >= choice.next_seconds) continue;
    choice.next = other->name;
    choice.next_seconds = taken;
  }
  return choice;
}

std::vector<Choice> Chooser::choices_of(Verb verb, bool across) const {
  const PerVerb& found = across ? priced(messages_across_) : of(verb);
  std::vector<Choice> choices;
  if (found.given != nullptr && !across) {
    choices.push_back({verb, across, kAnyBytes, found.given->row.name, found.given->row.good_at});
    if (!schedule::facts_of(verb).rooted) return choices;  // else it is for calls of one root
  }
  std::uint64_t above = 0;
  for (const SizeRow& row : found.sizes.rows) {
    choices.push_back(choice_of(found, row, above));
    above = row.bytes;
  }
  if (found.direct != nullptr)
    choices.push_back({verb, across, kAnyBytes, found.direct->name, "where all buffers are symmetric: no copies"});
  return choices;
}

std::string Choice::words() const {
  const auto in_us = [](double time) {
    std::array<char, 32> text;
    std::snprintf(text.data(), text.size(), "%.4g us", time * 1e6);
    return std::string(text.data());
  };
  std::string text = std::string(name_of(verb)) + (across ? " across hosts" : "");
  if (bytes != kAnyBytes) text += " up to " + std::to_string(bytes) + " bytes";
  text += ": " + std::string(algorithm) + " (" + std::string(why);
  if (at_bytes != 0) text += "; " + std::to_string(at_bytes) + " bytes in " + in_us(seconds);
  if (!next.empty()) text += ", by " + std::string(next) + " " + in_us(next_seconds);
  return text + ")";
}

}  // namespace tutti::choice
