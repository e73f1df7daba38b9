#include "topology/machine.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/json_text.h"

namespace tutti::topology {
namespace {

using nlohmann::ordered_json;

// `format` has one place for a number.
std::string rounded(const char* format, double number) {
  char text[48];
  std::snprintf(text, sizeof text, format, number);
  return text;
}

// "48 KB", with units of 1024 as caches and memory are sold.
std::string words_of_size(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KB", "MB", "GB", "TB"};
  auto size = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; size >= 1024 && unit + 1 < std::size(kUnits); ++unit) size /= 1024;
  return rounded("%.4g ", size) + kUnits[unit];
}

std::string counted(int count, const std::string& words) {
  return std::to_string(count) + " " + words + (count == 1 ? "" : "s");
}

std::string facts_of(const MachinePart& part) {
  std::string text;
  if (!part.model.empty()) text += ", " + part.model;
  if (part.bytes != 0) text += ", " + words_of_size(part.bytes);
  if (part.link_bytes_per_s > 0) text += rounded(", %.4g Gbit/s", part.link_bytes_per_s * 8e-9);
  if (!part.bus.empty()) text += ", PCIe " + part.bus;
  if (part.bus_bytes_per_s > 0) text += rounded(" of %.4g GB/s", part.bus_bytes_per_s / 1e9);
  return text;
}

std::string numbered_title_of(const MachinePart& part, const std::string& numbers) {
  std::string title = part.kind == MachineKind::cache ? part.name + " cache" : std::string(words_of(part.kind));
  if (!numbers.empty()) title += " " + numbers;
  if (part.kind != MachineKind::cache && !part.name.empty()) title += " " + part.name;
  return title + facts_of(part);
}

// The same but for numbers, names of devices and places on the bus.
bool alike(const MachinePart& a, const MachinePart& b) {
  return a.kind == b.kind && a.model == b.model && a.bytes == b.bytes && a.bus.empty() && b.bus.empty() &&
         (a.kind != MachineKind::cache || a.name == b.name) &&
         std::equal(a.parts.begin(), a.parts.end(), b.parts.begin(), b.parts.end(), alike);
}

class TreeText {
 public:
  std::string of(const MachinePart& machine) {
    text_ = summary_of(machine) + "\n";
    add_parts(machine, "", true);
    return std::move(text_);
  }

 private:
  // Numbers are left out below parts that stand for several.
  void add_parts(const MachinePart& of, const std::string& before, bool numbered) {
    for (auto first = of.parts.begin(); first != of.parts.end();) {
      const auto end =
          std::find_if_not(first + 1, of.parts.end(), [&](const auto& next) { return alike(*first, next); });
      const bool last = end == of.parts.end();
      const auto many = end - first;
      std::string numbers;
      if (numbered && first->number >= 0) {
        numbers = std::to_string(first->number);
        if (many > 1) numbers += "-" + std::to_string((end - 1)->number);
      }
      text_ += before + (last ? "└─ " : "├─ ");
      if (many > 1) text_ += std::to_string(many) + " x ";
      text_ += numbered_title_of(*first, numbers) + "\n";
      add_parts(*first, before + (last ? "   " : "│  "), numbered && many == 1);
      first = end;
    }
  }

  std::string text_;
};

ordered_json json_of(const MachinePart& part) {
  ordered_json object{{"kind", name_of(part.kind)}};
  if (part.number >= 0) object["number"] = part.number;
  if (!part.name.empty()) object["name"] = part.name;
  if (!part.model.empty()) object["model"] = part.model;
  if (!part.bus.empty()) object["bus"] = part.bus;
  if (part.bytes != 0) object["bytes"] = part.bytes;
  if (part.bus_bytes_per_s > 0) object["bus_bytes_per_s"] = part.bus_bytes_per_s;
  if (part.link_bytes_per_s > 0) object["link_bytes_per_s"] = part.link_bytes_per_s;
  for (const MachinePart& below : part.parts) object["parts"].push_back(json_of(below));
  return object;
}

}  // namespace

std::string_view name_of(MachineKind kind) {
  constexpr std::string_view kNames[] = {
#define X(name, words) #name,
      TUTTI_MACHINE_KINDS(X)
#undef X
  };
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view words_of(MachineKind kind) {
  constexpr std::string_view kWords[] = {
#define X(name, words) words,
      TUTTI_MACHINE_KINDS(X)
#undef X
  };
  return kWords[static_cast<std::size_t>(kind)];
}

int MachinePart::count(MachineKind of) const {
  int found = kind == of ? 1 : 0;
  for (const MachinePart& part : parts) found += part.count(of);
  return found;
}

std::string summary_of(const MachinePart& machine) {
  std::string text = machine.name.empty() ? "machine" : machine.name;
  text += ":";
  const char* between = " ";
  for (const MachineKind kind : {MachineKind::package, MachineKind::numa, MachineKind::core, MachineKind::thread,
                                 MachineKind::gpu, MachineKind::nic}) {
    const int count = machine.count(kind);
    if (count == 0) continue;
    text += between + counted(count, std::string(words_of(kind)));
    between = ", ";
  }
  return machine.bytes == 0 ? text : text + between + words_of_size(machine.bytes);
}

std::string title_of(const MachinePart& part) {
  return numbered_title_of(part, part.number < 0 ? "" : std::to_string(part.number));
}

std::string to_tree(const MachinePart& machine) { return TreeText().of(machine); }

std::string to_json(const MachinePart& machine) { return json_text(json_of(machine), 2) + "\n"; }

}  // namespace tutti::topology
