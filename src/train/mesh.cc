#include "tutti/train/mesh.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <numeric>

#include "base/formatted.h"
#include "base/nearest_names.h"
#include "train/agreement.h"
#include "train/words.h"

namespace tutti::train {
namespace {

// How much an axis of this name talks in a step, the most first: of a layer's activations, of some of them, of those
// between stages, of gradients once.
int distance_of(std::string_view name) {
  constexpr std::string_view kNear[] = {"tp", "ep", "cp", "sp", "pp"};
  constexpr int kDistance[] = {0, 1, 1, 1, 2};
  const auto found = std::find(std::begin(kNear), std::end(kNear), name);
  return found == std::end(kNear) ? 3 : kDistance[found - std::begin(kNear)];
}

std::string in_words(const MeshAxis& axis) { return "axis \"" + axis.name + "\" of " + std::to_string(axis.size); }

// All ranks gave the same, so that all of them come to the same end below.
void require_same(Communicator& communicator, const std::vector<MeshAxis>& axes, const MeshOptions& options) {
  std::vector<std::string> things;
  for (const MeshAxis& axis : axes) things.push_back(in_words(axis));
  for (const std::string& name : options.nearest) things.push_back("\"" + name + "\" in the order of nearness");
  std::vector<std::uint64_t> hashes;
  for (const std::string& thing : things) hashes.push_back(hash_of_text(thing));
  Sentence said;
  require_alike(
      communicator, hashes, [&](std::size_t i) { return things[i]; }, "make the same mesh on all ranks", said);
}

void require_possible(const std::vector<MeshAxis>& axes, int ranks) {
  if (axes.empty()) refuse_call("a mesh needs axes, such as {{\"dp\", 2}, {\"tp\", 4}}");
  std::int64_t product = 1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].name.empty()) refuse_call("axis " + std::to_string(i) + " of the mesh has no name; give it one");
    if (axes[i].size < 1) refuse_call("the mesh has " + in_words(axes[i]) + "; a size is 1 at least");
    for (std::size_t j = 0; j < i; ++j)
      if (axes[j].name == axes[i].name) refuse_call("the mesh has two axes named \"" + axes[i].name + "\"; rename one");
    product = std::min<std::int64_t>(product * axes[i].size, std::int64_t{1} << 31);
  }
  if (product == ranks) return;
  std::string words = "the mesh " + to_text(axes) + " has " + std::to_string(product) +
                      " ranks, and the communicator " + std::to_string(ranks);
  for (const MeshAxis& axis : axes) {  // the last of dp, or of any, that could make up for it
    const std::int64_t others = product / axis.size;
    if (axis.name == "dp" && others > 0 && ranks % others == 0)
      refuse_call(words + "; give dp " + std::to_string(ranks / others) + ", or start " + std::to_string(product) +
                  " ranks");
  }
  refuse_call(words + "; sizes must multiply to that");
}

std::vector<std::size_t> order_of(const std::vector<MeshAxis>& axes, const MeshOptions& options) {
  std::vector<std::size_t> order;
  for (std::size_t i = axes.size(); i-- > 0;) order.push_back(i);
  if (options.nearest.empty()) {
    std::ranges::stable_sort(order, {}, [&](std::size_t axis) { return distance_of(axes[axis].name); });
    return order;
  }
  order.clear();
  for (const std::string& name : options.nearest) {
    const auto found = std::ranges::find(axes, name, &MeshAxis::name);
    const auto axis = static_cast<std::size_t>(found - axes.begin());
    if (found == axes.end())
      refuse_call("the order of nearness names \"" + name + "\", and the mesh is " + to_text(axes));
    if (std::ranges::find(order, axis) != order.end())
      refuse_call("the order of nearness names \"" + name + "\" twice; name every axis once");
    order.push_back(axis);
  }
  if (order.size() != axes.size())
    refuse_call("the order of nearness names " + std::to_string(order.size()) + " axes, and the mesh " + to_text(axes) +
                " has " + std::to_string(axes.size()) + "; name every axis once");
  return order;
}

// By rank, by axis: along ranks of one host behind each other, the nearest axis changes fastest.
std::vector<std::vector<int>> places_of(const std::vector<MeshAxis>& axes, const std::vector<std::size_t>& nearest,
                                        const std::vector<int>& hosts) {
  std::vector<std::size_t> along(hosts.size());
  std::iota(along.begin(), along.end(), std::size_t{0});
  std::ranges::stable_sort(along, {}, [&](std::size_t rank) { return hosts[rank]; });
  std::vector<std::vector<int>> places(hosts.size(), std::vector<int>(axes.size()));
  for (std::size_t at = 0; at < along.size(); ++at) {
    int rest = static_cast<int>(at);
    for (const std::size_t axis : nearest) {
      places[along[at]][axis] = rest % axes[axis].size;
      rest /= axes[axis].size;
    }
  }
  return places;
}

}  // namespace

std::vector<MeshAxis> parse_mesh(std::string_view text) {
  const auto fail = [&](const std::string& why) {
    refuse_call("the mesh \"" + std::string(text) + "\": " + why +
                "; axes with their sizes belong there, such as dp2.tp8");
  };
  std::vector<MeshAxis> axes;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('.', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    const std::size_t digits = std::min(word.find_first_of("0123456789"), word.size());
    MeshAxis axis{std::string(word.substr(0, digits)), 0};
    const std::string_view number = word.substr(digits);
    const auto parsed = std::from_chars(number.data(), number.data() + number.size(), axis.size);
    if (axis.name.empty()) fail("\"" + std::string(word) + "\" has no name");
    if (parsed.ec != std::errc() || parsed.ptr != number.data() + number.size() || axis.size < 1)
      fail("axis \"" + axis.name + "\" has no size from 1 on");
    if (std::ranges::find(axes, axis.name, &MeshAxis::name) != axes.end())
      fail("axis \"" + axis.name + "\" is there twice");
    axes.push_back(std::move(axis));
    at = end + 1;
  }
  return axes;
}

std::string to_text(std::span<const MeshAxis> axes) {
  std::string text;
  for (const MeshAxis& axis : axes) text += (text.empty() ? "" : ".") + axis.name + std::to_string(axis.size);
  return text;
}

Mesh::Mesh(Communicator& communicator, std::vector<MeshAxis> axes, const MeshOptions& options)
    : axes_(std::move(axes)), all_(communicator.duplicate()) {
  require_same(all_, axes_, options);
  require_possible(axes_, all_.size());
  nearest_ = order_of(axes_, options);
  coordinates_ = places_of(axes_, nearest_, communicator.hosts());
  for (const MeshAxis& axis : axes_) {
    groups_.push_back(axis.size == 1 ? all_.self() : group({axis.name}));
  }
}

bool Mesh::has(std::string_view axis) const { return std::ranges::find(axes_, axis, &MeshAxis::name) != axes_.end(); }

std::size_t Mesh::number_of(std::string_view axis) const {
  const auto found = std::ranges::find(axes_, axis, &MeshAxis::name);
  if (found != axes_.end()) return static_cast<std::size_t>(found - axes_.begin());
  std::vector<std::string_view> names;
  for (const MeshAxis& known : axes_) names.emplace_back(known.name);
  refuse_call("the mesh " + train::to_text(axes_) + ": " + none_called("axis", axis, names));
}

int Mesh::size(std::string_view axis) const { return axes_[number_of(axis)].size; }

int Mesh::coordinate(std::string_view axis) const { return coordinate(axis, all_.rank()); }

int Mesh::coordinate(std::string_view axis, int rank) const {
  const std::size_t number = number_of(axis);
  if (rank < 0 || rank >= all_.size())
    refuse_call("the mesh " + train::to_text(axes_) + " has no rank " + std::to_string(rank));
  return coordinates_[static_cast<std::size_t>(rank)][number];
}

Communicator& Mesh::along(std::string_view axis) { return groups_[number_of(axis)]; }

Communicator Mesh::group(const std::vector<std::string_view>& axes) {
  const std::vector<int>& own = coordinates_[static_cast<std::size_t>(all_.rank())];
  std::vector<bool> within(axes_.size());
  int key = 0, color = 0;
  for (const std::string_view axis : axes) {
    const std::size_t number = number_of(axis);
    if (within[number]) refuse_call("a group along axis \"" + std::string(axis) + "\" twice; name it once");
    within[number] = true;
    key = key * axes_[number].size + own[number];
  }
  for (std::size_t i = 0; i < axes_.size(); ++i)
    if (!within[i]) color = color * axes_[i].size + own[i];
  return all_.split(color, key);
}

std::string Mesh::to_text() const {
  std::string text =
      "mesh " + train::to_text(axes_) + ", " + std::to_string(all_.size()) + " ranks; nearest to each other:";
  for (std::size_t i = 0; i < nearest_.size(); ++i) text += (i == 0 ? " " : ", then ") + axes_[nearest_[i]].name;
  text += "\n  rank  host";
  for (const MeshAxis& axis : axes_) text += formatted("  %4s", axis.name.c_str());
  const std::vector<int> hosts = all_.hosts();
  for (std::size_t rank = 0; rank < coordinates_.size(); ++rank) {
    text += formatted("\n  %4zu  %4d", rank, hosts[rank]);
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      const int width = std::max<int>(4, static_cast<int>(axes_[i].name.size()));
      text += formatted("  %*d", width, coordinates_[rank][i]);
    }
  }
  return text + "\n";
}

}  // namespace tutti::train
