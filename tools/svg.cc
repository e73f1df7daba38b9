#include "tools/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "tools/verbs.h"

namespace tutti::tools {
namespace {

// Hundredths of a pixel are finer than anybody sees.
std::string number(double value) {
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

// Bytes of the UTF-8 character that the text begins with; 0 where it begins with none, or with one that XML has no
// place for.
std::size_t length_of_character(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return first >= 0x20 || first == '\t' || first == '\n' || first == '\r' ? 1 : 0;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t at = 1; at < length; ++at) {
    if (byte(at) < 0x80 || byte(at) > 0xBF) return 0;
  }
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool none = (first == 0xED && byte(1) > 0x9F) || (first == 0xF4 && byte(1) > 0x8F) ||
                    (first == 0xEF && byte(1) == 0xBF && byte(2) >= 0xBE);
  return overlong || none ? 0 : length;
}

}  // namespace

std::string svg_escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = length_of_character(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(1, length));
    text.remove_prefix(character.size());
    if (length != 1) {
      out += length == 0 ? "\xEF\xBF\xBD" : character;
      continue;
    }
    switch (character.front()) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += character;
    }
  }
  return out;
}

std::string_view svg_colour(std::size_t which) {
  constexpr std::string_view kColours[] = {"#1b6ca8", "#d1495b", "#2e933c", "#edae49", "#6a4c93",
                                           "#00798c", "#8d6a4f", "#555555", "#e07a5f", "#3d9be9"};
  return kColours[which % std::size(kColours)];
}

Svg::Svg(double width, double height)
    : shapes_(fmt::format("<svg xmlns='http://www.w3.org/2000/svg' width='{0}' height='{1}' viewBox='0 0 {0} {1}' "
                          "font-family='sans-serif'>\n<rect width='100%' height='100%' fill='white'/>\n",
                          number(width), number(height))) {}

void Svg::add(std::string_view shape, const std::string& attributes, std::string_view note) {
  shapes_ += fmt::format("<{} {}", shape, attributes);
  shapes_ += note.empty() ? "/>\n" : fmt::format("><title>{}</title></{}>\n", svg_escaped(note), shape);
}

void Svg::line(Point from, Point to, std::string_view colour, double width, std::string_view dashes) {
  std::string attributes = fmt::format("x1='{}' y1='{}' x2='{}' y2='{}' stroke='{}' stroke-width='{}'", number(from.x),
                                       number(from.y), number(to.x), number(to.y), colour, number(width));
  if (!dashes.empty()) attributes += fmt::format(" stroke-dasharray='{}'", dashes);
  add("line", attributes, {});
}

void Svg::lines(std::span<const Point> points, std::string_view colour, double width) {
  std::string places;
  for (const Point& point : points) places += number(point.x) + "," + number(point.y) + " ";
  add("polyline",
      fmt::format("points='{}' fill='none' stroke-linejoin='round' stroke='{}' stroke-width='{}'", places, colour,
                  number(width)),
      {});
}

void Svg::box(const Box& box, std::string_view fill, std::string_view note, std::string_view stroke) {
  add("rect",
      fmt::format("x='{}' y='{}' width='{}' height='{}' fill='{}' stroke='{}'", number(box.x), number(box.y),
                  number(box.width), number(box.height), fill, stroke),
      note);
}

void Svg::circle(Point centre, double radius, std::string_view fill, std::string_view note, std::string_view stroke) {
  add("circle",
      fmt::format("cx='{}' cy='{}' r='{}' fill='{}' stroke='{}'", number(centre.x), number(centre.y), number(radius),
                  fill, stroke),
      note);
}

void Svg::text(Point at, std::string_view words, const Font& font) {
  constexpr std::string_view kAnchors[] = {"start", "middle", "end"};
  shapes_ += fmt::format("<text x='{}' y='{}' font-size='{}' text-anchor='{}' fill='{}'", number(at.x), number(at.y),
                         number(font.size), kAnchors[static_cast<std::size_t>(font.anchor)], font.colour);
  if (font.bold) shapes_ += " font-weight='bold'";
  if (font.turned != 0)
    shapes_ += fmt::format(" transform='rotate({} {} {})'", number(font.turned), number(at.x), number(at.y));
  shapes_ += fmt::format(">{}</text>\n", svg_escaped(words));
}

std::string page_head(std::string_view title) {
  constexpr const char* kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{0}</title>
<style>body{{font-family:sans-serif;max-width:1000px;margin:2em auto;color:#222}}
table{{border-collapse:collapse}}td,th{{padding:3px 10px;text-align:left;border-bottom:1px solid #ddd}}
td.n{{text-align:right}}</style></head><body>
<h1>{0}</h1>
)";
  return fmt::format(fmt::runtime(kHead), svg_escaped(title));
}

void write_picture(const std::string& path, const std::string& svg) {
  std::ofstream file(path);
  file << svg << std::flush;
  if (!file) refuse(fmt::format("cannot write '{}'; is the path right, and the disk not full?", path));
}

}  // namespace tutti::tools
