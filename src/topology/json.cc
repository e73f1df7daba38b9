#include "topology/json.h"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json_text.h"
#include "base/place_in_text.h"
#include "topology/json_place.h"
#include "tutti/error.h"

namespace tutti::topology {
namespace {

using nlohmann::ordered_json;

ordered_json json_of(const LinkSpeed& speed) {
  return {{"bytes_per_s", speed.bytes_per_s}, {"latency_s", speed.latency_s}};
}

// The document, and the place in it for what is wrong.
class JsonReader {
 public:
  JsonReader(std::string_view text, std::string file) : file_(std::move(file)), text_(text) {
    try {
      document_ = ordered_json::parse(text);
    } catch (const ordered_json::parse_error& error) {
      throw Error(ErrorCode::invalid_argument, file_ + ":" + place_in_text(text, error.byte == 0 ? 0 : error.byte - 1) +
                                                   ": this is no JSON from here on");
    } catch (const ordered_json::out_of_range& error) {
      throw Error(ErrorCode::invalid_argument, file_ + ":" + place_in_text(text, offset_of_quoted(text, error.what())) +
                                                   ": this number is larger than any that can be read");
    }
  }

  Topology read() {
    check_keys(document_, "", {"topology", "hosts", "parts", "links"}, {"ranks", "routing", "kinds"});
    Topology topology;
    topology.name = string_in(document_, "", "topology");
    topology.hosts = count_in(document_, "", "hosts");
    if (document_.contains("kinds")) read_kinds(topology);
    if (document_.contains("routing")) topology.routing = named<Routing>(document_, "", "routing", "ecmp or fixed", 2);
    const ordered_json& parts = list_in("parts");
    for (std::size_t i = 0; i < parts.size(); ++i) add_part(parts[i], "parts[" + std::to_string(i) + "]", topology);
    const ordered_json& links = list_in("links");
    for (std::size_t i = 0; i < links.size(); ++i) add_link(links[i], "links[" + std::to_string(i) + "]", topology);
    if (const std::string why = topology.why_not(); !why.empty()) fail("", why);
    if (document_.contains("ranks") && document_["ranks"] != topology.ranks())
      fail("ranks", "there are " + std::to_string(topology.ranks()) + ", by the hosts and the devices");
    return topology;
  }

 private:
  void read_kinds(Topology& topology) const {
    const ordered_json& kinds = list_in("kinds");
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const std::string place = "kinds[" + std::to_string(i) + "]";
      check_keys(kinds[i], place, {"name", "hosts"}, {});
      topology.kinds.push_back({string_in(kinds[i], place, "name"), count_in(kinds[i], place, "hosts")});
    }
  }

  // The values of an object with a key for kinds of hosts, with the kinds' numbers.
  template <class Visit>
  void for_each_kind(const ordered_json& json, const std::string& place, const Topology& topology,
                     Visit&& visit) const {
    if (!json.is_object()) fail(place, "an object belongs here");
    for (const auto& [name, value] : json.items()) {
      const auto found = std::find_if(topology.kinds.begin(), topology.kinds.end(),
                                      [&, key = name](const HostKind& kind) { return kind.name == key; });
      if (found == topology.kinds.end()) fail(joined(place, name), "there is no such kind of hosts");
      visit(static_cast<int>(found - topology.kinds.begin()), value, joined(place, name));
    }
  }

  void add_part(const ordered_json& json, const std::string& place, Topology& topology) const {
    topology.parts.push_back(part_of(json, place, topology));
    if (const std::string why = why_not_part(topology, topology.parts.back()); !why.empty()) fail(place, why);
  }
  void add_link(const ordered_json& json, const std::string& place, Topology& topology) const {
    topology.links.push_back(link_of(json, place, topology));
    if (const std::string why = why_not_link(topology, topology.links.back()); !why.empty()) fail(place, why);
  }

  Part part_of(const ordered_json& json, const std::string& place, const Topology& topology) const {
    check_keys(json, place, {"kind", "name", "count"}, {"per_hosts", "in"});
    Part part;
    part.kind = named<PartKind>(json, place, "kind", "device, bridge, nic or switch");
    part.name = string_in(json, place, "name");
    part.count = count_in(json, place, "count");
    if (json.contains("per_hosts")) part.per_hosts = count_in(json, place, "per_hosts");
    if (!json.contains("in")) return part;
    part.counts.assign(topology.kinds.size(), part.count);
    for_each_kind(json["in"], place + ".in", topology,
                  [&](int kind, const ordered_json& count, const std::string& where) {
                    if (!count.is_number_integer() || count < 0 || count > kMostOfAPart)
                      fail(where, "a number from 0 to " + std::to_string(kMostOfAPart) + " belongs here");
                    part.counts[static_cast<std::size_t>(kind)] = count.get<int>();
                  });
    return part;
  }

  LinkKind link_of(const ordered_json& json, const std::string& place, const Topology& topology) const {
    check_keys(json, place, {"lower", "upper", "pattern", "up", "down"}, {"in"});
    LinkKind kind;
    kind.lower = number_of_part(json, place, "lower", topology);
    kind.upper = number_of_part(json, place, "upper", topology);
    kind.pattern = named<Pattern>(json, place, "pattern", "each, all, block or mesh");
    kind.up = speed_of(json["up"], place + ".up");
    kind.down = speed_of(json["down"], place + ".down");
    if (!json.contains("in")) return kind;
    for_each_kind(json["in"], place + ".in", topology, [&](int of, const ordered_json& both, const std::string& where) {
      check_keys(both, where, {"up", "down"}, {});
      kind.others.push_back({of, speed_of(both["up"], where + ".up"), speed_of(both["down"], where + ".down")});
    });
    return kind;
  }

  LinkSpeed speed_of(const ordered_json& json, const std::string& place) const {
    check_keys(json, place, {"bytes_per_s", "latency_s"}, {});
    for (const char* key : {"bytes_per_s", "latency_s"}) {
      if (!json[key].is_number()) fail(place + "." + key, "a number belongs here");
    }
    return {json["bytes_per_s"].get<double>(), json["latency_s"].get<double>()};
  }

  template <class Kind>
  Kind named(const ordered_json& json, const std::string& place, const char* key, const char* known,
             int kinds = 4) const {
    const std::string name = string_in(json, place, key);
    for (int i = 0; i < kinds; ++i) {
      if (name_of(static_cast<Kind>(i)) == name) return static_cast<Kind>(i);
    }
    fail(joined(place, key), "'" + name + "' is not " + known);
  }

  int number_of_part(const ordered_json& json, const std::string& place, const char* key,
                     const Topology& topology) const {
    const std::string name = string_in(json, place, key);
    const auto found =
        std::find_if(topology.parts.begin(), topology.parts.end(), [&](const Part& part) { return part.name == name; });
    if (found == topology.parts.end()) fail(place + "." + key, "there is no part '" + name + "'");
    return static_cast<int>(found - topology.parts.begin());
  }

  const ordered_json& list_in(const char* key) const {
    const ordered_json& list = document_[key];
    if (!list.is_array()) fail(key, "a list belongs here");
    return list;
  }

  std::string string_in(const ordered_json& json, const std::string& place, const char* key) const {
    if (!json[key].is_string()) fail(joined(place, key), "a string belongs here");
    return json[key].get<std::string>();
  }

  int count_in(const ordered_json& json, const std::string& place, const char* key) const {
    const auto& number = json[key];
    if (!number.is_number_integer() || number < 1 || number > kMostOfAPart)
      fail(joined(place, key), "a number from 1 to " + std::to_string(kMostOfAPart) + " belongs here");
    return number.get<int>();
  }

  void check_keys(const ordered_json& json, const std::string& place, std::initializer_list<const char*> needed,
                  std::initializer_list<const char*> possible) const {
    if (!json.is_object()) fail(place, "an object belongs here");
    for (const char* key : needed) {
      if (!json.contains(key)) fail(place, std::string("'") + key + "' is missing");
    }
    const auto has = [](std::initializer_list<const char*> keys, const std::string& key) {
      return std::find(keys.begin(), keys.end(), key) != keys.end();
    };
    for (const auto& [key, value] : json.items()) {
      if (!has(needed, key) && !has(possible, key)) fail(joined(place, key), "nobody knows this key");
    }
  }

  static std::string joined(const std::string& place, const std::string& key) {
    return place.empty() ? key : place + "." + key;
  }

  [[noreturn]] void fail(const std::string& place, const std::string& why) const {
    if (place.empty()) throw Error(ErrorCode::invalid_argument, file_ + ": " + why);
    throw Error(ErrorCode::invalid_argument,
                file_ + ":" + place_in_text(text_, offset_of_value(text_, place)) + ": " + place + ": " + why);
  }

  std::string file_;
  std::string_view text_;
  ordered_json document_;
};

}  // namespace

std::string to_json(const Topology& topology) {
  ordered_json parts = ordered_json::array(), links = parts;
  for (const Part& part : topology.parts) {
    parts.push_back({{"kind", name_of(part.kind)}, {"name", part.name}, {"count", part.count}});
    if (part.per_hosts != 0) parts.back()["per_hosts"] = part.per_hosts;
    for (std::size_t kind = 0; kind < part.counts.size(); ++kind)
      parts.back()["in"][topology.kinds[kind].name] = part.counts[kind];
  }
  for (const LinkKind& kind : topology.links) {
    links.push_back({{"lower", topology.parts[static_cast<std::size_t>(kind.lower)].name},
                     {"upper", topology.parts[static_cast<std::size_t>(kind.upper)].name},
                     {"pattern", name_of(kind.pattern)},
                     {"up", json_of(kind.up)},
                     {"down", json_of(kind.down)}});
    for (const LinkKind::InHosts& other : kind.others)
      links.back()["in"][topology.kinds[static_cast<std::size_t>(other.kind)].name] = {{"up", json_of(other.up)},
                                                                                       {"down", json_of(other.down)}};
  }
  ordered_json document{{"topology", topology.name},
                        {"hosts", topology.hosts},
                        {"ranks", topology.ranks()},
                        {"routing", name_of(topology.routing)},
                        {"parts", parts},
                        {"links", links}};
  for (const HostKind& kind : topology.kinds) document["kinds"].push_back({{"name", kind.name}, {"hosts", kind.hosts}});
  return json_text(document, 2) + "\n";
}

Topology topology_from_json(std::string_view text, const std::string& file) { return JsonReader(text, file).read(); }

}  // namespace tutti::topology
