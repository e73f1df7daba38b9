// The writer of the JSON form that json.h tells of.
#include "schedule/fold.h"
#include "schedule/json.h"
#include "schedule/json_format.h"

namespace tutti::schedule {
namespace {

Json json_of(const Index& index) {
  switch (index.base) {
    case Index::Base::absolute: return {{"at", index.value}};
    case Index::Base::plus: return {{"plus", index.value}};
    case Index::Base::exclusive_or: return {{"xor", index.value}};
  }
  return {};
}

Json json_of(const BlockSet& blocks) {
  if (!blocks.list.empty()) return {{"list", blocks.list}};
  Json json = {{"first", json_of(blocks.first)}, {"stride", blocks.stride}, {"count", blocks.count}};
  if (blocks.run != 1) json["run"] = blocks.run;
  return json;
}

Json json_of(const Operand& operand) {
  if (operand.kind == Operand::Kind::slot) {
    Json json = {{"kind", "slot"}, {"rank", json_of(operand.rank)}};
    if (operand.channel != 0) json["channel"] = operand.channel;
    return json;
  }
  Json json = {{"kind", "own"}};
  if (operand.kind == Operand::Kind::window) json = {{"kind", "window"}, {"rank", json_of(operand.rank)}};
  json["buffer"] = name_of(operand.buffer);
  json["plane"] = operand.plane;
  json["blocks"] = json_of(operand.blocks);
  return json;
}

Json json_of(const Wait& wait) {
  if (wait.lane == Wait::kEntryLane) return {{"rank", json_of(wait.rank)}, {"entered", true}};
  return {
      {"rank", json_of(wait.rank)}, {"lane", wait.lane}, {"step", wait.step}, {"segments_back", wait.segments_back}};
}

Json json_of(const Step& step);
Json json_of(const Lane& lane);

template <class T>
Json json_of_all(const std::vector<T>& items) {
  Json json = Json::array();
  for (const T& item : items) json.push_back(json_of(item));
  return json;
}

Json json_of(const Step& step) {
  Json json = {{"op", name_of(step.op)}};
  if (step.last) json["last"] = true;
  if (!step.destinations.empty()) json["to"] = json_of_all(step.destinations);
  if (!step.sources.empty()) json["from"] = json_of_all(step.sources);
  if (!step.waits.empty()) json["waits"] = json_of_all(step.waits);
  return json;
}

Json json_of(const Lane& lane) {
  return {{"name", lane.name}, {"published", lane.published}, {"steps", json_of_all(lane.steps)}};
}

Json json_of(const EdgeOffers& edge) {
  // A new member of EdgeOffers breaks this line, and belongs into TUTTI_EDGE_OFFERS.
  [[maybe_unused]] const auto& [a, b, c, d, e, f] = edge;
  Json json;
#define X(member) json[#member] = edge.member;
  TUTTI_EDGE_OFFERS(X)
#undef X
  return json;
}

Json json_of(const Offers& offers) {
  // A new member of Offers breaks this line, and belongs below.
  [[maybe_unused]] const auto& [a, b, c, d, e, f] = offers;
  Json json = {{"inside", json_of(offers.inside)}};
  if (offers.hosts.several()) {
    json["across"] = json_of(offers.across);
    json["hosts"] = offers.hosts.by_rank();
  }
  json["scratch_bytes"] = offers.scratch_bytes;
  json["segment_bytes"] = offers.segment_bytes;
  json["channels"] = offers.channels;
  return json;
}

Json legend() {
  Json json;
#define X(name, symbol, meaning) json["ops"][#name] = {{"symbol", symbol}, {"meaning", meaning}};
  TUTTI_STEP_OPS(X)
#undef X
#define X(name, meaning) json["buffers"][#name] = meaning;
  TUTTI_BUFFERS(X)
#undef X
  return json;
}

// As dump(), with one line for everything that fits one.
void write_lines(const Json& json, std::size_t indent, std::string& text) {
  constexpr std::size_t kColumns = 120;
  const std::string line = json.dump();
  if (!json.is_structured() || json.empty() || indent + line.size() <= kColumns) {
    text += line;
    return;
  }
  const std::string margin(indent + 2, ' ');
  text += json.is_object() ? "{\n" : "[\n";
  std::size_t left = json.size();
  for (const auto& [key, value] : json.items()) {
    text += margin;
    if (json.is_object()) text += Json(key).dump() + ": ";
    write_lines(value, indent + 2, text);
    text += --left == 0 ? "\n" : ",\n";
  }
  text += std::string(indent, ' ') + (json.is_object() ? "}" : "]");
}

}  // namespace

std::string to_json(std::span<const Lowered> programs) {
  require_program_set(programs);
  const Lowered& first = programs.front();
  // A new member of Program breaks this line, and belongs into the document or its groups. Only the landing planes do
  // not: lowering has used them up.
  [[maybe_unused]] const auto& [a, b, c, d, e, f, g, h, i, landing_planes, across, j, k, l] = first.program;
  Json json = {{"version", kJsonVersion},
               {"verb", name_of(first.program.verb)},
               {"algorithm", first.program.algorithm},
               {"ranks", first.program.ranks},
               {"root", first.program.root},
               {"blocks", first.program.blocks},
               {"message_blocks", first.program.message_blocks},
               {"hears_first", first.program.hears_first},
               {"channels", first.program.channels},
               {"offers", json_of(first.offers)},
               {"segment_bytes", first.segment_bytes},
               {"legend", legend()},
               {"programs", Json::array()}};
  for (const std::vector<int>& ranks : fold_ranks(programs)) {
    const Program& program = programs[static_cast<std::size_t>(ranks.front())].program;
    json["programs"].push_back({{"ranks", ranks},
                                {"scratch", {{"planes", program.scratch_planes}, {"depth", program.scratch_depth}}},
                                {"lanes", json_of_all(program.lanes)}});
  }
  std::string text;
  write_lines(json, 0, text);
  return text + "\n";
}

}  // namespace tutti::schedule
