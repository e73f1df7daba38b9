// Cross entropy over a vocabulary that is cut: two calls, of one number and of two for every row.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "train/words.h"
#include "tutti/element.h"
#include "tutti/train/tensor_parallel.h"

namespace tutti::train {
namespace {

void require_lengths(std::size_t logits, std::size_t losses, std::size_t gradient, std::size_t rows,
                     std::size_t columns) {
  const auto require = [&](bool right, const std::string& what, std::size_t length) {
    if (!right)
      refuse_call("cross entropy: " + what + " has " + std::to_string(length) + " numbers, for " +
                  std::to_string(rows) + " rows of which this rank has " + std::to_string(columns) + " columns");
  };
  require(logits == rows * columns, "logits", logits);
  require(losses == rows, "losses", losses);
  require(gradient == 0 || gradient == logits, "the gradient", gradient);
}

template <class T>
void compute(TensorParallel& ranks, std::span<const T> logits, std::span<const std::int64_t> targets,
             std::int64_t vocabulary, std::span<T> losses, std::span<T> gradient) {
  const CutPart part = ranks.part_of(vocabulary);
  const std::size_t rows = targets.size(), columns = static_cast<std::size_t>(part.count);
  require_lengths(logits.size(), losses.size(), gradient.size(), rows, columns);
  for (std::size_t row = 0; row < rows; ++row)
    if (targets[row] < 0 || targets[row] >= vocabulary)
      refuse_call("cross entropy: the target of row " + std::to_string(row) + " is " + std::to_string(targets[row]) +
                  ", and the vocabulary has 0 .. " + std::to_string(vocabulary - 1));
  constexpr DType kType = Element::of<T>().dtype();
  std::vector<T> largest(rows, -std::numeric_limits<T>::infinity());
  for (std::size_t i = 0; i < logits.size(); ++i) largest[i / columns] = std::max(largest[i / columns], logits[i]);
  ranks.reduce(largest.data(), rows, kType, ReduceOp::maximum);
  std::vector<T> sums(2 * rows);  // of exponentials; then logits of targets, which one rank has
  const auto own_target = [&](std::size_t row) { return targets[row] - part.first; };
  const auto has_target = [&](std::size_t row) { return own_target(row) >= 0 && own_target(row) < part.count; };
  for (std::size_t row = 0; row < rows; ++row) {
    const std::span<const T> own = logits.subspan(row * columns, columns);
    for (const T logit : own) sums[row] += std::exp(logit - largest[row]);
    if (has_target(row)) sums[rows + row] = own[static_cast<std::size_t>(own_target(row))] - largest[row];
  }
  ranks.reduce(sums.data(), sums.size(), kType, ReduceOp::sum);
  for (std::size_t row = 0; row < rows; ++row) {
    losses[row] = std::log(sums[row]) - sums[rows + row];
    for (std::size_t i = row * columns; !gradient.empty() && i < (row + 1) * columns; ++i)
      gradient[i] = std::exp(logits[i] - largest[row]) / sums[row];
    if (!gradient.empty() && has_target(row)) gradient[row * columns + static_cast<std::size_t>(own_target(row))] -= 1;
  }
}

}  // namespace

void vocabulary_cross_entropy(TensorParallel& ranks, std::span<const float> logits,
                              std::span<const std::int64_t> targets, std::int64_t vocabulary, std::span<float> losses,
                              std::span<float> gradient) {
  compute(ranks, logits, targets, vocabulary, losses, gradient);
}
void vocabulary_cross_entropy(TensorParallel& ranks, std::span<const double> logits,
                              std::span<const std::int64_t> targets, std::int64_t vocabulary, std::span<double> losses,
                              std::span<double> gradient) {
  compute(ranks, logits, targets, vocabulary, losses, gradient);
}

}  // namespace tutti::train
