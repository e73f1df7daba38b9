#include "engine/failures/difference.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/rank_list.h"
#include "engine/call.h"
#include "schedule/algorithms/table.h"

namespace tutti::engine {
namespace {

// The ranks that made each of the calls that were made at one place in the sequence.
struct Party {
  Statement statement;
  std::vector<int> ranks;
};
using Parties = std::vector<Party>;

void add(Parties& parties, const Statement& statement, int rank) {
  const auto same = std::find_if(parties.begin(), parties.end(),
                                 [&](const Party& party) { return party.statement.agrees_with(statement); });
  if (same != parties.end()) {
    same->ranks.push_back(rank);
  } else {
    parties.push_back({statement, {rank}});
  }
}

// The algorithms that a collective may run, by name.
std::string words_of_programs(const Statement& statement) {
  std::string text;
  const auto rows = schedule::algorithms();
  for (std::uint32_t programs = statement.programs(); programs != 0; programs >>= 8) {
    const std::size_t number = programs & 0xff;  // words of other processes
    const bool brought = number > schedule::kMostAlgorithms && number <= schedule::kMostAlgorithms + kVerbs;
    text += text.empty() ? " by " : " or ";
    text += brought                               ? "a schedule from a file"
            : number == 0 || number > rows.size() ? "'?'"
                                                  : "'" + std::string(rows[number - 1].name) + "'";
  }
  return text;
}

// Calls that read alike differ in what runs them.
std::string list_calls(const Parties& parties) {
  std::string text;
  for (const Party& party : parties) {
    const std::string words = words_of(party.statement);
    const auto alike = [&](const Party& other) { return words_of(other.statement) == words; };
    const bool shared = std::count_if(parties.begin(), parties.end(), alike) > 1;
    text += (text.empty() ? "" : "; ") + rank_names(party.ranks) + " called " + words +
            (shared ? words_of_programs(party.statement) : "");
  }
  return text;
}

int odd_one_out(const Parties& parties) {
  if (parties.size() != 2 || parties[0].ranks.size() + parties[1].ranks.size() < 3) return -1;
  for (const Party& party : parties) {
    if (party.ranks.size() == 1) return party.ranks.front();
  }
  return -1;
}

}  // namespace

Difference difference_between(const Statement& sender, const Statement& receiver) {
  return {list_calls({{sender, {sender.root()}}, {receiver, {receiver.peer()}}}), 0, -1, true};
}

Difference crossing(const Statement& message, const Statement& collective) {
  return {list_calls({{message, {message.root()}}, {collective, {message.peer()}}}), 0, -1};
}

Difference find_difference(int ranks, int collectives, const Stated& stated, std::uint64_t about) {
  std::map<std::uint64_t, Parties> by_sequence;  // collectives
  std::map<int, std::uint64_t> latest;           // by rank
  for (int channel = 0; channel < collectives; ++channel) {
    for (int rank = 0; rank < ranks; ++rank) {
      const Statement statement = stated(channel, rank);
      if (statement.sequence == 0) continue;
      add(by_sequence[statement.sequence], statement, rank);
      latest[rank] = std::max(latest[rank], statement.sequence);
    }
  }
  const auto silent_about = [&](std::uint64_t sequence) {
    const auto spoke =
        std::count_if(latest.begin(), latest.end(), [&](const auto& it) { return it.second >= sequence; });
    return sequence == 0 ? 0 : ranks - static_cast<int>(spoke);
  };
  for (const auto& [sequence, parties] : by_sequence) {
    if (parties.size() > 1) return {list_calls(parties), silent_about(sequence), odd_one_out(parties)};
  }
  // A message differs when its two ends, at the same number in the same direction, do.
  std::map<std::pair<std::uint64_t, std::pair<int, int>>, Parties> messages;
  for (int rank = 0; rank < ranks; ++rank) {
    const Statement statement = stated(collectives, rank);
    if (statement.sequence == 0 || statement.verb() != Verb::send_recv) continue;
    add(messages[{statement.sequence, {statement.root(), statement.peer()}}], statement, rank);
  }
  for (const auto& [edge, parties] : messages) {
    if (parties.size() > 1) return {list_calls(parties), 0, -1, true};
  }
  for (const auto& [edge, parties] : messages) {
    const auto [sender, receiver] = edge.second;
    if (parties[0].ranks[0] != sender || receiver < 0 || receiver >= ranks) continue;
    const Statement collective = stated(collectives, receiver);
    const auto found = by_sequence.find(collective.sequence);
    if (collective.verb() == Verb::send_recv || collective.sequence <= latest[sender] || found == by_sequence.end())
      continue;
    Parties both = found->second;
    both.insert(both.begin(), parties[0]);
    return {list_calls(both), 0, odd_one_out(both)};
  }
  Difference none;
  none.silent = silent_about(about);
  return none;
}

}  // namespace tutti::engine
