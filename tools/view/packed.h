// Rows of whole numbers as the page gets them: by runs in which every row differs from the one before it by the same.
// What ranks do alike in a round takes one run. viewer/packed.js reads it.
//
//   of 2 numbers each, {5 0, 6 0, 7 0, 3 1}:  [1, 5, 0,   2, 1, 0,   1, -4, 1]       rows of a run, and the difference
//
// Before the first row all are 0.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <vector>

namespace tutti::view {

class Packed {
 public:
  explicit Packed(std::size_t width) : last_(width) {}

  void add(const std::vector<int>& row) {
    std::vector<int> difference(row.size());
    for (std::size_t i = 0; i < row.size(); ++i) difference[i] = row[i] - last_[i];
    last_ = row;
    if (rows_ > 0 && difference == difference_) {
      ++rows_;
      return;
    }
    end_run();
    rows_ = 1;
    difference_ = std::move(difference);
  }

  nlohmann::ordered_json numbers() {
    end_run();
    return std::move(numbers_);
  }

 private:
  void end_run() {
    if (rows_ == 0) return;
    numbers_.push_back(rows_);
    for (const int number : difference_) numbers_.push_back(number);
    rows_ = 0;
  }

  std::vector<int> last_, difference_;
  int rows_ = 0;  // of the run under way
  nlohmann::ordered_json numbers_ = nlohmann::ordered_json::array();
};

}  // namespace tutti::view
