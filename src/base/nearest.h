// Which of the names there are is most like one that there is not.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

// Letters to add, leave out or change until one is the other.
inline std::size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row[b.size()];
}

// The nearest of `names`, several if they are equally near, as "all_reduce" or "gather or scatter"; empty where none is
// within a third of its length.
inline std::string nearest_to(std::string_view name, std::span<const std::string_view> names) {
  std::string text;
  std::size_t best = name.size() / 3 + 2;
  for (const std::string_view known : names) {
    const std::size_t edits = edits_between(name, known);
    if (edits >= best && (edits > best || text.empty())) continue;
    text = edits == best ? text + " or " + std::string(known) : std::string(known);
    best = edits;
  }
  return text;
}

}  // namespace tutti
