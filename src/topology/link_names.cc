#include "topology/link_names.h"

#include <charconv>
#include <sstream>
#include <string_view>

#include "topology/parts.h"
#include "tutti/error.h"

namespace tutti::topology {
namespace {

[[noreturn]] void fail(const std::string& message) { throw Error(ErrorCode::invalid_argument, message); }

std::int64_t parse_number(const std::string& text, const std::string& what, std::int64_t below) {
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0 || number >= below)
    fail("'" + text + "' is no number of " + what + ": there are 0 to " + std::to_string(below - 1));
  return number;
}

// "gpu 3 of host 1", "spine 2".
Vertex parse_vertex(const Topology& topology, const std::string& words) {
  std::istringstream stream(words);
  std::string name, number, of, host_word, host, more, names;
  stream >> name >> number >> of >> host_word >> host >> more;
  for (std::size_t part = 0; part < topology.parts.size(); ++part) {
    const Part& here = topology.parts[part];
    names += (names.empty() ? "" : ", ") + here.name;
    if (here.name != name) continue;
    const bool good = here.in_host() ? of == "of" && host_word == "host" && !host.empty() && more.empty() : of.empty();
    if (!good || number.empty())
      fail("'" + words + "': this belongs there: " + name + " NUMBER" + (here.in_host() ? " of host NUMBER" : ""));
    if (!here.in_host()) return {static_cast<int>(part), parse_number(number, name, topology.total(here))};
    const std::int64_t on = parse_number(host, "a host", topology.hosts);
    if (topology.count_in(here, on) == 0) fail("there is no " + name + " in host " + host);
    return {static_cast<int>(part), on * here.count + parse_number(number, name, topology.count_in(here, on))};
  }
  fail("'" + name + "' is no part of " + topology.name + "; there are: " + names);
}

// The number of the directed link from one to the other; -1 where there is none.
std::int64_t link_between(const Topology& topology, const Vertex& from, const Vertex& to) {
  std::int64_t first = 0, found = -1;
  for (const LinkKind& kind : topology.links) {
    const bool up = kind.lower == from.part && kind.upper == to.part;
    const bool down = kind.lower == to.part && kind.upper == from.part;
    if (kind.pattern == Pattern::mesh && up && from != to) {
      found = (first + from.number * topology.numbers(part_of(topology, kind.lower)) + to.number) * 2;
    } else if (up || down) {
      for_each_upper(topology, kind, (up ? from : to).number, [&](std::int64_t upper, std::int64_t instance) {
        if (upper == (up ? to : from).number) found = (first + instance) * 2 + (up ? 0 : 1);
      });
    }
    first += instances_of(topology, kind);
  }
  return found;
}

}  // namespace

std::vector<std::int64_t> find_links(const Topology& topology, const std::string& words) {
  for (const std::string_view joint : {std::string_view(" to "), std::string_view(" and ")}) {
    const std::size_t at = words.find(joint);
    if (at == std::string::npos) continue;
    const Vertex a = parse_vertex(topology, words.substr(0, at)),
                 b = parse_vertex(topology, words.substr(at + joint.size()));
    const std::int64_t there = link_between(topology, a, b), back = link_between(topology, b, a);
    if (there < 0 || back < 0)
      fail("no link of " + topology.name + " joins " + words_of(topology, a) + " and " + words_of(topology, b));
    return joint == " to " ? std::vector{there} : std::vector{there, back};
  }
  const std::int64_t some = topology.directed_links() > 0 ? 0 : -1;
  fail("'" + words + "' is no link; one is named by its ends" +
       (some < 0 ? std::string() : ", such as '" + topology.words_of(some) + "', or with 'and' for both directions"));
}

}  // namespace tutti::topology
