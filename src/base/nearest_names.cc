#include "base/nearest_names.h"

#include <algorithm>
#include <utility>

namespace tutti {
namespace {

// Letters to change, leave out or add (Levenshtein).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, changed}));
    }
  }
  return row.back();
}

bool is_near(std::string_view name, std::string_view known) {
  constexpr std::size_t kTelling = 3;  // fewer letters are in too many names
  if (name.size() >= kTelling && known.find(name) != std::string_view::npos) return true;
  if (known.size() >= kTelling && name.find(known) != std::string_view::npos) return true;
  const std::size_t apart = distance(name, known);
  return apart <= std::max<std::size_t>(2, name.size() / 3) && apart < known.size();
}

}  // namespace

std::vector<std::string_view> nearest_names(std::string_view name, const std::vector<std::string_view>& names) {
  constexpr std::size_t kMost = 3;
  std::vector<std::string_view> near;
  for (const std::string_view known : names) {
    if (is_near(name, known)) near.push_back(known);
  }
  std::stable_sort(near.begin(), near.end(),
                   [&](std::string_view a, std::string_view b) { return distance(name, a) < distance(name, b); });
  if (near.size() > kMost) near.resize(kMost);
  return near;
}

std::string none_called(const std::string& what, std::string_view name, const std::vector<std::string_view>& names,
                        const std::string& behind) {
  std::string words = "no " + what + " '" + std::string(name) + "'" + behind + ";";
  const std::vector<std::string_view> near = nearest_names(name, names);
  for (std::size_t i = 0; i < near.size(); ++i)
    words += (i == 0 ? " did you mean " : i + 1 < near.size() ? ", " : " or ") + std::string(near[i]);
  words += near.empty() ? " there are:" : "? there are:";
  for (std::size_t i = 0; i < names.size(); ++i) words += (i == 0 ? " " : ", ") + std::string(names[i]);
  return words;
}

}  // namespace tutti
