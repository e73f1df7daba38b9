// How the cheat sheet draws: ranks turn their elements into cells, rank 0 gathers and prints them in order.
//
// An element is a number with one bit set: element i of rank r is bit 10 r + i and is drawn as a letter and a digit, B3
// for rank 1's element 3. Sums of such numbers have one bit for each addend, so that a picture of a sum shows exactly
// what was added, ABCD0; something added twice would carry into another bit and show as another cell.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <tutti/tutti.hpp>
#include <vector>

namespace sheet {

using Value = std::uint64_t;
using Values = std::vector<Value>;
inline constexpr int kMostRanks = 6, kMostElements = 10;

constexpr Value element(int rank, int index) { return Value{1} << (kMostElements * rank + index); }

// Element `index`, summed over ranks first .. last.
constexpr Value sum(int first, int last, int index) {
  Value value = 0;
  for (int rank = first; rank <= last; ++rank) value += element(rank, index);
  return value;
}

// The first `count` elements of a rank: A0 A1 A2.
inline Values elements(int rank, std::size_t count) {
  Values values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(element(rank, static_cast<int>(i)));
  return values;
}

// What a cell says, in a form that can be sent.
struct Cell {
  char text[8] = {};

  explicit Cell(std::string_view says = {}) { says.copy(text, sizeof text - 1); }
};

inline Cell cell_of(Value value) {
  if (value == 0) return Cell("··");
  std::string text;
  int index = -1;
  for (int rank = 0; rank < kMostRanks; ++rank) {
    const Value bits = value >> (kMostElements * rank) & ((Value{1} << kMostElements) - 1);
    if (bits == 0) continue;
    const int found = std::countr_zero(bits);
    if (!std::has_single_bit(bits) || (index >= 0 && index != found)) return Cell("?");  // no sum of one index
    index = found;
    text += static_cast<char>('A' + rank);
  }
  return Cell(text + std::to_string(index));
}

// The cells of all ranks, with the outline of what there is.
class Panel {
 public:
  Panel(std::string label, std::vector<std::vector<Cell>> rows) : label_(std::move(label)), rows_(std::move(rows)) {
    for (const auto& row : rows_) {
      columns_ = std::max(columns_, row.size());
      for (const Cell& cell : row) width_ = std::max(width_, columns_of(cell) + 2);
    }
  }
  std::size_t width() const { return std::max(columns_ == 0 ? 0 : columns_ * (width_ + 1) + 1, label_.size()); }
  std::size_t ranks() const { return rows_.size(); }
  std::size_t cells_of(std::size_t rank) const { return rank < rows_.size() ? rows_[rank].size() : 0; }
  std::string heading() const { return label_ + std::string(width() - label_.size(), ' '); }

  // The line between rank `below` and the one before it: where one has a cell and the other has none.
  std::string border(std::size_t below) const {
    static constexpr const char* kJoints[] = {" ", "╴", "╶", "─", "╵", "┘", "└", "┴",
                                              "╷", "┐", "┌", "┬", "│", "┤", "├", "┼"};
    const std::size_t above_cells = below == 0 ? 0 : cells_of(below - 1), below_cells = cells_of(below);
    const auto ends = [&](std::size_t column) { return (column < above_cells) != (column < below_cells); };
    std::string line;
    for (std::size_t column = 0; column <= columns_ && columns_ != 0; ++column) {
      const unsigned left = column > 0 && ends(column - 1), right = column < columns_ && ends(column);
      const unsigned up = above_cells != 0 && column <= above_cells, down = below_cells != 0 && column <= below_cells;
      line += kJoints[left + 2 * right + 4 * up + 8 * down];
      for (std::size_t i = 0; i < width_ && column < columns_; ++i) line += right != 0 ? "─" : " ";
    }
    return line + rest();
  }

  std::string row(std::size_t rank, bool colour) const {
    std::string line = rows_[rank].empty() ? " " : "│";
    for (std::size_t column = 0; column < columns_; ++column) {
      const bool there = column < rows_[rank].size();
      line += there ? filled(rows_[rank][column], colour) : std::string(width_, ' ');
      line += there ? "│" : " ";
    }
    return columns_ == 0 ? rest() : line + rest();
  }

 private:
  static std::size_t columns_of(const Cell& cell) {
    const std::string_view text(cell.text);
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
      return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;  // UTF-8: not the first byte of a character
    }));
  }
  std::string rest() const { return std::string(width() - (columns_ == 0 ? 0 : columns_ * (width_ + 1) + 1), ' '); }
  std::string filled(const Cell& cell, bool colour) const {
    const std::size_t spaces = width_ - columns_of(cell);
    const std::string text = std::string(spaces / 2, ' ') + cell.text + std::string(spaces - spaces / 2, ' ');
    if (!colour) return text;
    static constexpr const char* kOfRank[kMostRanks] = {"153", "216", "157", "183", "222", "159"};
    const int letter = cell.text[0] - 'A';
    const bool single = letter >= 0 && letter < kMostRanks && std::string_view(cell.text).size() == 2;
    if (single) return "\033[30;48;5;" + std::string(kOfRank[letter]) + "m" + text + "\033[0m";
    return "\033[1;97;48;5;60m" + text + "\033[0m";
  }

  std::string label_;
  std::vector<std::vector<Cell>> rows_;
  std::size_t columns_ = 0, width_ = 0;
};

class Sheet {
 public:
  explicit Sheet(tutti::Communicator& comm)
      : comm_(comm), colour_(::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr) {}

  // A verb begins: its name, and where training uses it.
  void verb(std::string name, std::string use) {
    name_ = std::move(name);
    use_ = std::move(use);
    calls_.clear();
    panels_.clear();
  }
  // Once, however often it is made.
  void call(std::string text) {
    if (std::find(calls_.begin(), calls_.end(), text) == calls_.end()) calls_.push_back(std::move(text));
  }
  void before(const std::string& label, const std::vector<Cell>& mine) {
    panels_.push_back(collect("before: " + label, mine));
  }
  void before(const std::string& label, const Values& mine) { before(label, cells_of(mine)); }
  // Draws the verb, and remembers whether this rank got what it should.
  void after(const std::string& label, const std::vector<Cell>& mine, bool right) {
    panels_.push_back(collect("after: " + label, mine));
    if (!right) wrong_ += wrong_.empty() ? name_ : ", " + name_;
    if (comm_.rank() == 0) draw();
  }
  void after(const std::string& label, const Values& mine, const Values& expected) {
    after(label, cells_of(mine), mine == expected);
  }
  void line(const std::string& text) const {
    if (comm_.rank() == 0) std::printf("%s\n", text.c_str());
  }
  void part(const std::string& title) const {
    std::string rule;
    for (std::size_t i = title.size(); i < 90; ++i) rule += "━";
    line("\n━━━ " + title + " " + rule);
  }
  // The verbs that went wrong on this rank.
  const std::string& wrong() const { return wrong_; }

 private:
  static std::vector<Cell> cells_of(const Values& values) {
    std::vector<Cell> cells;
    for (const Value value : values) cells.push_back(cell_of(value));
    return cells;
  }

  // Rank 0 gets the cells of all ranks, the others an empty panel.
  Panel collect(const std::string& label, const std::vector<Cell>& mine) {
    const std::vector<std::size_t> count{mine.size()};
    std::vector<std::size_t> counts(static_cast<std::size_t>(comm_.rank() == 0 ? comm_.size() : 0));
    comm_.gather(count, counts, 0);
    std::size_t total = 0;
    for (const std::size_t each : counts) total += each;
    std::vector<Cell> all(total);
    comm_.gather_v(mine, all, {counts}, 0);
    std::vector<std::vector<Cell>> rows;
    auto from = all.begin();
    for (const std::size_t each : counts) {
      rows.emplace_back(from, from + static_cast<std::ptrdiff_t>(each));
      from += static_cast<std::ptrdiff_t>(each);
    }
    return {label, rows};
  }

  void draw() const {
    const char *bold = colour_ ? "\033[1m" : "", *dim = colour_ ? "\033[2m" : "", *plain = colour_ ? "\033[0m" : "";
    std::printf("\n%s%s%s\n", bold, name_.c_str(), plain);
    for (const std::string& call : calls_) std::printf("    %s;\n", call.c_str());
    put("", [](const Panel& panel, bool) { return panel.heading(); });
    const std::size_t ranks = panels_[0].ranks();
    for (std::size_t rank = 0; rank <= ranks; ++rank) {
      const bool outlined = rank == 0 || std::any_of(panels_.begin(), panels_.end(), [&](const Panel& panel) {
                              return panel.cells_of(rank - 1) != panel.cells_of(rank);
                            });
      if (outlined) put("", [&](const Panel& panel, bool) { return panel.border(rank); });
      if (rank == ranks) break;
      put(
          "rank " + std::to_string(rank), [&](const Panel& panel, bool colour) { return panel.row(rank, colour); },
          rank == (ranks - 1) / 2);
    }
    std::printf("  %sin training: %s%s\n", dim, use_.c_str(), plain);
    std::fflush(stdout);
  }

  template <class Text>
  void put(const std::string& margin, const Text& text, bool arrow = false) const {
    std::string line = "  " + margin + std::string(8 - margin.size(), ' ');
    for (std::size_t i = 0; i < panels_.size(); ++i) {
      if (i > 0) line += arrow ? "  →  " : "     ";
      line += text(panels_[i], colour_);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::printf("%s\n", line.c_str());
  }

  tutti::Communicator& comm_;
  bool colour_;
  std::string name_, use_, wrong_;
  std::vector<std::string> calls_;
  std::vector<Panel> panels_;
};

}  // namespace sheet
