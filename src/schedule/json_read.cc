// The reader of the JSON form that json.h tells of: strict, and every complaint names its place.
#include <algorithm>
#include <initializer_list>
#include <limits>
#include <optional>
#include <utility>

#include "base/place_in_text.h"
#include "schedule/json.h"
#include "schedule/json_format.h"
#include "tutti/error.h"

namespace tutti::schedule {
namespace {

// A JSON value and the way to it, which every complaint names.
class Node {
 public:
  Node(const Json& json, std::string path) : json_(&json), path_(std::move(path)) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::invalid_argument, "program JSON: " + (path_.empty() ? "the document" : path_) + " " + what);
  }

  // An object with all of `required`, and no key that is in neither list.
  void require_keys(std::initializer_list<const char*> required,
                    std::initializer_list<const char*> optional = {}) const {
    if (!json_->is_object()) fail("should be an object, but is " + kind());
    for (const char* key : required) {
      if (!json_->contains(key)) fail("lacks the key '" + std::string(key) + "'");
    }
    for (const auto& [key, value] : json_->items()) {
      const auto equals = [&name = key](const char* known) { return name == known; };
      if (std::none_of(required.begin(), required.end(), equals) &&
          std::none_of(optional.begin(), optional.end(), equals)) {
        fail("has the unknown key '" + key + "'");
      }
    }
  }

  bool has(const char* key) const { return json_->contains(key); }
  Node at(const char* key) const { return {json_->at(key), path_.empty() ? key : path_ + "." + key}; }

  std::vector<Node> items() const {
    if (!json_->is_array()) fail("should be an array, but is " + kind());
    std::vector<Node> nodes;
    for (std::size_t i = 0; i < json_->size(); ++i)
      nodes.emplace_back((*json_)[i], path_ + "[" + std::to_string(i) + "]");
    return nodes;
  }

  template <class T>
  T integer(T least = std::numeric_limits<T>::min()) const {
    if (!json_->is_number_integer()) fail("should be an integer, but is " + kind());
    const bool fits = json_->is_number_unsigned() ? std::in_range<T>(json_->get<std::uint64_t>())
                                                  : std::in_range<T>(json_->get<std::int64_t>());
    if (!fits || json_->get<T>() < least) fail("is out of range: " + json_->dump());
    return json_->get<T>();
  }

  bool boolean() const {
    if (!json_->is_boolean()) fail("should be true or false, but is " + kind());
    return json_->get<bool>();
  }

  std::string text() const {
    if (!json_->is_string()) fail("should be a string, but is " + kind());
    return json_->get<std::string>();
  }

  // The enumerator, of the first `count`, that has this name.
  template <class Enum>
  Enum one_of(std::size_t count) const {
    const std::string name = text();
    std::string known;
    for (std::size_t i = 0; i < count; ++i) {
      if (name_of(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
      known += (i == 0 ? "" : ", ") + std::string(name_of(static_cast<Enum>(i)));
    }
    fail("is '" + name + "', should be one of: " + known);
  }

 private:
  std::string kind() const { return json_->is_null() ? "null" : std::string("of type ") + json_->type_name(); }

  const Json* json_;
  std::string path_;
};

#define X(...) +1
constexpr std::size_t kStepOps = 0 TUTTI_STEP_OPS(X);
constexpr std::size_t kBuffers = 0 TUTTI_BUFFERS(X);
#undef X

Index read_index(const Node& node) {
  node.require_keys({}, {"at", "plus", "xor"});
  const int keys = int{node.has("at")} + int{node.has("plus")} + int{node.has("xor")};
  if (keys != 1) node.fail("should have one of the keys 'at', 'plus', 'xor'");
  if (node.has("at")) return Index::absolute(node.at("at").integer<std::int32_t>());
  if (node.has("plus")) return Index::plus(node.at("plus").integer<std::int32_t>());
  return Index::exclusive_or(node.at("xor").integer<std::int32_t>());
}

BlockSet read_blocks(const Node& node) {
  if (node.has("list")) {
    node.require_keys({"list"});
    BlockSet blocks;
    for (const Node& block : node.at("list").items()) blocks.list.push_back(block.integer<std::int32_t>(0));
    if (blocks.list.empty()) node.at("list").fail("should name a block");
    blocks.count = static_cast<std::int32_t>(blocks.list.size());
    return blocks;
  }
  node.require_keys({"first", "stride", "count"}, {"run"});
  return {read_index(node.at("first")), node.at("stride").integer<std::int32_t>(),
          node.at("count").integer<std::int32_t>(1), node.has("run") ? node.at("run").integer<std::int32_t>(1) : 1};
}

Operand read_operand(const Node& node) {
  node.require_keys({"kind"}, {"rank", "buffer", "plane", "blocks", "channel"});
  const std::string kind = node.at("kind").text();
  if (kind == "slot") {
    node.require_keys({"kind", "rank"}, {"channel"});
    return Operand::slot(read_index(node.at("rank")),
                         node.has("channel") ? node.at("channel").integer<std::uint8_t>() : 0);
  }
  if (kind == "own") {
    node.require_keys({"kind", "buffer", "plane", "blocks"});
  } else if (kind == "window") {
    node.require_keys({"kind", "rank", "buffer", "plane", "blocks"});
  } else {
    node.at("kind").fail("is '" + kind + "', should be one of: own, window, slot");
  }
  const auto buffer = node.at("buffer").one_of<Buffer>(kBuffers);
  const int plane = node.at("plane").integer<std::uint8_t>();
  const BlockSet blocks = read_blocks(node.at("blocks"));
  return kind == "own" ? Operand::own(buffer, blocks, plane)
                       : Operand::window(read_index(node.at("rank")), buffer, blocks, plane);
}

Wait read_wait(const Node& node) {
  node.require_keys({"rank"}, {"entered", "lane", "step", "segments_back"});
  const Index rank = read_index(node.at("rank"));
  if (node.has("entered")) {
    node.require_keys({"rank", "entered"});
    if (!node.at("entered").boolean()) node.at("entered").fail("can only be true");
    return {rank, Wait::kEntryLane, 0, 0};
  }
  node.require_keys({"rank", "lane", "step", "segments_back"});
  return {rank, node.at("lane").integer<std::int32_t>(0), node.at("step").integer<std::int32_t>(0),
          node.at("segments_back").integer<std::int32_t>(0)};
}

Step read_step(const Node& node) {
  node.require_keys({"op"}, {"last", "to", "from", "waits"});
  Step step;
  step.op = node.at("op").one_of<StepOp>(kStepOps);
  if (node.has("last")) step.last = node.at("last").boolean();
  if (node.has("to")) {
    for (const Node& operand : node.at("to").items()) step.destinations.push_back(read_operand(operand));
  }
  if (node.has("from")) {
    for (const Node& operand : node.at("from").items()) step.sources.push_back(read_operand(operand));
  }
  if (node.has("waits")) {
    for (const Node& wait : node.at("waits").items()) step.waits.push_back(read_wait(wait));
  }
  return step;
}

Lane read_lane(const Node& node) {
  node.require_keys({"name", "published", "steps"});
  Lane lane{node.at("name").text(), node.at("published").boolean(), {}};
  for (const Node& step : node.at("steps").items()) lane.steps.push_back(read_step(step));
  return lane;
}

void read_value(const Node& node, bool& value) { value = node.boolean(); }
template <class T>
void read_value(const Node& node, T& value) {
  value = node.integer<T>();
}

EdgeOffers read_edge_offers(const Node& node) {
  EdgeOffers edge;
#define X(member) #member,
  node.require_keys({TUTTI_EDGE_OFFERS(X)});
#undef X
#define X(member) read_value(node.at(#member), edge.member);
  TUTTI_EDGE_OFFERS(X)
#undef X
  return edge;
}

Hosts read_hosts(const Node& node, int ranks) {
  std::vector<int> numbers;
  for (const Node& host : node.items()) numbers.push_back(host.integer<std::int32_t>(0));
  if (static_cast<int>(numbers.size()) != ranks)
    node.fail("names the hosts of " + std::to_string(numbers.size()) + " ranks, and there are " +
              std::to_string(ranks));
  return Hosts(numbers);
}

Offers read_offers(const Node& node, int ranks) {
  node.require_keys({"inside", "scratch_bytes", "segment_bytes", "channels"}, {"across", "hosts"});
  Offers offers;
  offers.inside = read_edge_offers(node.at("inside"));
  if (node.has("across") != node.has("hosts")) node.fail("should have both of the keys 'across' and 'hosts', or none");
  if (node.has("hosts")) offers.hosts = read_hosts(node.at("hosts"), ranks);
  if (offers.hosts.several()) offers.across = read_edge_offers(node.at("across"));
  offers.scratch_bytes = node.at("scratch_bytes").integer<std::uint64_t>();
  offers.segment_bytes = node.at("segment_bytes").integer<std::uint64_t>();
  offers.channels = node.at("channels").integer<std::uint32_t>(1);
  return offers;
}

// Numbers that ask for more memory than any programs need are mistyped.
constexpr int kMostRanks = 1 << 16;
constexpr std::size_t kMostOperands = std::size_t{1} << 24;  // of all ranks

std::size_t operands_of(const Program& program) {
  std::size_t operands = 0;
  for (const Lane& lane : program.lanes) {
    for (const Step& step : lane.steps)
      operands += 1 + step.destinations.size() + step.sources.size() + step.waits.size();
  }
  return operands;
}

// One group of ranks with equal text, into their places. `room` is for the operands of all groups.
void read_group(const Node& node, const Lowered& shared, std::vector<std::optional<Lowered>>& programs,
                std::size_t& room) {
  node.require_keys({"ranks", "scratch", "lanes"});
  Lowered lowered = shared;
  const Node scratch = node.at("scratch");
  scratch.require_keys({"planes", "depth"});
  lowered.program.scratch_planes = scratch.at("planes").integer<std::int32_t>(0);
  lowered.program.scratch_depth = scratch.at("depth").integer<std::int32_t>(1);
  for (const Node& lane : node.at("lanes").items()) lowered.program.lanes.push_back(read_lane(lane));
  const std::size_t operands = operands_of(lowered.program);
  for (const Node& entry : node.at("ranks").items()) {
    if (operands > room) node.fail("asks for more than " + std::to_string(kMostOperands) + " operands");
    room -= operands;
    const auto rank = entry.integer<std::int32_t>(0);
    if (rank >= shared.program.ranks)
      entry.fail("is rank " + std::to_string(rank) + " of " + std::to_string(shared.program.ranks));
    std::optional<Lowered>& place = programs[static_cast<std::size_t>(rank)];
    if (place) entry.fail("names rank " + std::to_string(rank) + " a second time");
    lowered.program.rank = rank;
    place = lowered;
  }
}

std::vector<Lowered> read_document(const Node& root) {
  root.require_keys({"version"}, {"verb", "algorithm", "ranks", "root", "blocks", "message_blocks", "hears_first",
                                  "channels", "offers", "segment_bytes", "legend", "programs"});
  const int version = root.at("version").integer<int>();
  if (version != kJsonVersion) {
    root.at("version").fail("is " + std::to_string(version) + "; this program reads version " +
                            std::to_string(kJsonVersion));
  }
  root.require_keys({"version", "verb", "algorithm", "ranks", "root", "blocks", "message_blocks", "hears_first",
                     "channels", "offers", "segment_bytes", "programs"},
                    {"legend"});
  Lowered shared;
  shared.program.verb = root.at("verb").one_of<Verb>(kVerbs);
  shared.program.algorithm = root.at("algorithm").text();
  shared.program.ranks = root.at("ranks").integer<std::int32_t>(1);
  shared.program.root = root.at("root").integer<std::int32_t>(0);
  shared.program.blocks = root.at("blocks").integer<std::int32_t>(1);
  shared.program.message_blocks = root.at("message_blocks").integer<std::int32_t>(0);
  shared.program.hears_first = root.at("hears_first").boolean();
  shared.program.channels = root.at("channels").integer<std::int32_t>(1);
  if (shared.program.ranks > kMostRanks) root.at("ranks").fail("is more than " + std::to_string(kMostRanks));
  shared.offers = read_offers(root.at("offers"), shared.program.ranks);
  shared.segment_bytes = root.at("segment_bytes").integer<std::uint64_t>();

  std::vector<std::optional<Lowered>> programs(static_cast<std::size_t>(shared.program.ranks));
  std::size_t room = kMostOperands;
  for (const Node& group : root.at("programs").items()) read_group(group, shared, programs, room);
  std::vector<Lowered> complete;
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    if (!programs[rank]) root.at("programs").fail("has no program for rank " + std::to_string(rank));
    complete.push_back(std::move(*programs[rank]));
  }
  return complete;
}

// "line 3, column 5", where reading got so many bytes far.
std::string place_of(std::string_view text, std::size_t bytes) {
  const std::string_view read = text.substr(0, std::min(text.size(), bytes == 0 ? 0 : bytes - 1));
  const auto line = std::count(read.begin(), read.end(), '\n') + 1;
  const std::size_t begin = read.rfind('\n') == std::string_view::npos ? 0 : read.rfind('\n') + 1;
  return "line " + std::to_string(line) + ", column " + std::to_string(read.size() - begin + 1);
}

// What the parser says, without its own way to name the place.
std::string reason_of(std::string_view words) {
  const std::size_t colon = words.find(": ");
  return std::string(colon == std::string_view::npos ? words : words.substr(colon + 2));
}

}  // namespace

std::vector<Lowered> from_json(std::string_view text) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    throw Error(ErrorCode::invalid_argument,
                "program JSON: not JSON from " + place_of(text, error.byte) + " on: " + reason_of(error.what()));
  } catch (const nlohmann::json::out_of_range& error) {
    throw Error(ErrorCode::invalid_argument, "program JSON: at " +
                                                 place_of(text, offset_of_quoted(text, error.what()) + 1) +
                                                 " stands a number that is larger than any that can be read");
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::invalid_argument, "program JSON: not JSON at all: " + reason_of(error.what()));
  }
  return read_document(Node(json, ""));
}

}  // namespace tutti::schedule
