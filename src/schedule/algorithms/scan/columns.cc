#include "schedule/algorithms/scan/columns.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>

namespace tutti::schedule {
namespace {

struct Digit {
  std::size_t size;  // inputs that it is the total of
  Operand total;
};

class Counter {
 public:
  Counter(std::size_t inputs, const BlockSet& mine, int first_plane)
      : inputs_(inputs), mine_(mine), first_plane_(first_plane), kept_(inputs < 2 ? 0 : level(inputs - 1)) {}

  // The last input of an odd number.
  void add(const Operand& input, const Operand& result) { fold(input, result); }

  // Both are loaded before a result is stored, so that the results may take the places of the inputs.
  void add(const Operand& first, const Operand& second, const std::optional<Operand>& first_result,
           const Operand& second_result) {
    added_ += 2;
    Digit sum{2, join(first, {1, second}, second_result)};
    if (first_result) fold(first, *first_result);
    while (!digits_.empty() && digits_.back().size == sum.size) {
      const Operand before = digits_.back().total;
      digits_.pop_back();
      sum = {2 * sum.size, join(before, sum, second_result)};
    }
    if (sum.size != added_) fold(sum.total, second_result);  // else the last join has left it there
    digits_.push_back(sum);
  }

  Columns take() {
    columns_.planes = std::max(columns_.planes, first_plane_);
    return std::move(columns_);
  }

 private:
  static int level(std::size_t size) { return static_cast<int>(std::bit_width(size)) - 1; }

  // The digits so far, and what comes behind them.
  void fold(Operand rest, const Operand& result) {
    if (digits_.empty()) columns_.steps.push_back(copy_step({result}, rest));
    for (std::size_t i = digits_.size(); i-- > 0;) {
      const Operand place = i == 0 ? result : scratch(kept_ + 1);
      columns_.steps.push_back(reduce_step({place}, {digits_[i].total, rest}, false));
      rest = place;
    }
  }

  // Two digits of one size make the next one, which is kept in a plane of its own where it stays a digit.
  Operand join(const Operand& before, const Digit& sum, const Operand& result) {
    const bool carried = !digits_.empty() && digits_.back().size == 2 * sum.size;
    const bool whole = 2 * sum.size == added_;
    const bool needed = added_ < inputs_;
    const bool passing = carried || (!needed && !whole);
    const Operand kept = passing ? scratch(kept_) : needed ? scratch(level(sum.size)) : result;
    std::vector<Operand> places{kept};
    if (whole && needed) places.push_back(result);
    columns_.steps.push_back(reduce_step(std::move(places), {before, sum.total}, false));
    return kept;
  }

  Operand scratch(int plane) {
    columns_.planes = std::max(columns_.planes, first_plane_ + plane + 1);
    return Operand::own(Buffer::scratch, mine_, first_plane_ + plane);
  }

  const std::size_t inputs_;
  const BlockSet mine_;
  const int first_plane_;
  const int kept_;  // planes for digits; behind them one for a sum on its way, and one for a result on its way
  std::size_t added_ = 0;
  std::vector<Digit> digits_;
  Columns columns_;
};

}  // namespace

Columns columns(const std::vector<Operand>& inputs, const std::vector<std::optional<Operand>>& results,
                const BlockSet& mine, int first_plane) {
  Counter counter(inputs.size(), mine, first_plane);
  std::size_t i = 0;
  for (; i + 1 < inputs.size(); i += 2) counter.add(inputs[i], inputs[i + 1], results[i], *results[i + 1]);
  if (i < inputs.size()) counter.add(inputs[i], *results[i]);
  return counter.take();
}

}  // namespace tutti::schedule
