// A picture as SVG text: shapes in pixels from the top left, later ones over earlier ones.
// `note` is shown where the pointer rests on a shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tutti::tools {

// Colours that are told apart in print and by people who see few; they go round where there are more lines than that.
std::string_view svg_colour(std::size_t which);

// What stands for a text inside of XML or HTML.
std::string svg_escaped(std::string_view text);

class Svg {
 public:
  struct Point {
    double x = 0, y = 0;
  };
  struct Box {
    double x = 0, y = 0, width = 0, height = 0;
  };
  enum class Anchor : std::uint8_t { start, middle, end };  // which part of a text stands at its point
  struct Font {
    double size = 12;
    Anchor anchor = Anchor::start;
    std::string_view colour = "#222222";
    bool bold = false;
    double turned = 0;  // degrees, clockwise
  };

  Svg(double width, double height);

  void line(Point from, Point to, std::string_view colour, double width = 1, std::string_view dashes = {});
  void lines(std::span<const Point> points, std::string_view colour, double width = 1);
  void box(const Box& box, std::string_view fill, std::string_view note = {}, std::string_view stroke = "none");
  void circle(Point centre, double radius, std::string_view fill, std::string_view note = {},
              std::string_view stroke = "none");
  void text(Point at, std::string_view words, const Font& font);
  void text(Point at, std::string_view words) { text(at, words, Font()); }

  // The whole document.
  std::string str() const { return shapes_ + "</svg>\n"; }

 private:
  void add(std::string_view shape, const std::string& attributes, std::string_view note);

  std::string shapes_;
};

// What a page that needs nothing else begins with, up to its heading; cells of class n hold numbers.
std::string page_head(std::string_view title);

// Ends the command, in words, where the file cannot be written.
void write_picture(const std::string& path, const std::string& svg);

}  // namespace tutti::tools
