// Text in columns: widths and padding that count characters, not the bytes of their UTF-8 form.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace tutti::schedule {

// Columns a terminal needs for `text`, which holds no character wider than one column.
inline std::size_t width_of(std::string_view text) {
  const auto continues = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; };
  return text.size() - static_cast<std::size_t>(std::count_if(text.begin(), text.end(), continues));
}

// `text` with spaces behind it up to `width` columns.
inline std::string padded(std::string_view text, std::size_t width) {
  const std::size_t have = width_of(text);
  return std::string(text) + std::string(have < width ? width - have : 0, ' ');
}

// `line` without the spaces at its end.
inline std::string trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

// Adds phrases to lines of at most `columns`; lines after the first start at column `indent`.
class Wrapped {
 public:
  Wrapped(std::string first, std::size_t indent, std::size_t columns)
      : text_(std::move(first)), column_(width_of(text_)), indent_(indent), columns_(columns) {}

  void add(std::string_view phrase, std::string_view gap = "  ") {
    if (column_ + width_of(gap) + width_of(phrase) > columns_) {
      text_ += "\n" + std::string(indent_, ' ');
      column_ = indent_;
    } else {
      text_ += gap;
      column_ += width_of(gap);
    }
    text_ += phrase;
    column_ += width_of(phrase);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::size_t column_;
  std::size_t indent_;
  std::size_t columns_;
};

}  // namespace tutti::schedule
