// A machine as boxes in boxes, and how pictures become files.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "tools/pictures.h"
#include "tools/svg.h"
#include "tools/verbs.h"

namespace tutti::tools {
namespace {

using topology::MachineKind;
using topology::MachinePart;

constexpr double kPad = 7, kTitle = 18, kSpacing = 7;

std::string_view fill_of(MachineKind kind) {
  switch (kind) {
    case MachineKind::machine: return "#ffffff";
    case MachineKind::package:
    case MachineKind::die:
    case MachineKind::group: return "#f0f0f0";
    case MachineKind::numa: return "#e9d8d8";
    case MachineKind::cache: return "#e3eefc";
    case MachineKind::core: return "#cfe3f3";
    case MachineKind::thread: return "#ffffff";
    case MachineKind::gpu: return "#d5ecd8";
    case MachineKind::nic: return "#fbe7c6";
    case MachineKind::disk:
    case MachineKind::device: return "#eeeeee";
  }
  return "white";
}

// A box with its title, and how large that is; boxes of parts lie in rows below the title.
struct Laid {
  const MachinePart* part = nullptr;
  std::vector<std::string> title;
  double x = 0, y = 0, width = 0, height = 0;  // x and y in the box around it
  std::vector<Laid> parts;
};

// In lines that small boxes can hold.
std::vector<std::string> lines_of(const MachinePart& part) {
  std::vector<std::string> lines{part.kind == MachineKind::machine ? topology::summary_of(part)
                                                                   : topology::title_of(part)};
  if (part.kind == MachineKind::machine) return lines;
  constexpr std::size_t kWidest = 34;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::size_t comma = lines[i].find(", ");
    if (lines[i].size() <= kWidest || comma == std::string::npos) continue;
    lines.push_back(lines[i].substr(comma + 2));
    lines[i].resize(comma);
  }
  return lines;
}

void put_in_rows(Laid& box) {
  double area = 0, widest = 0;
  for (const Laid& part : box.parts) {
    area += (part.width + kSpacing) * (part.height + kSpacing);
    widest = std::max(widest, part.width);
  }
  // Somewhat wider than high.
  const double limit = std::max(widest, std::sqrt(area) * 1.5);
  const double top = kPad + kTitle * static_cast<double>(box.title.size());
  double x = kPad, y = top, row = 0, right = 0;
  for (Laid& part : box.parts) {
    if (x > kPad && x + part.width > kPad + limit) {
      x = kPad;
      y += row + kSpacing;
      row = 0;
    }
    part.x = x;
    part.y = y;
    x += part.width + kSpacing;
    right = std::max(right, x - kSpacing);
    row = std::max(row, part.height);
  }
  double text = 0;
  for (const std::string& line : box.title) text = std::max(text, 6.4 * static_cast<double>(line.size()));
  box.width = std::max(right, text + kPad) + kPad;
  box.height = box.parts.empty() ? top + 2 : y + row + kPad;
}

Laid laid_out(const MachinePart& part) {
  Laid box{&part, lines_of(part), 0, 0, 0, 0, {}};
  for (const MachinePart& below : part.parts) box.parts.push_back(laid_out(below));
  put_in_rows(box);
  return box;
}

void add(Svg& svg, const Laid& box, double x, double y) {
  svg.box({x, y, box.width, box.height}, fill_of(box.part->kind), topology::title_of(*box.part), "#888888");
  for (std::size_t i = 0; i < box.title.size(); ++i)
    svg.text({x + kPad, y + kTitle * static_cast<double>(i + 1) - 3}, box.title[i],
             {11, Svg::Anchor::start, "#222222", box.part->kind == MachineKind::machine, 0});
  for (const Laid& part : box.parts) add(svg, part, x + part.x, y + part.y);
}

}  // namespace

std::string picture_of(const MachinePart& machine) {
  const Laid box = laid_out(machine);
  Svg svg(box.width + 20, box.height + 20);
  add(svg, box, 10, 10);
  return svg.str();
}

}  // namespace tutti::tools
