#include "strategy/server_keys.h"

#include <algorithm>
#include <utility>

namespace tutti::strategy {
namespace {

// Ranges of whole blocks, as evenly as may be; the last one has what is left.
std::vector<KeyPart> cut_evenly(std::size_t elements, std::size_t servers) {
  const std::size_t blocks = (elements + kKeyBlock - 1) / kKeyBlock;
  std::vector<KeyPart> parts;
  for (std::size_t server = 0; server < servers; ++server) {
    const std::size_t begin = std::min(elements, blocks * server / servers * kKeyBlock);
    const std::size_t end = std::min(elements, blocks * (server + 1) / servers * kKeyBlock);
    parts.push_back({begin, end - begin});
  }
  return parts;
}

std::vector<KeyPart> deal_rows(std::size_t rows, std::size_t servers) {
  std::vector<KeyPart> parts;
  for (std::size_t server = 0; server < servers; ++server)
    parts.push_back({0, rows > server ? (rows - server - 1) / servers + 1 : 0});
  return parts;
}

std::string rank_of_server(std::size_t server) { return "server " + std::to_string(server); }

}  // namespace

KeyCuts cut_keys(std::span<const KeyShape> keys, int servers) {
  const auto count = static_cast<std::size_t>(servers);
  std::vector<std::size_t> held(count);  // elements
  KeyCuts cuts;
  for (const KeyShape& key : keys) {
    if (key.table) {
      cuts.push_back(deal_rows(key.rows, count));
    } else if (key.elements() >= count * kKeyBlock) {
      cuts.push_back(cut_evenly(key.elements(), count));
    } else {
      const auto least = std::min_element(held.begin(), held.end()) - held.begin();
      cuts.emplace_back(count);
      cuts.back()[static_cast<std::size_t>(least)].count = key.elements();
    }
    for (std::size_t server = 0; server < count; ++server)
      held[server] += cuts.back()[server].count * (key.table ? key.width : 1);
  }
  return cuts;
}

train::Sentence sentence_of(std::span<const KeyShape> keys, const KeyCuts& cuts, std::span<const KeyCall> calls,
                            int servers) {
  train::Sentence sentence;
  const auto say = [&](std::string what, std::size_t bytes, std::size_t times = 1) {
    if (times > 0) sentence.push_back({Verb::send_recv, std::move(what), bytes, times, servers + 1});
  };
  for (const KeyCall& call : calls) {
    const KeyShape& key = keys[call.key];
    const std::string what = (call.pushes ? "push of \"" : "pull of \"") + key.name + "\"";
    const std::size_t width = key.table ? key.width : 1;
    for (std::size_t server = 0; server < static_cast<std::size_t>(servers); ++server) {
      const std::size_t rows = key.table ? call.rows[server] : cuts[call.key][server].count;
      if (rows == 0) continue;
      const std::string whom = what + (call.pushes ? " to " : " from ") + rank_of_server(server);
      say(whom + ", the command", kCommandBytes);
      if (key.table) say(whom + ", which rows", rows * sizeof(std::int64_t));
      const std::size_t each = rows_per_message(width), whole = rows / each;
      say(whom, each * width * sizeof(float), whole);
      if (rows % each != 0) say(whom + ", the rest", rows % each * width * sizeof(float));
    }
  }
  say("the clock ends", kCommandBytes, static_cast<std::size_t>(servers));
  say("the next one may begin", kCommandBytes, static_cast<std::size_t>(servers));
  return sentence;
}

}  // namespace tutti::strategy
