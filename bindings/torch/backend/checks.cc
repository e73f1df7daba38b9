// What must hold before the core is asked, and the words where it does not.
#include <algorithm>

#include "backend/backend.h"

namespace tutti::pytorch {

void Backend::require_root(std::int64_t root, const char* verb) const {
  if (root >= 0 && root < getSize()) return;
  throw_value(std::string(verb) + ": root " + std::to_string(root) + " is not a rank of this group of " +
              std::to_string(getSize()));
}

void Backend::require_one(const Tensors& tensors, const char* verb) const {
  if (tensors.size() != 1)
    throw_value(std::string(verb) + ": one tensor is needed, not " + std::to_string(tensors.size()));
  require_usable(tensors.front(), verb);
}

void Backend::require_ranks(const Tensors& tensors, const char* verb) const {
  if (tensors.size() != ranks()) {
    throw_value(std::string(verb) + ": a list of " + std::to_string(tensors.size()) +
                " tensors; one per rank is needed, " + std::to_string(ranks()));
  }
  require_usable(tensors, verb);
}

void Backend::require_own_part(const at::Tensor& alone, const Tensors& list, const char* verb, const char* alone_name,
                               const char* list_name) const {
  const at::Tensor& part = list[static_cast<std::size_t>(getRank())];
  if (alone.numel() == part.numel()) return;
  throw_value(std::string(verb) + ": " + alone_name + " has " + std::to_string(alone.numel()) +
              " elements, but this rank's of the list of " + list_name + " has " + std::to_string(part.numel()));
}

void Backend::require_times_ranks(const at::Tensor& part, const at::Tensor& all, const char* verb, const char* all_name,
                                  const char* part_name) const {
  require_usable({part, all}, verb);
  if (count_of(all) == count_of(part) * ranks()) return;
  throw_value(std::string(verb) + ": " + all_name + " has " + std::to_string(all.numel()) + " elements; with " +
              std::to_string(part.numel()) + " in " + part_name + " and " + std::to_string(ranks()) +
              " ranks it must have " + std::to_string(count_of(part) * ranks()));
}

void Backend::require_pairs(const Tensors& outputs, const Tensors& inputs, const char* verb) {
  if (outputs.size() == inputs.size()) return;
  throw_value(std::string(verb) + ": " + std::to_string(inputs.size()) + " inputs and " +
              std::to_string(outputs.size()) + " outputs; as many of each are needed");
}

std::vector<std::size_t> Backend::counts_of_splits(const at::Tensor& tensor, const std::vector<std::int64_t>& splits,
                                                   const char* verb, const char* name) const {
  const std::string where = std::string(verb) + ": the " + name;
  const auto p = static_cast<std::int64_t>(ranks());
  if (splits.empty()) {
    const bool whole = tensor.dim() == 0 ? p == 1 : tensor.size(0) % p == 0;
    if (!whole) {
      throw_value(where + " has " + (tensor.dim() == 0 ? std::string("no") : std::to_string(tensor.size(0))) +
                  " rows, which cannot be divided among " + std::to_string(p) + " ranks; give split sizes");
    }
    return std::vector<std::size_t>(ranks(), count_of(tensor) / ranks());
  }
  if (splits.size() != ranks())
    throw_value(where + " has " + std::to_string(splits.size()) + " split sizes; one per rank is needed, " +
                std::to_string(p));
  const std::int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  std::int64_t sum = 0;
  for (const std::int64_t split : splits) {
    if (split < 0) throw_value(where + " has a negative split size, " + std::to_string(split));
    sum += split;
  }
  if (sum != rows) {
    throw_value(where + " has " + std::to_string(rows) + " rows, but its split sizes add up to " + std::to_string(sum));
  }
  const std::size_t row = rows == 0 ? 0 : count_of(tensor) / static_cast<std::size_t>(rows);
  std::vector<std::size_t> counts;
  for (const std::int64_t split : splits) counts.push_back(static_cast<std::size_t>(split) * row);
  return counts;
}

}  // namespace tutti::pytorch
