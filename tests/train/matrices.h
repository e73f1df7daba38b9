// Matrices row by row, for models that tests compute themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tutti/train/tensor_parallel.h"

namespace tutti::testing {

template <class T>
using Array = std::vector<T>;

// Adds a b to c.
template <class T>
void multiply(const T* a, const T* b, T* c, std::size_t rows, std::size_t inner, std::size_t columns) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t k = 0; k < inner; ++k)
      for (std::size_t j = 0; j < columns; ++j) c[i * columns + j] += a[i * inner + k] * b[k * columns + j];
}

template <class T>
Array<T> turned(const T* matrix, std::size_t rows, std::size_t columns) {
  Array<T> turned(rows * columns);
  for (std::size_t i = 0; i < turned.size(); ++i) turned[i % columns * rows + i / columns] = matrix[i];
  return turned;
}
template <class T>
Array<T> turned(const Array<T>& matrix, std::size_t columns) {
  return turned(matrix.data(), matrix.size() / columns, columns);
}

template <class T>
Array<T> columns_of(const Array<T>& matrix, std::size_t columns, const train::CutPart& part) {
  Array<T> cut;
  for (std::size_t row = 0; row < matrix.size() / columns; ++row)
    for (std::int64_t i = 0; i < part.count; ++i)
      cut.push_back(matrix[row * columns + static_cast<std::size_t>(part.first + i)]);
  return cut;
}

// Rank `rank`'s rows of as many on each.
template <class T>
Array<T> even_rows_of(const Array<T>& whole, int ranks, int rank) {
  const auto count = static_cast<std::ptrdiff_t>(whole.size()) / ranks;
  return {whole.begin() + rank * count, whole.begin() + (rank + 1) * count};
}

}  // namespace tutti::testing
