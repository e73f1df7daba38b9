#include "topology/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <sstream>
#include <vector>

#include "tutti/error.h"

namespace tutti::topology {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr Unit kBandwidths[] = {{"GB/s", 1e9},       {"MB/s", 1e6},       {"TB/s", 1e12},
                                {"Gbit/s", 1e9 / 8}, {"Mbit/s", 1e6 / 8}, {"Tbit/s", 1e12 / 8}};
constexpr Unit kLatencies[] = {{"us", 1e-6}, {"ns", 1e-9}, {"ms", 1e-3}, {"s", 1}};

template <std::size_t kCount>
std::string names_of(const Unit (&units)[kCount]) {
  std::string names;
  for (const Unit& unit : units) names += (names.empty() ? "" : ", ") + std::string(unit.name);
  return names;
}

struct PlacedWord {
  std::string text;
  int column = 1;  // from 1
};

// Words, and numbers with a unit right behind them as two.
std::vector<PlacedWord> tokens_of(std::string_view line) {
  line = line.substr(0, std::min(line.find('#'), line.size()));
  std::vector<PlacedWord> tokens;
  for (std::size_t i = 0; i < line.size();) {
    if (line[i] == ' ' || line[i] == '\t' || line[i] == '\r') {
      ++i;
      continue;
    }
    const std::size_t begin = i;
    while (i < line.size() && line[i] != ' ' && line[i] != '\t' && line[i] != '\r') ++i;
    std::string_view word = line.substr(begin, i - begin);
    const std::size_t number = std::min(word.find_first_not_of("0123456789.+-"), word.size());
    const int column = static_cast<int>(begin) + 1;
    if (number > 0 && number < word.size()) {
      tokens.push_back({std::string(word.substr(0, number)), column});
      word.remove_prefix(number);
      tokens.push_back({std::string(word), column + static_cast<int>(number)});
    } else {
      tokens.push_back({std::string(word), column});
    }
  }
  return tokens;
}

// One line at a time: what stands there, and where.
class TopologyReader {
 public:
  explicit TopologyReader(std::string file) : file_(std::move(file)) {}

  Topology read(std::string_view text) {
    std::istringstream lines{std::string(text)};
    for (std::string line; std::getline(lines, line);) {
      ++line_;
      tokens_ = tokens_of(line);
      next_ = 0;
      end_column_ = static_cast<int>(line.size()) + 1;
      if (tokens_.empty()) continue;
      read_statement();
      if (next_ < tokens_.size()) refuse("'" + tokens_[next_].text + "' is too much here");
    }
    if (topology_.parts.empty()) fail(file_ + ": no part; begin with: device gpu 8");
    if (const std::string why = why_not_so_many(topology_); !why.empty()) fail(counts_place_ + why);
    if (const std::string why = topology_.why_not(); !why.empty()) fail(file_ + ": " + why);
    return std::move(topology_);
  }

 private:
  void read_statement() {
    const std::string word = take("a statement: topology, hosts, routing, device, bridge, nic, switch or link");
    if (word == "topology") {
      topology_.name = take("a name");
    } else if (word == "hosts") {
      read_hosts();
    } else if (word == "routing") {
      const std::string name = take("ecmp or fixed");
      const auto routing = find<Routing>(name, 2);
      if (!routing) refuse_last("'" + name + "' is no routing; there are ecmp and fixed");
      topology_.routing = *routing;
    } else if (word == "link") {
      read_link();
    } else if (const auto kind = find<PartKind>(word, 4)) {
      const std::string name = take("the name of the part");
      if (find_part(name) >= 0) refuse_last("there is a part '" + name + "' already");
      Part part{*kind, name, take_count()};
      read_counts(part);
      if (next_ < tokens_.size() && tokens_[next_].text == "per") {
        if (part.in_host()) refuse("only switches are counted per so many hosts");
        ++next_;
        part.per_hosts = take_count();
      }
      topology_.parts.push_back(part);
      if (const std::string why = why_not_part(topology_, topology_.parts.back()); !why.empty()) refuse_statement(why);
      if (part.kind == PartKind::device_) counts_place_ = place(tokens_.front().column);
    } else {
      constexpr std::size_t kShown = 60;  // of what may be a file of another kind
      refuse_last("'" + word.substr(0, kShown) + (word.size() > kShown ? "..." : "") +
                  "' is no statement; there are topology, hosts, routing, device, bridge, nic, switch and link");
    }
  }

  // Hosts that are alike, or how many of each kind: 4 fat 2 thin.
  void read_hosts() {
    counts_place_ = place(tokens_.front().column);
    topology_.kinds.clear();
    int count = topology_.hosts = take_count();
    while (next_ < tokens_.size()) {
      const std::string name = take("the name of a kind of hosts");
      if (!topology_.parts.empty()) refuse_last("kinds of hosts are named above the first part");
      if (find_kind(name) >= 0) refuse_last("there is a kind of hosts '" + name + "' already");
      if (name == "per" || name == "back") refuse_last("'" + name + "' has a meaning of its own");
      topology_.kinds.push_back({name, count});
      if (next_ == tokens_.size()) return;
      count = take_count();
      if (topology_.hosts > kMostOfAPart - count)
        refuse_last("there are at most " + std::to_string(kMostOfAPart) + " hosts");
      topology_.hosts += count;
      if (next_ == tokens_.size()) take("the name of a kind of hosts");
    }
  }

  // Behind how many of a part there are: how many in hosts of some kind, which may be 0.
  void read_counts(Part& part) {
    const int usual = part.count;
    std::vector<int> counts(topology_.kinds.size(), usual);
    while (next_ < tokens_.size() && tokens_[next_].text != "per") {
      const int kind = take_kind();
      if (!part.in_host()) refuse_last("switches are in no host, of whatever kind");
      counts[static_cast<std::size_t>(kind)] = take_count(part.kind == PartKind::device_ ? 1 : 0);
    }
    if (std::all_of(counts.begin(), counts.end(), [&](int count) { return count == usual; })) return;
    part.count = *std::max_element(counts.begin(), counts.end());
    if (part.count == 0) refuse_last("then no host has one");
    part.counts = std::move(counts);
  }

  void read_link() {
    LinkKind kind;
    kind.lower = take_part();
    kind.upper = take_part();
    const std::string pattern = take("each, all, block or mesh");
    const auto found = find<Pattern>(pattern, 4);
    if (!found) refuse_last("'" + pattern + "' is no pattern; there are each, all, block and mesh");
    kind.pattern = *found;
    kind.up = kind.down = take_speed();
    if (next_ < tokens_.size() && tokens_[next_].text == "back") {
      ++next_;
      kind.down = take_speed();
    }
    while (next_ < tokens_.size()) {
      LinkKind::InHosts other{take_kind(), {}, {}};
      if (std::any_of(kind.others.begin(), kind.others.end(), [&](const auto& it) { return it.kind == other.kind; }))
        refuse_last("how fast it is in these hosts is said already");
      if (!topology_.parts[static_cast<std::size_t>(kind.lower)].in_host())
        refuse_last("only links that begin in hosts differ between kinds of them");
      other.up = other.down = take_speed();
      if (next_ < tokens_.size() && tokens_[next_].text == "back") {
        ++next_;
        other.down = take_speed();
      }
      kind.others.push_back(other);
    }
    if (const std::string why = why_not_link(topology_, kind); !why.empty()) refuse_statement(why);
    topology_.links.push_back(kind);
  }

  LinkSpeed take_speed() {
    LinkSpeed speed{take_with_unit("a bandwidth, such as 25 GB/s", kBandwidths), 0};
    refuse_number(why_not_speed(speed));
    speed.latency_s = take_with_unit("a latency, such as 1.5 us", kLatencies);
    refuse_number(why_not_speed(speed));
    return speed;
  }
  // The one that has just been read, with its unit behind it, where something is wrong with it.
  void refuse_number(const std::string& why) const {
    if (!why.empty()) fail(place(tokens_[next_ - 2].column) + why);
  }

  template <std::size_t kCount>
  double take_with_unit(const std::string& what, const Unit (&units)[kCount]) {
    const double number = take_number(what);
    const std::string unit = take("a unit: " + names_of(units));
    for (const Unit& known : units) {
      if (known.name == unit) return number * known.factor;
    }
    refuse_last("'" + unit + "' is no unit here; there are " + names_of(units));
  }

  double take_number(const std::string& what) {
    const std::string word = take(what);
    double number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || end != word.data() + word.size()) refuse_last("'" + word + "' is not " + what);
    return number;
  }

  int take_count(int least = 1) {
    const std::string word = take("how many");
    int number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || end != word.data() + word.size() || number < least || number > kMostOfAPart)
      refuse_last("'" + word + "' is not how many: a number from " + std::to_string(least) + " to " +
                  std::to_string(kMostOfAPart));
    return number;
  }

  int take_part() {
    const std::string name = take("the name of a part");
    const int part = find_part(name);
    if (part >= 0) return part;
    std::string names;
    for (const Part& known : topology_.parts) names += (names.empty() ? "" : ", ") + known.name;
    refuse_last("there is no part '" + name + "' above; there are " + (names.empty() ? "none" : names));
  }

  int take_kind() {
    const std::string name = take("a kind of hosts");
    const int kind = find_kind(name);
    if (kind >= 0) return kind;
    if (topology_.kinds.empty()) refuse_last("'" + name + "' is too much here");
    std::string names;
    for (const HostKind& known : topology_.kinds) names += (names.empty() ? "" : ", ") + known.name;
    refuse_last("'" + name + "' is no kind of hosts; there are " + names);
  }

  int find_kind(const std::string& name) const {
    for (std::size_t kind = 0; kind < topology_.kinds.size(); ++kind)
      if (topology_.kinds[kind].name == name) return static_cast<int>(kind);
    return -1;
  }

  int find_part(const std::string& name) const {
    const auto found = std::find_if(topology_.parts.begin(), topology_.parts.end(),
                                    [&](const Part& part) { return part.name == name; });
    return found == topology_.parts.end() ? -1 : static_cast<int>(found - topology_.parts.begin());
  }

  template <class Kind>
  static std::optional<Kind> find(const std::string& word, int kinds) {
    for (int i = 0; i < kinds; ++i) {
      if (name_of(static_cast<Kind>(i)) == word) return static_cast<Kind>(i);
    }
    return std::nullopt;
  }

  std::string take(const std::string& what) {
    if (next_ == tokens_.size()) fail(place(end_column_) + "here belongs " + what);
    return tokens_[next_++].text;
  }

  std::string place(int column) const {
    return file_ + ":" + std::to_string(line_) + ":" + std::to_string(column) + ": ";
  }
  [[noreturn]] void refuse(const std::string& why) const { fail(place(tokens_[next_].column) + why); }
  [[noreturn]] void refuse_last(const std::string& why) const { fail(place(tokens_[next_ - 1].column) + why); }
  [[noreturn]] void refuse_statement(const std::string& why) const { fail(place(tokens_.front().column) + why); }
  [[noreturn]] static void fail(const std::string& why) { throw Error(ErrorCode::invalid_argument, why); }

  std::string file_;
  Topology topology_;
  int line_ = 0;
  std::vector<PlacedWord> tokens_;
  std::size_t next_ = 0;
  int end_column_ = 1;
  std::string counts_place_;  // of what was last said about how many ranks there are
};

std::string number_text(double number) {
  std::array<char, 512> text;  // of any number, without an exponent
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  static_cast<void>(error);
  return {text.data(), end};
}

// In the unit in which it is a short number.
template <std::size_t kCount>
std::string in_units(double value, const Unit (&units)[kCount]) {
  std::string best;
  for (const Unit& unit : units) {
    const double number = value / unit.factor;
    if (number * unit.factor != value) continue;
    const std::string text = number_text(number) + " " + std::string(unit.name);
    if (best.empty() || text.size() < best.size()) best = text;
  }
  return best.empty() ? number_text(value / units[0].factor) + " " + std::string(units[0].name) : best;
}

}  // namespace

Topology parse_topology(std::string_view text, const std::string& file) { return TopologyReader(file).read(text); }

std::string words_of_bandwidth(double bytes_per_s) { return in_units(bytes_per_s, kBandwidths); }
std::string words_of_latency(double seconds) { return in_units(seconds, kLatencies); }

std::string to_text(const Topology& topology) {
  std::string text = "topology " + topology.name + "\nhosts";
  if (topology.kinds.empty()) text += " " + std::to_string(topology.hosts);
  for (const HostKind& kind : topology.kinds) text += " " + std::to_string(kind.hosts) + " " + kind.name;
  text += "\n";
  if (topology.routing != Routing::ecmp) text += "routing " + std::string(name_of(topology.routing)) + "\n";
  for (const Part& part : topology.parts) {
    const int usual = part.counts.empty() ? part.count : std::max(1, part.counts.front());
    text += std::string(name_of(part.kind)) + " " + part.name + " " + std::to_string(usual) +
            (part.per_hosts == 0 ? "" : " per " + std::to_string(part.per_hosts));
    for (std::size_t kind = 0; kind < part.counts.size(); ++kind)
      if (part.counts[kind] != usual) text += " " + topology.kinds[kind].name + " " + std::to_string(part.counts[kind]);
    text += "\n";
  }
  const auto speed = [](const LinkSpeed& of) {
    return words_of_bandwidth(of.bytes_per_s) + " " + words_of_latency(of.latency_s);
  };
  for (const LinkKind& kind : topology.links) {
    text += "link " + topology.parts[static_cast<std::size_t>(kind.lower)].name + " " +
            topology.parts[static_cast<std::size_t>(kind.upper)].name + " " + std::string(name_of(kind.pattern)) + " " +
            speed(kind.up) + (kind.up == kind.down ? "" : " back " + speed(kind.down));
    for (const LinkKind::InHosts& other : kind.others)
      text += " " + topology.kinds[static_cast<std::size_t>(other.kind)].name + " " + speed(other.up) +
              (other.up == other.down ? "" : " back " + speed(other.down));
    text += "\n";
  }
  return text;
}

}  // namespace tutti::topology
